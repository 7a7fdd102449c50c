"""References in folders, over HTTP and from S3: the same samples as from the arrays whose chunks they name, which are files, and parts
of one; and what is said where something is wrong."""

import json
import os
import unittest

import servers
from test_remote import RemoteTest

METADATA = (".zgroup", ".zattrs", ".zarray", ".zmetadata", "zarr.json")


class References(RemoteTest):
    def write(self, name, source, place):
        """References to the chunks of a dataset: each second one a file of its own, the others parts of one. `place` gives the url of a path
        within the datasets."""
        refs, packed = {}, bytearray(b"nothing")
        folder = os.path.join(self.datasets, source)
        for below, _, names in sorted(os.walk(folder)):
            for file in sorted(names):
                path = os.path.join(below, file)
                key = os.path.relpath(path, folder)
                with open(path, "rb") as stream:
                    content = stream.read()
                if file in METADATA:
                    refs[key] = content.decode()
                elif len(refs) % 2:
                    refs[key] = [place(os.path.relpath(path, self.datasets))]
                else:
                    refs[key] = [place(f"{name}.nc"), len(packed), len(content)]
                    packed += content
        with open(os.path.join(self.datasets, f"{name}.nc"), "wb") as stream:
            stream.write(packed)
        with open(os.path.join(self.datasets, f"{name}.json"), "w", encoding="utf-8") as stream:
            json.dump({"version": 1, "refs": refs}, stream)
        self.assertTrue(len(packed) > 1000 and any(isinstance(value, list) and len(value) == 1 for value in refs.values()))
        return refs

    def test_folder(self):
        for source in ("v2", "v3", "shards"):
            self.write(source, source, lambda path: os.path.join(self.datasets, path))
            uri = f"reference://{self.datasets}/{source}.json"
            self.refused("set store.virtual", self.settings(uri))
            self.check(uri, source, readers=(2,), **{"store.virtual": self.datasets})
        self.check_tools(uri, source, virtual=self.datasets)
        self.assertIn("for manifests, references and directories", self.tool("plan", "--set", f"dataset.uri={uri}", "--set", "batch.global_size=12"))

    def test_http(self):
        """References from one place, data from another."""
        server = servers.Nginx(self.datasets)
        self.addCleanup(server.close)
        refs = self.write("http", "v2", lambda path: f"{server.url}/{path}")
        virtual = {"store.virtual": server.url}
        self.check(f"reference://{self.datasets}/http.json", "v2", **virtual)
        asked = [line for line in server.requests().splitlines() if "/http.nc " in line]
        self.assertTrue(asked and all('" 206 ' in line for line in asked), asked[:3])
        self.check(f"reference+{server.url}/http.json", "v2", readers=(2,), **virtual)
        cached = {"readers.cache_dir": os.path.join(self.folder, "cache"), **virtual}
        self.check(f"reference+{server.url}/http.json", "v2", readers=(2,), **cached)
        before = len(server.requests())
        self.check(f"reference+{server.url}/http.json", "v2", readers=(2,), **cached)
        self.assertNotIn("/http.nc ", server.requests()[before:])
        chunk = next(key for key, value in refs.items() if key.startswith("base_frames/") and len(value) == 1)
        path = os.path.join(self.datasets, "v2", chunk)
        os.rename(path, path + ".away")
        try:
            self.refused("the references refer to this chunk.*404",
                         self.settings(f"reference+{server.url}/http.json", **virtual, **{"errors.missing_chunk": "fill"}))
        finally:
            os.rename(path + ".away", path)

    def test_s3(self):
        """Beside local files."""
        if not servers.has_moto():
            self.skipTest("PENSTOCK_MOTO_PYTHON has no moto")
        bucket = f"s3://{servers.S3.BUCKET}/data sets"
        self.write("s3", "v2", lambda path: f"{bucket}/{path}" if path.endswith(".nc") else f"file://{self.datasets}/{path}")
        server = servers.S3(self.datasets)
        self.addCleanup(server.close)
        env = self.env(**server.environment(AWS_ENDPOINT_URL=server.url))
        self.check(f"reference+{bucket}/s3.json", "v2", env, readers=(2,), **{"store.virtual": f"{bucket}/,{self.datasets}"})


if __name__ == "__main__":
    unittest.main()
