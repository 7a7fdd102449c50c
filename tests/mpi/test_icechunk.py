"""Icechunk repositories in folders, over HTTP and from S3: the same samples as from the arrays that they were made of, whatever is
committed meanwhile; and what is said where something is wrong."""

import itertools
import json
import os
import shutil
import threading
import unittest

import icechunk_writer
import servers
from job import ALONE, JobTest, program, run
from test_remote import RemoteTest

EXIT_STOPPED_EARLY = 3


def http_date_s(path):
    return int(os.stat(path).st_mtime)


class Repositories(JobTest):
    """Named by what is special about them; made of the dataset `plain`, and of `other`, whose samples are others."""
    SAMPLES = 203

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.source = cls.synth("plain", cls.SAMPLES, format=3, chunk=8, videos=7)
        cls.other = cls.synth("other", cls.SAMPLES, format=3, chunk=8, videos=7, seed=99)

    @classmethod
    def write(cls, name, source=None, **options):
        writer = icechunk_writer.Writer(os.path.join(cls.datasets, name), **options)
        writer.snapshot = writer.commit(source or cls.source)
        return writer


class Local(Repositories):
    def settings(self, uri, **more):
        return {"dataset.uri": uri, "batch.global_size": 12, "batch.last": "partial", "order.epochs": 2, "order.seed": 5,
                "order.window_rows": 9, "readers.threads": 2, **more}

    def check(self, uri, readers=(1, 3), **more):
        expected = self.single(self.settings(self.source))
        for count in readers:
            with self.subTest(uri=uri, readers=count):
                self.assertEqual(self.digests(count, 2, self.settings(uri, **more)), expected)

    def refused(self, uri, *words, **more):
        outcome = self.reader(ALONE, self.settings(uri, **more), [], ["--quiet"])
        self.assertNotEqual(outcome.code, 0, outcome.output)
        for word in words:
            self.assertIn(word, outcome.output)


class Icechunk(Local):
    def test_formats(self):
        self.check(f"icechunk://{self.write('f1', version=1, inline=600).folder}", readers=(3,))
        self.check(f"icechunk://{self.write('f2', per_manifest=3).folder}", readers=(1,))

    def test_a_branch_that_moves(self):
        """All readers of a run read the snapshot that the first one found, though the branch moves all the time."""
        writer = self.write("moving", version=1)
        path = os.path.join(writer.folder, "refs", "branch.main", "ref.json")
        uri, snapshots = f"icechunk://{writer.folder}", [writer.snapshot, writer.commit(self.other, "other")]
        expected = [self.single(self.settings(source)) for source in (self.source, self.other)]
        self.assertNotEqual(*expected)
        over = threading.Event()

        def move():
            for i in itertools.count():
                with open(path + ".new", "w", encoding="ascii") as file:
                    json.dump({"snapshot": snapshots[i % 2]}, file)
                os.replace(path + ".new", path)
                if over.wait(0.001):
                    return

        mover = threading.Thread(target=move)
        mover.start()
        try:
            for _ in range(2):
                self.assertIn(self.digests(4, 2, self.settings(uri)), expected)
        finally:
            over.set()
            mover.join()

    def test_missing(self):
        """What a manifest refers to and is not there is no fill value."""
        folder = self.write("missing").folder
        for name in os.listdir(os.path.join(folder, "chunks"))[:30]:
            os.remove(os.path.join(folder, "chunks", name))
        self.refused(f"icechunk://{folder}", "the manifest refers to this chunk", "removed",
                     **{"errors.missing_chunk": "fill"})


class More(Local):
    def test_virtual(self):
        """Chunks in other folders are read where the configuration says so, and only while they are as they were."""
        copy = os.path.join(self.folder, "copy")
        shutil.copytree(self.source, copy)
        later = http_date_s(os.path.join(copy, "zarr.json")) + 1000
        uri = f"icechunk://{self.write('virtual', copy, virtual=f'file://{copy}/', modified=later).folder}"
        self.refused(uri, "outside the repository", f"set store.virtual: ['file://{copy}/")
        os.mkdir(self.folder + "/cop")  # the start of a name is no folder
        self.refused(uri, "outside the repository", **{"store.virtual": self.folder + "/cop"})
        self.check(uri, readers=(2,), **{"store.virtual": f"{self.folder}"})
        for folder, _, names in os.walk(os.path.join(copy, "base_frames")):
            for name in names:
                os.utime(os.path.join(folder, name), (later + 5,) * 2)
        self.refused(uri, "was changed after the repository's reference", **{"store.virtual": copy})

    def test_resume(self):
        """A state is of one snapshot, which a refusal of another one names."""
        writer = self.write("resumed")
        uri, state = f"icechunk://{writer.folder}", os.path.join(self.folder, "state")
        head = self.digests(2, 2, self.settings(uri), ["--steps", "7", "--state", state + ".{rank}"],
                            expect=EXIT_STOPPED_EARLY)
        later = writer.commit(self.other, "later")
        outcome = self.reader(2, self.settings(uri), [], ["--quiet", "--resume", state + ".0"])
        self.assertNotEqual(outcome.code, 0, outcome.output)
        self.assertIn(f"'{uri}' is read at snapshot {later}; if the run began at another one", outcome.output)
        tail = self.digests(2, 2, self.settings(f"{uri}@snapshot:{writer.snapshot}"), options=["--resume", state + ".0"])
        self.assertEqual(head + tail, self.single(self.settings(self.source)))

    def test_plan(self):
        made = run([program("penstock"), "plan", "--set", f"dataset.uri=icechunk://{self.write('plan').folder}",
                    "--set", "batch.global_size=12"])
        self.assertEqual(made.code, 0, made.output)
        self.assertIn("for manifests, references and directories", made.output)

    def test_joined(self):
        """Two repositories as one dataset, of which each has its own reference."""
        uris = [f"icechunk://{self.write(f'joined{i}', version=i).folder}@main" for i in (1, 2)]
        plain = [self.source, self.synth("again", self.SAMPLES, format=3, chunk=8, videos=7)]
        self.assertEqual(self.digests(2, 2, self.settings(",".join(uris))),
                         self.digests(1, 1, self.settings(",".join(plain))))


class Remote(Repositories, RemoteTest):
    """Over plain HTTP, and from S3."""

    def uri(self, url, writer, reference=""):
        return f"icechunk+{url}/{os.path.basename(writer.folder)}{reference}"

    def check(self, uri, env=None, readers=(1, 3), **more):
        expected = self.single(self.settings(self.source))
        for count in readers:
            with self.subTest(uri=uri, readers=count):
                self.assertEqual(self.lines(count, self.settings(uri, **more), env or self.env()), expected)

    def test_http(self):
        server = servers.Nginx(self.datasets)
        self.addCleanup(server.close)
        self.check(self.uri(server.url, self.write("h1", version=1, inline=600)))
        self.check(self.uri(server.url, self.write("h2", per_manifest=3), "@branch:main"), readers=(2,))
        cached = {"readers.cache_dir": os.path.join(self.folder, "cache")}
        self.check(self.uri(server.url, self.write("h3")), readers=(2,), **cached)
        before = len(server.requests())
        self.check(self.uri(server.url, self.write("h3")), readers=(2,), **cached)
        self.assertNotIn("/h3/chunks/", server.requests()[before:])

    def test_virtual_over_http(self):
        """Of a repository in a folder, and only as long as the files were not changed."""
        copy = os.path.join(self.datasets, "copy")
        shutil.copytree(self.source, copy)
        server = servers.Nginx(self.datasets)
        self.addCleanup(server.close)
        later = http_date_s(os.path.join(copy, "zarr.json")) + 1000
        virtual = f"{server.url}/copy/"
        uri = f"icechunk://{self.write('hv', copy, virtual=virtual, modified=later).folder}"
        self.refused("outside the repository", self.settings(uri))
        self.check(uri, readers=(2,), **{"store.virtual": virtual})
        asked = [line for line in server.requests().splitlines() if "/copy/base_frames/c/" in line]
        self.assertTrue(asked and all('" 206 ' in line for line in asked), asked[:3])
        for folder, _, names in os.walk(os.path.join(copy, "base_frames")):
            for name in names:
                os.utime(os.path.join(folder, name), (later + 5,) * 2)
        self.refused("412 .*was changed after the reference", self.settings(uri, **{"store.virtual": virtual}))
        wrong = self.write("he", copy, virtual=virtual, etag="other")
        self.refused("412 .*was changed after the reference",
                     self.settings(f"icechunk://{wrong.folder}", **{"store.virtual": virtual}))

    def test_missing_over_http(self):
        folder = self.write("hm").folder
        for name in os.listdir(os.path.join(folder, "chunks"))[:30]:
            os.remove(os.path.join(folder, "chunks", name))
        server = servers.Nginx(self.datasets)
        self.addCleanup(server.close)
        self.refused("the manifest refers to this chunk.*404",
                     self.settings(f"icechunk+{server.url}/hm", **{"errors.missing_chunk": "fill"}))
        shutil.rmtree(os.path.join(folder, "manifests"))
        self.refused("is not there, and the Icechunk repository refers to it",
                     self.settings(f"icechunk+{server.url}/hm"))

    def test_s3(self):
        if not servers.has_moto():
            self.skipTest("PENSTOCK_MOTO_PYTHON has no moto")
        self.write("s1", version=1)
        self.write("s2", virtual=f"s3://{servers.S3.BUCKET}/data%20sets/plain/")
        server = servers.S3(self.datasets)
        self.addCleanup(server.close)
        env = self.env(**server.environment(AWS_ENDPOINT_URL=server.url))
        prefix = f"icechunk+s3://{servers.S3.BUCKET}/data sets"
        self.check(f"{prefix}/s1", env, readers=(2,))
        self.check(f"{prefix}/s2", env, readers=(2,), **{"store.virtual": f"s3://{servers.S3.BUCKET}/data sets/"})
        self.refused("has no branch 'none'; it has 'main'", self.settings(f"{prefix}/s1@none"), env)


if __name__ == "__main__":
    unittest.main()
