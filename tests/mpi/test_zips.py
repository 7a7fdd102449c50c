"""Zip archives behind HTTP and S3: the same samples as from the directory, one request for each chunk; and what is said of an
archive that is none, is changed, is cut or lies at a server without ranges."""

import os
import re
import struct
import threading
import unittest
import zipfile

import servers
import test_remote


class Counting:
    """Numbers of answers; before the one numbered `at`, does something."""

    def __init__(self, at, act):
        self.lock, self.number, self.at, self.act = threading.Lock(), -1, at, act

    def __next__(self):
        with self.lock:
            self.number += 1
            if self.number == self.at:
                self.act()
            return self.number


def pipe_to(file):
    """A file that cannot go back, as a pipe."""
    class Pipe:
        def write(self, data):
            return file.write(data)

        def flush(self):
            file.flush()
    return Pipe()


class Archives(test_remote.RemoteTest):
    @classmethod
    def pack(cls, name, source="v2", method=zipfile.ZIP_STORED, force_zip64=False, local=b"", ended=False):
        """`local`: an extra field that the directory does not have. `ended`: as written to a pipe, sizes behind the data."""
        path, root = os.path.join(cls.datasets, name), os.path.join(cls.datasets, source)
        with open(path, "wb") as file, zipfile.ZipFile(pipe_to(file) if ended else file, "w", method) as archive:
            for parent, _, files in os.walk(root):
                for key in files:
                    info = zipfile.ZipInfo(os.path.relpath(os.path.join(parent, key), root))
                    info.compress_type, info.extra = method, local
                    with open(os.path.join(parent, key), "rb") as content, \
                            archive.open(info, "w", force_zip64=force_zip64) as out:
                        out.write(content.read())
                    info.extra = b""
        return path

    def odd(self, **ways):
        server = servers.Odd(self.datasets, **ways)
        self.addCleanup(server.close)
        return server


def places(path):
    """Where each entry's stored bytes lie: (first, last)."""
    found = set()
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for info in archive.infolist():
            file.seek(info.header_offset + 26)
            begin = info.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
            found.add((begin, begin + info.compress_size - 1))
    return found


class Http(Archives):
    def asked(self, server):
        """Ranges but that of the end, where the directory lies."""
        ranges = [tuple(map(int, re.findall(r"\d+", asked))) for command, _, asked in server.asked if command == "GET"]
        return ranges[1:]

    def test_one_request_for_each_chunk(self):
        """Also of archives with more in their local headers than the directory says, and with sizes behind the data."""
        for name, options in (("plain", {}), ("large", {"force_zip64": True}), ("ended", {"ended": True}),
                              ("deflated", {"method": zipfile.ZIP_DEFLATED})):
            with self.subTest(name):
                path, server = self.pack(name + ".zip", **options), self.odd()
                self.check(f"{server.url}/{name}.zip", readers=(1,), **{"store.hedge": "false"})
                asked = self.asked(server)
                chunks = [piece for piece in asked if piece[1] - piece[0] > 5000]
                self.assertLessEqual(set(asked), places(path))
                self.assertEqual(len(chunks), len(set(chunks)))
                self.assertGreater(len(chunks), 20)

    def test_local_headers_of_another_length(self):
        """Only these are read, once each; the name need not end in .zip."""
        path, server = self.pack("padded", local=struct.pack("<HH", 0xd935, 7) + b"padding"), self.odd()
        self.check(f"zip+{server.url}/padded", readers=(1,), **{"store.hedge": "false"})
        headers = [piece for piece in self.asked(server) if piece not in places(path)]
        self.assertTrue(all(last - first == 29 for first, last in headers), headers)
        self.assertEqual(len(headers), len(set(headers)))
        self.check(f"zip+file://{path}", readers=(1,))

    def test_readers_and_shards(self):
        server = self.odd()
        self.pack("v3.zip", "v3")
        self.check(server.url + "/v3.zip", "v3", readers=(3,))
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            self.pack("shards.zip", "shards", method)
            self.check(server.url + "/shards.zip", "shards", readers=(2,))

    def test_with_a_disk_cache(self):
        server = self.odd()
        self.pack("v2.zip")
        more = {"readers.cache_dir": os.path.join(self.folder, "cache"), "readers.cache": "off"}
        for again in (False, True):
            server.asked.clear()
            self.check(server.url + "/v2.zip", readers=(1,), **more)
            large = [last - first for first, last in self.asked(server) if last - first > 50000]
            self.assertEqual(len(large) < 5, again, large)

    def test_fields_tools_and_budget(self):
        server = self.odd()
        self.pack("v2.zip")
        self.check_fields(server.url + "/v2.zip")
        self.check_tools(server.url + "/v2.zip")
        plan = self.tool("plan", "--set", "batch.global_size=7", "--set", f"dataset.uri={server.url}/v2.zip")
        self.assertRegex(plan, r"[1-9][\d.]* KiB for manifests, references and directories")
        self.assertRegex(self.tool("doctor", "--set", "batch.global_size=7", "--set", f"dataset.uri={server.url}/v2.zip"),
                         r"ok +storage .*/v2.zip: 203 samples")

    def test_faults(self):
        server = self.odd()
        self.pack("v2.zip")
        proxy = self.proxy(server.server_address[1], busy=0.05, broken=0.05, reset=0.05, cut=0.05)
        self.check(proxy.url + "/v2.zip", readers=(2,), **{"store.retries": 8})
        self.assertGreater(proxy.faults.counts["cut"], 0)

    def test_an_archive_that_is_changed(self):
        """While a run reads it: by its size, or by its ETag alone; and one that is removed."""
        path, other = self.pack("changing.zip"), self.pack("other.zip", "v3")
        with open(path, "rb") as file:
            content = file.read()
        for act, message in ((lambda: os.replace(other, path), "changing.zip' was changed after it was opened: it has"),
                             (lambda: os.remove(path), "the archive is no longer there.*404"),
                             (lambda: server.ways.update(etags=True), "was changed after it was opened: its ETag")):
            with open(path, "wb") as file:
                file.write(content)
            server = self.odd()
            server.numbers = Counting(9, act)
            self.refused(message, self.settings(server.url + "/changing.zip", **{"errors.missing_chunk": "fill"}))

    def test_refusals(self):
        server = self.odd()
        path = self.pack("v2.zip")
        with open(path, "rb") as file:
            content = file.read()
        for name, part, message in (("cut", content[:-30], "no end record: it was cut off"),
                                    ("none", b"", "no end record: it was cut off"),
                                    ("text", b"no archive" * 20000, "or is not a zip archive")):
            with self.subTest(name):
                with open(os.path.join(self.datasets, name + ".zip"), "wb") as file:
                    file.write(part)
                self.refused(message, self.settings(f"{server.url}/{name}.zip"))
        self.refused("there is no archive .*404", self.settings(server.url + "/absent.zip"))
        for ways, message in (({"ranges": False}, "the server has no ranges: it sends all of the archive"),
                              ({"encoding": "gzip"}, "sends the archive with a Content-Encoding")):
            self.refused(message, self.settings(self.odd(**ways).url + "/v2.zip"))
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo("base_frames/8.0.0.0.0")
        at = info.header_offset + 30 + len(info.filename) + info.file_size // 2
        with open(path, "wb") as file:
            file.write(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:])
        self.refused("'base_frames/8.0.0.0.0' in .* fails its CRC-32", self.settings(server.url + "/v2.zip"))


@unittest.skipUnless(servers.has_moto(), "PENSTOCK_MOTO_PYTHON has no moto")
class S3(Archives):
    def test_same_digests(self):
        self.pack("v2.zip")
        server = servers.S3(self.datasets)
        self.addCleanup(server.close)
        env = self.env(**server.environment(AWS_ENDPOINT_URL=server.url))
        uri = f"s3://{servers.S3.BUCKET}/data sets/v2.zip"
        self.check(uri, env=env, readers=(1, 2))
        self.check_tools("zip+" + uri, env=env)
        self.refused("there is no archive .*404", self.settings(uri.replace("v2", "none")), env)


if __name__ == "__main__":
    unittest.main()
