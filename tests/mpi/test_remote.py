"""Datasets in zip archives, over HTTP and from S3: the same samples as from the directory, also when the network fails; and what
is said where something is wrong. The servers are real ones, on loopback."""

import json
import os
import re
import shutil
import unittest
import warnings
import zipfile

import servers
from job import ALONE, JobTest, environment, program, run

AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION",
       "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")


class RemoteTest(JobTest):
    SAMPLES, of_fields = 203, None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for zarr_format in (2, 3):
            cls.synth(f"v{zarr_format}", cls.SAMPLES, format=zarr_format, chunk=8, videos=7)
        cls.rechunk("v2", "shards", "--arrays=base_frames", "--chunk=4,5", "--shard=24")
        cls.expected = None

    @classmethod
    def rechunk(cls, source, name, *options):
        made = run([program("penstock"), "rechunk", *options, os.path.join(cls.datasets, source),
                    os.path.join(cls.datasets, name)])
        if made.code != 0:
            raise AssertionError(made.output)

    def settings(self, uri, **more):
        return {"dataset.uri": uri, "batch.global_size": 12, "batch.last": "partial",
                "order.epochs": 2, "order.seed": 5, "order.window_rows": 9, "readers.threads": 2,
                **more}

    def env(self, **more):
        """Without credentials from outside."""
        home = os.path.join(self.folder, "home")
        os.makedirs(home, exist_ok=True)
        env = environment(HOME=home, **more)
        return {key: value for key, value in env.items() if key not in AWS or key in more}

    def lines(self, readers, settings, env):
        """Digests of a run that must succeed."""
        outcome = self.reader(readers, {"delivery.trainers": 2, **settings},
                              ["--digest", os.path.join(self.folder, "digest.{rank}")], ["--quiet"],
                              timeout=180, env=env)
        self.assertEqual(outcome.code, 0, outcome.output)
        return self.digest_lines()

    def directory_lines(self, name="v2"):
        cls = type(self)
        cls.expected = cls.expected or {}
        if name not in cls.expected:
            cls.expected[name] = self.lines(
                1, self.settings(os.path.join(self.datasets, name)), self.env())
        return cls.expected[name]

    def check(self, uri, name="v2", env=None, readers=(1, 3), **more):
        """`uri` delivers what the directory does."""
        expected = self.directory_lines(name)
        for count in readers:
            with self.subTest(readers=count):
                self.assertEqual(self.lines(count, self.settings(uri, **more), env or self.env()),
                                 expected)

    def refused(self, message, settings, env=None):
        outcome = self.reader(ALONE, settings, [], ["--quiet"], env=env or self.env())
        self.assertNotEqual(outcome.code, 0, outcome.output)
        self.assertRegex(outcome.output, message)
        return outcome.output

    def tool(self, *arguments, env=None, **more):
        """What a tool says, with the store settings that a run would have."""
        command = [program("penstock"), *arguments]
        for key, value in more.items():
            command += ["--set", f"store.{key}={value}"]
        outcome = run(command, env=env or self.env())
        self.assertEqual(outcome.code, 0, outcome.output)
        return outcome.output

    def check_tools(self, uri, name="v2", env=None, **more):
        """inspect, verify and rechunk find what they find in the directory."""
        directory = os.path.join(self.datasets, name)
        digest = re.search(r"^digest \w{32}$", self.tool("verify", directory, "--digest"), re.M)[0]
        self.assertIn(digest, self.tool("verify", uri, "--digest", env=env, **more))
        target = os.path.join(self.folder, "rechunked.zarr")
        self.assertIn(digest, self.tool("rechunk", uri, target, "--chunk", "5", env=env, **more))
        self.assertIn(digest, self.tool("verify", target, "--digest"))
        reports = [json.loads(self.tool("inspect", dataset, "--json", env=env, **more)) for dataset in (uri, directory)]
        costs = [report["dataset"]["cost"]["stored_bytes"] for report in reports]
        self.assertAlmostEqual(costs[0] / costs[1], 1, delta=0.1)
        arrays = [report["arrays"] for report in reports]
        for array in arrays[0] + arrays[1]:
            array.pop("stored_bytes")  # without the metadata documents where they are estimated
            array.pop("stored_estimated")
        self.assertEqual(*arrays)

    def check_fields(self, uri, env=None, **more):
        """A directory delivers the same where two of its fields are read from `uri`: one row by row, one held."""
        fields = {"dataset.fields.a": "base_frames", "dataset.fields.b": "segment_to_video", "dataset.fields.c": "clip_emb[segment_to_video]"}
        stores = {"dataset.fields.a.store": uri, "dataset.fields.c.store": uri}
        directory = os.path.join(self.datasets, "v2")
        self.of_fields = self.of_fields or self.lines(1, self.settings(directory, **fields), self.env())
        self.assertEqual(self.lines(2, self.settings(directory, **fields, **stores, **more), env or self.env()), self.of_fields)

    def proxy(self, port, **faults):
        proxy = servers.Proxy(port, servers.Faults(**faults))
        self.addCleanup(proxy.close)
        return proxy


class Zip(RemoteTest):
    def archive(self, name="v2", method=zipfile.ZIP_STORED, folder="", force_zip64=False, extra=()):
        """A zip of a dataset. `extra`: (name, bytes) that are put first."""
        path = os.path.join(self.folder, "data.zarr.zip")
        root = os.path.join(self.datasets, name)
        with zipfile.ZipFile(path, "w", method) as archive:
            for key, content in extra:
                archive.writestr(key, content)
            for parent, _, files in os.walk(root):
                for file in files:
                    source = os.path.join(parent, file)
                    key = folder + os.path.relpath(source, root)
                    with archive.open(zipfile.ZipInfo(key), "w", force_zip64=force_zip64) as out, \
                            open(source, "rb") as content:
                        out.write(content.read())
        return path

    def test_tools(self):
        self.check_tools(self.archive())
        shutil.rmtree(os.path.join(self.folder, "rechunked.zarr"))
        self.check_tools(self.archive("v3", zipfile.ZIP_DEFLATED, folder="below/"), "v3")

    def test_stored(self):
        self.check(self.archive())

    def test_stored_v3(self):
        self.check("file://" + self.archive("v3"), "v3", readers=(2,))

    def packed(self, path, method):
        """The same files, compressed by the method."""
        packed = os.path.join(self.folder, "packed.zip")
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(packed, "w", method) as archive:
            for info in source.infolist():
                archive.writestr(info.filename, source.read(info))
        return packed

    def test_deflated(self):
        """Parts of deflated shards: in memory that the budget has, and is refused without."""
        path = self.packed(self.archive("shards"), zipfile.ZIP_DEFLATED)
        self.check(path, "shards", readers=(2,))
        plan = [program("penstock"), "plan", "--set", "batch.global_size=7", "--set", "dataset.uri=" + path, "--set"]
        self.assertRegex(run([*plan, "readers.memory_limit=1GiB"]).output,
                         r"decoding .* of each to inflate values of a zip archive, and .* for what stays so")
        with zipfile.ZipFile(path) as archive:
            largest = max(info.file_size + info.compress_size for info in archive.infolist())
        outcome = run([*plan, f"readers.memory_limit={8 * largest}", "--set", "readers.threads=64"])
        self.assertIn("for deflated values of a zip archive", outcome.output)
        self.assertNotEqual(outcome.code, 0)

    def test_root_one_level_down(self):
        self.check(self.archive(folder="latents.zarr/"), readers=(1,))

    def test_zip64_and_bytes_in_front(self):
        path = self.archive(force_zip64=True)
        with open(path, "rb") as file:
            content = file.read()
        with open(path, "wb") as file:
            file.write(b"#!/bin/sh\n" * 7 + content)
        self.check(path, readers=(1,))

    def test_the_last_of_a_name_counts(self):
        wrong = [(".zmetadata", "{}"), ("base_frames/0.0.0.0.0", b"wrong")]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.check(self.archive(extra=wrong), readers=(1,))

    def test_refusals(self):
        path = self.archive()
        other = self.packed(path, zipfile.ZIP_BZIP2)
        self.refused("compressed by bzip2 .method 12.*stored entries", self.settings(other))
        with open(path, "rb") as file:
            content = file.read()
        for name, part in (("cut", content[:-30]), ("none", b"")):
            with open(path, "wb") as file:
                file.write(part)
            with self.subTest(name):
                self.refused("no end record: it was cut off", self.settings(path))
        path, key = self.archive(), "base_frames/8.0.0.0.0"
        folder = os.path.join(self.folder, "folder.zip")
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(folder, "w") as archive:
            for name in source.namelist():
                archive.writestr(name + "/x" if name == key else name, source.read(name))
            for beside in "-.!":
                archive.writestr(key + beside, b"sorted before what is in a folder, mostly")
        self.refused(f"'{key}' in .* is a folder, and should be a value", self.settings(folder))
        with warnings.catch_warnings(), zipfile.ZipFile(path, "a") as archive:
            warnings.simplefilter("ignore")
            link = zipfile.ZipInfo(key)
            link.create_system, link.external_attr = 3, 0o120777 << 16
            archive.writestr(link, "../annex")
        self.refused(f"'{key}' in .* is a symbolic link", self.settings(path))

    def test_damage_is_found(self):
        path = self.archive()
        with zipfile.ZipFile(path) as archive:
            info = archive.getinfo("base_frames/8.0.0.0.0")
        with open(path, "r+b") as file:
            file.seek(info.header_offset + 30 + len(info.filename) + info.file_size // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        self.refused("'base_frames/8.0.0.0.0' in .* fails its CRC-32", self.settings(path))

    def test_inspect(self):
        sizes = []
        for uri in (self.archive(), os.path.join(self.datasets, "v2")):
            outcome = run([program("penstock"), "inspect", "--json", uri])
            self.assertEqual(outcome.code, 0, outcome.output)
            sizes.append(re.findall(r'"stored_bytes": *(\d+)', outcome.output))
        self.assertEqual(*sizes)


@unittest.skipUnless(servers.nginx_program(), "needs nginx")
class Http(RemoteTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = servers.Nginx(cls.datasets)
        cls.addClassCleanup(cls.server.close)

    def test_same_digests(self):
        self.check(self.server.url + "/v2")

    def test_same_digests_of_v3(self):
        self.check(self.server.url + "/v3/", "v3", **{"readers.cache": "stored"})

    def test_shards(self):
        """And each reader of a node asks for an array's metadata once: there is no other node to compare with."""
        for count in (1, 3):
            before = len(self.server.requests())
            self.check(self.server.url + "/shards", "shards", readers=(count,))
            asked = re.findall("GET /shards/base_frames/zarr.json", self.server.requests()[before:])
            self.assertEqual(len(asked), count)

    def test_shards_are_read_once(self):
        """One request for each index, one for the four inner chunks of a row; many at once, although one worker reads."""
        proxy = self.proxy(self.server.port, latency_s=0.05)
        before = len(self.server.requests())
        lines = self.lines(1, self.settings(proxy.url + "/shards", **{
            "store.hedge": "false", "readers.threads": 1, "order.epochs": 1}), self.env())
        self.assertEqual(lines, [line for line in self.directory_lines("shards") if line[0] == "0"])
        asked = re.findall(r"GET /shards/base_frames/c/", self.server.requests()[before:])
        shards, rows = -(-self.SAMPLES // 24), -(-self.SAMPLES // 4)
        self.assertEqual(len(asked), shards + rows)
        self.assertGreaterEqual(proxy.most, 8)

    def test_slices_ask_once(self):
        """Two fields that are slices of one array need the same chunks: each chunk is asked for once."""
        more = {"order.epochs": 1, "readers.threads": 1, "store.hedge": "false", "dataset.fields.a": "base_frames",
                "dataset.fields.b": "base_frames", "dataset.fields.a.slice.1": "0:7", "dataset.fields.b.slice.1": "5:"}
        expected = self.lines(1, self.settings(os.path.join(self.datasets, "v3"), **more), self.env())
        before = len(self.server.requests())
        self.assertEqual(self.lines(1, self.settings(self.server.url + "/v3", **more), self.env()), expected)
        asked = re.findall(r"GET /v3/base_frames/c/", self.server.requests()[before:])
        self.assertEqual(len(asked), -(-self.SAMPLES // 8))

    def test_shards_and_faults(self):
        proxy = self.proxy(self.server.port, chunks_only=True, busy=0.08, broken=0.08, reset=0.08,
                           cut=0.08)
        self.check(proxy.url + "/shards", "shards", readers=(2,),
                   **{"store.retries": 8, "readers.cache": "off"})

    def test_shards_with_little_room_for_indices(self):
        self.check(self.server.url + "/shards", "shards", readers=(2,),
                   **{"store.index_cache": 0, "readers.cache": "off"})

    def test_with_a_disk_cache(self):
        for name in ("v2", "shards"):
            cache = os.path.join(self.folder, "cache")
            more = {"readers.cache_dir": cache, "readers.cache": "off"}
            self.check(f"{self.server.url}/{name}", name, readers=(2,), **more)
            before = len(self.server.requests())
            self.check(f"{self.server.url}/{name}", name, readers=(2,), **more)
            again = self.server.requests()[before:].count(f"GET /{name}/base_frames/")
            with self.subTest(name):
                self.assertLess(again, 5, "what is in the cache was asked for again")

    def test_fields(self):
        """Of another store than the dataset's, with faults; the disk cache has what it has."""
        proxy = self.proxy(self.server.port, chunks_only=True, busy=0.05, broken=0.05, cut=0.05)
        more = {"readers.cache_dir": os.path.join(self.folder, "cache"), "readers.cache": "off", "store.retries": 8}
        self.check_fields(proxy.url + "/v2", **more)
        before = len(self.server.requests())
        self.check_fields(proxy.url + "/v2", **more)
        self.assertLess(self.server.requests()[before:].count("GET /v2/base_frames/"), 5)
        self.refused("'clip' in the store '.*/v2'; there are 'base_frames'",
                     self.settings(os.path.join(self.datasets, "v2"), **{"dataset.fields.a": "base_frames", "dataset.fields.clip.store": proxy.url + "/v2"}))

    def test_held_arrays(self):
        """A joined array of more chunks than are fetched at once."""
        path = self.synth("singles", self.SAMPLES, chunk=1, videos=7)
        fields = {"dataset.fields.a": "base_frames", "dataset.fields.b": "base_frames[segment_to_video]",
                  "order.epochs": 1, "store.retries": 8}
        proxy = self.proxy(self.server.port, chunks_only=True, busy=0.05, cut=0.05)
        expected = self.lines(1, self.settings(path, **fields), self.env())
        self.assertEqual(self.lines(2, self.settings(proxy.url + "/singles", **fields), self.env()),
                         expected)

    def test_held_arrays_are_fetched_ahead(self):
        """Many chunks at once, of shards and of what the disk cache keeps, too; what it has is not asked for again."""
        fields = {"dataset.fields.a": "segment_to_video", "dataset.fields.b": "base_frames[segment_to_video]",
                  "order.epochs": 1, "store.hedge": "false"}
        cached = {"readers.cache_dir": os.path.join(self.folder, "cache")}
        self.synth("ones", 61, chunk=1, videos=7)
        self.rechunk("ones", "joined-shards", "--chunk=1", "--shard=4")
        for name, more in (("ones", {}), ("joined-shards", {}), ("ones", cached), ("joined-shards", cached)):
            with self.subTest(name, **more):
                expected = self.lines(1, self.settings(os.path.join(self.datasets, name), **fields), self.env())
                proxy = self.proxy(self.server.port, latency_s=0.05)
                remote = self.settings(f"{proxy.url}/{name}", **fields, **more)
                self.assertEqual(self.lines(2, remote, self.env()), expected)
                self.assertGreaterEqual(proxy.most, 8)
                if more:
                    before = len(self.server.requests())
                    self.assertEqual(self.lines(2, remote, self.env()), expected)
                    self.assertNotRegex(self.server.requests()[before:], rf"GET /{name}/base_frames/(c/)?\d")

    def test_trainers_wait_while_arrays_are_loaded(self):
        """For longer than a trainer waits for a service that says nothing, with every reader of the node."""
        settings = self.settings(self.synth("held", 150, chunk=1, videos=7), **{
            "dataset.fields.a": "segment_to_video", "dataset.fields.b": "base_frames[segment_to_video]",
            "order.epochs": 1, "delivery.trainers": 2, "store.hedge": "false"})
        digest = ["--digest", os.path.join(self.folder, "digest.{rank}")]
        expected = self.lines(1, settings, self.env())
        proxy = self.proxy(self.server.port, chunks_only=True, latency_s=0.12)
        outcome = self.reader(2, {**settings, "dataset.uri": proxy.url + "/held", "store.requests": 4},
                              [*digest, "--timeout", "2"], [], timeout=180, env=self.env())
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertEqual(self.digest_lines(), expected)
        self.assertIn("loading held arrays", outcome.output)

    def test_few_requests(self):
        """Whatever the concurrency limit, and without second requests."""
        self.check(self.server.url + "/v2", readers=(2,),
                   **{"store.requests": 1, "store.hedge": "false"})

    def test_fetches_make_room_for_rows(self):
        """Under a limit that has no room for all rows beside all of store.fetch_memory, each chunk is still fetched once."""
        readers = 2
        settings = self.settings(self.server.url + "/v2", **{
            "store.requests": 1, "store.hedge": "false", "store.fetch_memory": "10MiB", "delivery.trainers": 2,
            "delivery.slots": 4, "dataset.fields.latents": "base_frames", "readers.cache": "decoded"})

        def plan(limit):
            more = [f"{key}={value}" for key, value in {**settings, "readers.memory_limit": limit}.items()]
            sets = [word for setting in more for word in ("--set", setting)]
            outcome = run([program("penstock"), "plan", "--json", "--readers", str(readers), *sets], env=self.env())
            self.assertEqual(outcome.code, 0, outcome.output)
            return json.loads(outcome.output)

        memory = plan("1GiB")["memory"]
        limit = memory["total"] - memory["fetches"] // 3
        planned = plan(limit)
        self.assertLess(planned["memory"]["fetches"], memory["fetches"])
        self.assertEqual(planned["epochs"][1]["rows_read"], 0)
        before = len(self.server.requests())
        self.lines(readers, {**settings, "readers.memory_limit": limit}, self.env())
        asked = re.findall(r"GET /v2/base_frames/\d\S*", self.server.requests()[before:])
        self.assertEqual(len(asked), -(-self.SAMPLES // 8))
        self.assertEqual(len(asked), len(set(asked)))

    def test_tools(self):
        """Also over TLS, and with a server that fails now and then."""
        proxy = self.proxy(self.server.port, busy=0.08, broken=0.08, reset=0.08, cut=0.08)
        self.check_tools(proxy.url + "/v2", retries=8)
        self.assertTrue(proxy.faults.counts["busy"] and proxy.faults.counts["cut"], proxy.faults.counts)
        shutil.rmtree(os.path.join(self.folder, "rechunked.zarr"))
        server = servers.Nginx(self.datasets, tls=True)
        self.addCleanup(server.close)
        self.check_tools(server.url + "/v3", "v3", ca_file=server.ca_file)

    def test_https(self):
        server = servers.Nginx(self.datasets, tls=True)
        self.addCleanup(server.close)
        self.check(server.url + "/v2", readers=(1,), **{"store.ca_file": server.ca_file})
        self.refused("certificate is not trusted: name the certificates.* store.ca_file",
                     self.settings(server.url + "/v2"))

    def test_faults(self):
        """Nothing is lost, whatever goes wrong on the way."""
        proxy = self.proxy(self.server.port, busy=0.08, later=0.03, broken=0.08, reset=0.08,
                           cut=0.08, slow=0.05)
        self.check(proxy.url + "/v2", readers=(2,), **{"store.retries": 8, "readers.cache": "off"})
        self.assertTrue(all(proxy.faults.counts.values()), proxy.faults.counts)

    def test_what_is_late_is_asked_for_twice(self):
        self.synth("singles", self.SAMPLES, chunk=1, videos=7)
        for hedge in ("true", "false"):
            proxy = self.proxy(self.server.port, chunks_only=True, slow=0.03)
            before = self.server.requests()
            self.lines(1, self.settings(proxy.url + "/singles", **{
                "store.hedge": hedge, "store.retries": 0, "order.epochs": 1}), self.env())
            asked = re.findall(r"GET /singles/base_frames/(\S+)", self.server.requests()[len(before):])
            most = max(asked.count(key) for key in set(asked))
            with self.subTest(hedge=hedge):
                (self.assertGreater if hedge == "true" else self.assertLessEqual)(most, 1)

    def test_what_fails_for_good(self):
        proxy = self.proxy(self.server.port, chunks_only=True, broken=1)
        self.refused(r"array '\w+' chunk .*tried 2 times: GET 'http://127.0.0.1:\d+/v2/\S+': 500 .*: "
                     r"SlowDown: fewer, please",
                     self.settings(proxy.url + "/v2",
                                   **{"store.retries": 1, "readers.cache": "off"}))

    def test_bad_samples_are_masked(self):
        proxy = self.proxy(self.server.port, chunks_only=True, broken=0.1)
        settings = self.settings(proxy.url + "/v2", **{
            "store.retries": 0, "errors.bad_sample": "mask", "readers.cache": "off",
            "errors.report": os.path.join(self.folder, "bad.jsonl")})
        outcome = self.reader(2, settings, [], timeout=180, env=self.env())
        self.assertEqual(outcome.code, 0, outcome.output)
        with open(os.path.join(self.folder, "bad.jsonl"), encoding="utf-8") as file:
            self.assertIn("500", file.read())

    def test_messages(self):
        url = self.server.url
        self.refused("no Zarr array or group there", self.settings(url + "/none"))
        self.refused("redirected to 'http://127.0.0.1:1/.*|(Failed|refused|connect)",
                     self.settings(url + "/moved/v2"))
        self.refused("403 .*: not you.*store.missing_status", self.settings(url + "/denied/v2"))
        self.refused("no Zarr array", self.settings(url + "/denied/v2",
                                                    **{"store.missing_status": "403,404"}))
        self.refused("wrong version number: does the server speak https.", self.settings(
            url.replace("http:", "https:") + "/v2", **{"store.retries": 0}))
        self.refused("(Failed|refused|connect)", self.settings(
            f"http://127.0.0.1:{servers.refusing(self)}/v2", **{"store.retries": 0}))

    def test_groups_without_consolidated_metadata(self):
        os.rename(os.path.join(self.datasets, "v2", ".zmetadata"),
                  os.path.join(self.datasets, "hidden"))
        try:
            self.refused("plain HTTP has no listings.*consolidate", self.settings(
                self.server.url + "/v2"))
        finally:
            os.rename(os.path.join(self.datasets, "hidden"),
                      os.path.join(self.datasets, "v2", ".zmetadata"))

    def test_anonymous_bucket(self):
        """Unsigned requests by path: what any HTTP server takes."""
        env = self.env(AWS_ACCESS_KEY_ID="unused", AWS_SECRET_ACCESS_KEY="unused")
        self.check("s3://v2", env=env, readers=(1,),
                   **{"store.endpoint": self.server.url, "store.anonymous": "true"})

    def test_inspect(self):
        outcome = run([program("penstock"), "inspect", self.server.url + "/v2"], env=self.env())
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertIn("base_frames", outcome.output)


class OddServers(RemoteTest):
    """Servers that are not nginx: what they lack is found another way."""

    SAMPLES = 107

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rechunk("v2", "raw", "--arrays=base_frames,segment_to_video", "--chunk=6", "--codec=none")

    def odd(self, **ways):
        server = servers.Odd(self.datasets, **ways)
        self.addCleanup(server.close)
        return server

    def same(self, uri, name):
        """The digest of all there is."""
        outputs = [self.tool("verify", dataset, "--digest") for dataset in (os.path.join(self.datasets, name), uri)]
        self.assertEqual(*(re.search(r"^digest \w{32}$", output, re.M)[0] for output in outputs))

    def test_python_http_server(self):
        """It answers a request for a range with all there is."""
        server = servers.PythonServer(self.datasets)
        self.addCleanup(server.close)
        self.same(server.url + "/v2", "v2")
        self.check(server.url + "/raw", "raw", readers=(1,))
        self.check(server.url + "/shards", "shards", readers=(1,))

    def test_sizes_that_are_not_said(self):
        for ways in ({"head": 405}, {"head": 403}, {"head": 501, "ranges": False}, {"length": "chunked"},
                     {"length": "close", "ranges": False}):
            with self.subTest(ways):
                server = self.odd(**ways)
                self.same(server.url + "/raw", "raw")
                self.assertNotIn("not known", self.tool("inspect", server.url + "/raw"))

    def test_values_that_are_encoded(self):
        for ways in ({"encoding": "gzip"}, {"encoding": "gzip", "length": "chunked", "ranges": False},
                     {"encoding": "aws-chunked"}):
            server = self.odd(**ways)
            for name in ("v3", "raw", "shards"):
                with self.subTest(ways, name=name):
                    self.same(f"{server.url}/{name}", name)
        self.check(self.odd(encoding="gzip").url + "/shards", "shards", readers=(1,))

    def test_encodings_that_name_the_codec(self):
        """Chunks of one layer of gzip, which codec and server both speak of; and of two."""
        self.rechunk("v2", "gzip", "--arrays=base_frames,segment_to_video", "--chunk=6", "--codec=gzip")
        for ways in ({"label": "gzip"}, {"encoding": "gzip"}):
            with self.subTest(ways):
                self.same(self.odd(**ways).url + "/gzip", "gzip")
        self.check(self.odd(label="gzip").url + "/gzip", "gzip", readers=(1,))

    def test_a_slow_first_byte(self):
        """Longer than a connection that says nothing may take otherwise, and shorter than store.timeout."""
        server = self.odd(first_byte_s=11)
        self.tool("inspect", server.url + "/v3", timeout=25, retries=0, hedge="false")

    def test_credentials_that_run_out(self):
        """Many requests are under way then, and all are made again."""
        server = self.odd(tokens=["old", "old", "new"])
        env = self.env(AWS_ENDPOINT_URL=server.url, AWS_CONTAINER_CREDENTIALS_FULL_URI=server.url + "/credentials")
        self.check("s3://v2", env=env, readers=(2,), **{"store.metadata": "true", "store.retries": 0})

    def many(self, count):
        """An array of `count` chunks of 8 integers, each stored as it is."""
        path = os.path.join(self.datasets, "many")
        os.makedirs(path)
        with open(os.path.join(path, ".zarray"), "w", encoding="ascii") as file:
            json.dump({"zarr_format": 2, "shape": [8 * count], "chunks": [8], "dtype": "<i8", "compressor": None,
                       "fill_value": 0, "order": "C", "filters": None}, file)
        for i in range(count):
            with open(os.path.join(path, str(i)), "wb") as file:
                file.write(bytes(64))

    def test_inspect_of_a_large_bucket(self):
        """Sizes are estimated from a few chunks, without a listing to the end; and where there is none."""
        self.many(2500)
        for listing in (None, servers.s3_refusal("AccessDenied", "no ListBucket")):
            with self.subTest(listing):
                server = self.odd(**({"listing": listing} if listing else {}))
                more = {"endpoint": server.url, "anonymous": "true"}
                output = self.tool("inspect", "s3://many", **more)
                self.assertRegex(output, r"~15[67]\.\d KiB")
                self.assertEqual("listing failed: " in output and "no ListBucket" in output, bool(listing), output)
                self.assertLessEqual(sum("list-type=2" in path for _, path, _ in server.asked), 2, server.asked)
                report = json.loads(self.tool("inspect", "--json", "s3://many", **more))
                self.assertEqual(report["arrays"][0]["stored_bytes"], 2500 * 64)
                self.assertTrue(report["arrays"][0]["stored_estimated"])

    def test_mirrors(self):
        """Each answer has another ETag: no cause to say that the dataset was changed."""
        server = self.odd(etags=True)
        path = self.synth("holes", self.SAMPLES, chunk=8, videos=7)
        os.remove(os.path.join(path, "base_frames", "2.0.0.0.0"))
        more = {"errors.missing_chunk": "fail"}
        output = self.refused("the store has no 'base_frames/2.0.0.0.0'", self.settings(server.url + "/holes", **more))
        self.assertNotIn("was changed", output)


@unittest.skipUnless(servers.has_moto(), "needs moto's server: pip install 'moto[server]'")
class S3(RemoteTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = servers.S3(cls.datasets)
        cls.addClassCleanup(cls.server.close)

    def uri(self, name="v2"):
        return f"s3://{servers.S3.BUCKET}/data sets/{name}"

    def signed(self, **more):
        return self.env(**{**self.server.environment(AWS_ENDPOINT_URL=self.server.url), **more})

    def test_same_digests(self):
        self.check(self.uri(), env=self.signed())

    def test_shards(self):
        self.check(self.uri("shards"), "shards", env=self.signed(), readers=(2,))

    def test_fields(self):
        self.check_fields(self.uri(), env=self.signed())

    def test_same_digests_of_v3_by_settings(self):
        self.check(self.uri("v3"), "v3", env=self.env(**self.server.environment()), readers=(2,),
                   **{"store.endpoint": self.server.url, "store.s3_region": "eu-west-1"})

    def test_tools(self):
        """With everything from the environment, and with settings alone."""
        self.check_tools(self.uri(), env=self.signed())
        shutil.rmtree(os.path.join(self.folder, "rechunked.zarr"))
        self.check_tools(self.uri("v3"), "v3", env=self.env(**self.server.environment()),
                         endpoint=self.server.url, s3_region="eu-west-1", s3_addressing="path")

    def test_credentials_of_a_profile(self):
        env = self.env(AWS_PROFILE="team")
        folder = os.path.join(env["HOME"], ".aws")
        os.makedirs(folder)
        with open(os.path.join(folder, "credentials"), "w", encoding="ascii") as file:
            file.write("[default]\naws_access_key_id = wrong\naws_secret_access_key = wrong\n"
                       f"[team]\naws_access_key_id = {self.server.access_key}\n"
                       f"aws_secret_access_key={self.server.secret}\n")
        with open(os.path.join(folder, "config"), "w", encoding="ascii") as file:
            file.write(f"[profile team]\nendpoint_url = {self.server.url}\nregion = us-west-2\n")
        self.check(self.uri(), env=env, readers=(1,))
        self.refused("AWS_PROFILE is 'none', and neither", self.settings(self.uri()),
                     self.env(AWS_PROFILE="none"))

    def test_listing(self):
        """Without consolidated metadata groups are listed; inspect adds up sizes."""
        outcome = run([program("penstock"), "inspect", "--json", self.uri()], env=self.signed())
        self.assertEqual(outcome.code, 0, outcome.output)
        directory = run([program("penstock"), "inspect", "--json",
                         os.path.join(self.datasets, "v2")])
        sizes = [re.findall(r'"stored_bytes": *(\d+)', text.output) for text in (outcome, directory)]
        self.assertEqual(*sizes)
        self.assertTrue(any(size != "0" for size in sizes[0]), sizes)

    def test_wrong_credentials(self):
        wrong = self.signed(AWS_SECRET_ACCESS_KEY="AbCdEfGhIjKlMnOp0123456789")
        output = self.refused("403 .*SignatureDoesNotMatch", self.settings(self.uri()), wrong)
        self.assertNotIn("AbCdEfGhIjKlMnOp0123456789", output)
        self.refused("no credentials: set AWS_ACCESS_KEY_ID", self.settings(self.uri()),
                     self.env(AWS_ENDPOINT_URL=self.server.url))
        self.refused("an access key but no secret", self.settings(self.uri()),
                     self.env(AWS_ACCESS_KEY_ID="alone"))

    def test_what_is_not_there_or_not_allowed(self):
        """The message names what to look at: the bucket, the region, the key and whose credentials."""
        message = self.refused("NoSuchBucket", self.settings("s3://no-bucket/v2"), self.signed())
        self.assertIn(f"there is no bucket 'no-bucket' at {self.server.url}: check its name, and store.endpoint",
                      message)
        refusals = (
            (servers.s3_refusal("PermanentRedirect", status=301, headers=[("x-amz-bucket-region", "eu-west-1")]),
             "the bucket 'bucket' is not in region 'eu-west-1' at http://.*: set store.s3_region"),
            (servers.s3_refusal("AuthorizationHeaderMalformed", more="<Region>ap-south-1</Region>", status=400),
             "is not in region 'ap-south-1' at http://.*: set store.s3_region"),
            (servers.s3_refusal("PermanentRedirect", status=301),
             "the bucket 'bucket' is not in region 'us-east-1' at http://.*: set store.s3_region"),
            (servers.s3_refusal("AccessDenied"),
             "for bucket 'bucket', key 'a b/v2/zarr.json'; signed with AWS_ACCESS_KEY_ID of the environment"))
        for refusal, expected in refusals:
            server = servers.Odd(self.datasets, refusal=refusal, head=refusal[0])
            self.addCleanup(server.close)
            with self.subTest(expected):
                output = self.refused(expected, self.settings("s3://bucket/a b/v2"),
                                      self.signed(AWS_ENDPOINT_URL=server.url))
                self.assertNotIn(self.server.access_key, output)
        self.refused("AccessDenied.*requests are not signed: store.anonymous",
                     self.settings("s3://bucket/a b/v2", **{"store.anonymous": "true"}),
                     self.signed(AWS_ENDPOINT_URL=server.url))

    def test_secrets_stay_secret(self):
        """Not in any output of a whole run with everything shown, nor where a key is refused."""
        env = self.signed(AWS_SESSION_TOKEN="")
        outcome = self.reader(2, self.settings(self.uri()), [], [], timeout=180, env=env)
        config = run([program("penstock"), "config", "--set", "dataset.uri=" + self.uri()], env=env)
        secret = self.server.secret
        told = run([program("penstock"), "config", "--set", "store.s3_secret=" + secret], env=env)
        uris = [run([program("penstock"), "config", "--set", f"dataset.uri=https://me:{word}@host/x"],
                    env=env) for word in (secret, secret + "/" + secret)]  # AWS's do have slashes
        self.assertNotEqual(told.code, 0)
        self.assertIn("no secrets in the configuration", told.output)
        for uri in uris:
            self.assertIn("a user, a password or a signature in it", uri.output)
        for output in (outcome.output, config.output, told.output, *(uri.output for uri in uris)):
            self.assertNotIn(secret, output)

    def test_container_credentials(self):
        """Asked for only where that is allowed."""
        body = (f'{{"AccessKeyId":"{self.server.access_key}","SecretAccessKey":'
                f'"{self.server.secret}","Expiration":"2099-01-01T00:00:00Z"}}')
        with open(os.path.join(self.folder, "credentials"), "w", encoding="ascii") as file:
            file.write(body)
        if not servers.nginx_program():
            self.skipTest("needs nginx")
        os.chmod(self.folder, 0o755)
        endpoint = servers.Nginx(self.folder)
        self.addCleanup(endpoint.close)
        env = self.env(AWS_ENDPOINT_URL=self.server.url,
                       AWS_CONTAINER_CREDENTIALS_FULL_URI=endpoint.url + "/credentials")
        self.refused("no credentials", self.settings(self.uri()), env)
        self.assertEqual(endpoint.requests(), "")
        self.check(self.uri(), env=env, readers=(1,), **{"store.metadata": "true"})

    def test_faults(self):
        proxy = self.proxy(self.server.port, busy=0.08, broken=0.05, reset=0.05, cut=0.05)
        env = self.signed(AWS_ENDPOINT_URL=proxy.url)
        # The proxy passes Host on as it is, so that signatures stay right.
        self.check(self.uri(), env=env, readers=(2,), **{"store.retries": 8})


if __name__ == "__main__":
    unittest.main()
