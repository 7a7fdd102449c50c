"""The uses that configs/ has files for: each runs, on a dataset of its layout, with the same samples on other shapes.

The files name datasets that are elsewhere; here `penstock synth` writes small ones.
"""
import collections
import pathlib
import subprocess
import unittest

import job

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "configs"
ROBOT = ["--layout", "robot", "--samples", "600", "--episodes", "12", "--shape", "8,8,3"]
EVENTS = ["--layout", "events", "--samples", "60", "--items", "900", "--shape", "4,36,64", "--chunk", "4000"]
SMALL = {"dataset.fields.events.deliver.dense": "[4, 36, 64]"}  # and not [20, 360, 640]
USES = {
    "diffusion-policy": ROBOT,
    "action-chunks": ROBOT,
    "weather-windows": ["--layout", "weather", "--samples", "400", "--shape", "69,4,4"],
    "latents-validation": ["--samples", "800"],
    "events": EVENTS,
    "events-sequence": EVENTS,
    "anndata": ["--layout", "csr", "--samples", "300", "--items", "200", "--chunk", "5000"],
    "documents-ragged": ["--layout", "documents", "--samples", "300", "--items", "100", "--chunk", "3000"],
    "packed-documents": ["--layout", "tokens", "--samples", "300000", "--documents", "500"],
}


class Uses(job.JobTest):
    def data(self, name):
        path = pathlib.Path(self.datasets) / name
        if not path.exists():
            made = job.run([job.program("penstock"), "synth", str(path), *USES[name]])
            self.assertEqual(made.code, 0, made.output)
        return path

    def samples(self, name, readers, trainers, **settings):
        """Index and digest of each sample of one epoch, in order."""
        settings = {"dataset.uri": self.data(name), "order.epochs": 1, "batch.global_size": 12,
                    "batch.last": "partial", **settings}
        lines = self.digests(readers, trainers, settings, options=["-c", str(CONFIGS / f"{name}.yaml")])
        return [(int(line[3]), line[4]) for line in lines]

    def use(self, name, count=None, **settings):
        """The samples of one reader and one trainer; other shapes have the same."""
        one = self.samples(name, 1, 1, **settings)
        self.assertEqual(self.samples(name, 3, 2, **settings), one)
        self.assertEqual(len({index for index, _ in one}), len(one))
        if count is not None:
            self.assertEqual(len(one), count)
        return {index for index, _ in one}

    def test_diffusion_policy(self):
        """Each of the 12 episodes lacks its last 7 frames, and no episode is that short."""
        self.use("diffusion-policy", 600 - 12 * 7)

    def test_action_chunks(self):
        """Every frame of the part's episodes; both parts together have all frames."""
        train = self.use("action-chunks")
        val = {index for index, _ in self.samples("action-chunks", 1, 1, **{"samples.split_part": "val"})}
        self.assertTrue(train and val and not train & val)
        self.assertEqual(train | val, set(range(600)))

    def test_weather_windows(self):
        """No sample touches a frame of validation, and some frames are missing."""
        indices = self.use("weather-windows")
        self.assertLess(max(indices), 298)
        self.assertTrue(200 < len(indices) < 298, len(indices))

    def test_latents_validation(self):
        val = self.use("latents-validation")
        train = {index for index, _ in self.samples("latents-validation", 1, 1, **{"samples.split_part": "train"})}
        self.assertTrue(val and train and not train & val)
        self.assertEqual(train | val, set(range(800)))

    def test_events(self):
        self.assertEqual(self.use("events", 60, **SMALL), set(range(60)))

    def test_events_in_sequences(self):
        self.assertEqual(self.use("events-sequence", 11, **SMALL), set(range(0, 51, 5)))

    def test_anndata(self):
        self.assertEqual(self.use("anndata", 300), set(range(300)))

    def test_documents_ragged(self):
        self.assertEqual(self.use("documents-ragged", 300), set(range(300)))

    def test_packed_documents(self):
        self.assertEqual(self.use("packed-documents", -(-300000 // 4096)), set(range(0, 300000, 4096)))


    def write_mix(self):
        """configs/robot-mix.yaml, and the file that it names, with datasets that are here. Returns the mix's path."""
        lengths = {"robot": 600, "second": 250, "third": 90}
        for name in ("action-chunks.yaml", "robot-mix.yaml"):
            text = (CONFIGS / name).read_text(encoding="utf-8")
            for uri, samples in lengths.items():
                path = self.synth(uri, samples, layout="robot", episodes=max(3, samples // 50), shape="8,8,3", seed=samples)
                text = text.replace(f"/data/{uri}.zarr", path)
            (pathlib.Path(self.folder) / name).write_text(text, encoding="utf-8")
        return pathlib.Path(self.folder) / "robot-mix.yaml"

    def test_robot_mix(self):
        """Half of the samples, 3 in 10 and 2 in 10. The third source has 45 samples, and comes round several times."""
        settings = {"mix.samples": 1000, "order.epochs": 1, "batch.global_size": 12, "batch.last": "partial"}
        options = ["-c", str(self.write_mix())]
        one = self.digests(1, 1, settings, options=options)
        self.assertEqual(len(one), 1000)
        self.assertEqual(self.digests(3, 2, settings, options=options), one)
        many = collections.Counter((line[3], line[4]) for line in one)
        self.assertEqual(sum(times for times in many.values() if times > 2), 200)
        self.assertTrue(all(times in (4, 5) for times in many.values() if times > 2))


if __name__ == "__main__":
    unittest.main()
