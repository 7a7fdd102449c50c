"""Groups of trainers: what they take in memory, what is read and sent for them, and ranks that are where nobody expects
them."""

import json
import os
import re
import unittest

import test_lost_trainers
import test_recovery
from job import JobTest
from recovery import RecoveryTest

SAMPLES, ROWS, COLUMNS, ITEM_BYTES = 64, 8, 16, 4
SAMPLE_BYTES = ROWS * COLUMNS * ITEM_BYTES


def write_grid(uri, chunk_rows):
    """An array x [SAMPLES, ROWS, COLUMNS] of numbers that tell all items apart, as they are stored; a chunk has some rows."""
    folder = os.path.join(uri, "x")
    os.makedirs(folder)
    with open(os.path.join(uri, ".zgroup"), "w", encoding="ascii") as file:
        json.dump({"zarr_format": 2}, file)
    with open(os.path.join(folder, ".zarray"), "w", encoding="ascii") as file:
        json.dump({"zarr_format": 2, "shape": [SAMPLES, ROWS, COLUMNS], "chunks": [1, chunk_rows, COLUMNS], "dtype": "<i4",
                   "compressor": None, "filters": None, "fill_value": 0, "order": "C"}, file)
    for sample in range(SAMPLES):
        for chunk in range(ROWS // chunk_rows):
            first = sample * ROWS * COLUMNS + chunk * chunk_rows * COLUMNS
            items = range(first, first + chunk_rows * COLUMNS)
            with open(os.path.join(folder, f"{sample}.{chunk}.0"), "wb") as file:
                file.write(b"".join(item.to_bytes(ITEM_BYTES, "little") for item in items))


class Traffic(JobTest):
    """What is read, kept and sent, by the report. Readers of one machine stand for nodes."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for rows in (2, 4, 8):
            write_grid(cls.uri(rows), rows)

    @classmethod
    def uri(cls, chunk_rows):
        return os.path.join(cls.datasets, f"grid{chunk_rows}")

    def run_mesh(self, readers, mesh, chunk_rows=8, **more):
        """The report of two epochs."""
        report = os.path.join(self.folder, "report.json")
        trainers = 1
        for size in re.findall(r":(\d+)", mesh):
            trainers *= int(size)
        settings = {"dataset.uri": self.uri(chunk_rows), "dataset.fields.x": "x", "delivery.trainers": trainers,
                    "delivery.mesh": mesh, "delivery.data": "dp", "batch.global_size": 8, "order.epochs": 2,
                    "readers.threads": 1, **more}
        outcome = self.reader(readers, settings, [], ["--quiet", "--report", report])
        self.assertEqual(outcome.code, 0, outcome.output)
        with open(report, encoding="utf-8") as file:
            told = json.load(file)
        for epoch in told["epochs"]:  # chance alone is foreseen on average
            self.assertAlmostEqual(epoch["foreseen_sent_bytes"], epoch["sent_bytes"], delta=SAMPLES * SAMPLE_BYTES // 4)
        return told

    def of_epochs(self, report, what):
        return [epoch[what] for epoch in report["epochs"]]

    def read_by(self, report):
        """What each reader has read in the first epoch."""
        return [reader["epochs"][0]["stored_bytes"] for reader in report["readers"]]

    def test_a_sample_is_sent_once_to_a_node(self):
        """However many of a group's ranks are there: half of the samples go from each of two readers to the other."""
        for mesh in ("dp:1,tp:2", "dp:1,tp:8"):
            with self.subTest(mesh=mesh):
                report = self.run_mesh(2, mesh)
                self.assertEqual(self.of_epochs(report, "sent_bytes"), [SAMPLES * SAMPLE_BYTES] * 2)
                self.assertEqual(self.of_epochs(report, "stored_bytes"), [SAMPLES * SAMPLE_BYTES, 0])
        report = self.run_mesh(3, "dp:1,tp:6")
        self.assertEqual(self.of_epochs(report, "sent_bytes"), [2 * SAMPLES * SAMPLE_BYTES] * 2)

    def test_of_a_field_that_is_cut_the_parts_are_sent(self):
        """Chunks have all of a sample: each is read once, and the half that is for the other reader goes there."""
        report = self.run_mesh(2, "dp:1,sp:2", **{"dataset.cuts.rows.over": "sp", "dataset.fields.x.cut.0": "rows"})
        self.assertEqual(self.of_epochs(report, "sent_bytes"), [SAMPLES * SAMPLE_BYTES // 2] * 2)
        self.assertEqual(sum(self.read_by(report)), SAMPLES * SAMPLE_BYTES)

    def test_what_only_some_ranks_have_goes_nowhere_else(self):
        """The last of two stages alone has the field: each sample is read there, or sent there, once."""
        report = self.run_mesh(2, "pp:2,dp:1,tp:2", **{"dataset.fields.x.only.pp": "last"})
        self.assertLessEqual(self.of_epochs(report, "sent_bytes")[1], SAMPLES * SAMPLE_BYTES // 2)
        self.assertEqual(self.of_epochs(report, "stored_bytes"), [SAMPLES * SAMPLE_BYTES, 0])

    def test_readers_that_cut_a_chunked_grid_read_a_part_each(self):
        """Chunks divide the grid as the cut does: n readers read 1/n of each sample each, and exchange nothing."""
        cut = {"dataset.cuts.rows.over": "sp", "dataset.fields.x.cut.0": "rows"}
        whole = self.run_mesh(1, "dp:1,sp:4", 2, **cut)
        for readers, chunk_rows in ((2, 4), (2, 2), (4, 2)):
            with self.subTest(readers=readers, chunk_rows=chunk_rows):
                report = self.run_mesh(readers, "dp:1,sp:4", chunk_rows, **cut)
                self.assertEqual(self.of_epochs(report, "sent_bytes"), [0, 0])
                self.assertEqual(self.read_by(report), [SAMPLES * SAMPLE_BYTES // readers] * readers)
                self.assertEqual(self.of_epochs(report, "stored_bytes")[1], 0)
                self.assertLess(report["memory"]["row_buffers"], whole["memory"]["row_buffers"])


class Memory(RecoveryTest):
    """The rings of ranks that share a batch."""

    def ring_bytes(self, trainers, mesh):
        """Bytes of the memory files that a reader has made for rings, and of its budget."""
        self.trainers = trainers
        self.run_dir = os.path.join(self.folder, f"run{trainers}")
        settings = self.settings(**{"delivery.run_dir": self.run_dir, "delivery.mesh": mesh,
                                    "delivery.data": "dp" if mesh else "", "order.epochs": 1})
        job = self.start_readers(1, settings)
        ranks = self.start_trainers("--compute-ms", "5")
        for rank in range(trainers):
            self.until_lines(str(rank), 8)
        folder, found = f"/proc/{self.reader_pid(0)}/fd", {}
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if os.path.islink(path) and os.readlink(path).startswith("/memfd:penstock-ring"):
                found[os.stat(path).st_ino] = os.stat(path).st_size
        self.assert_ends_well(*ranks, job)
        for rank in range(trainers):
            os.remove(os.path.join(self.folder, f"digest.{rank}"))
        return sum(found.values()), self.plan(1, {**settings, "delivery.run_dir": "auto"})["memory_bytes_of_a_reader"]

    def test_a_group_takes_the_ring_of_one(self):
        one, budget_of_one = self.ring_bytes(1, "")
        eight, budget_of_eight = self.ring_bytes(8, "dp:1,tp:8")
        self.assertLessEqual(eight - one, 4096)  # control words of 8 members
        self.assertLess(budget_of_eight - budget_of_one, one // 2)


class Refused(RecoveryTest):
    """Ranks that are where nobody expects them: one message, and nobody waits."""

    trainers = 4
    MESH = {"delivery.mesh": "dp:2,tp:2", "delivery.data": "dp"}

    def refuse(self, reader_of, said, **more):
        """A job of two readers, to which each rank is sent by hand."""
        settings = self.settings(**{"delivery.run_dir": self.run_dir, **self.MESH, **more})
        job = self.start_readers(2, settings)
        ranks = [self.start_trainer(rank, f"digest.{rank}", PENSTOCK_READER=reader) for rank, reader in enumerate(reader_of)]
        self.assertNotEqual(job.wait(), 0)
        errors = [line for line in job.output().splitlines() if "penstock-reader: error" in line]
        self.assertEqual(len(errors), 1, job.output())
        self.assertRegex(errors[0], said)
        for process in ranks:
            self.assertNotEqual(process.wait(), 0, process.output())
            self.assertRegex(process.output(), said)
        self.assert_nothing_left_behind()

    def test_a_group_at_more_readers_than_there_are_buffers_for(self):
        self.refuse((0, 1, 0, 1), r"rank 1 \(dp 0, tp 1\) is at reader 1, and its group is at 1 other.*: start ranks in blocks, "
                                  "one node after another, as delivery.mesh has them")

    def test_ranks_that_need_more_than_those_expected(self):
        """Each of two stages has a field of its own, which its reader reads. Both stages are at each reader."""
        fields = {"dataset.fields.a": "base_frames", "dataset.fields.a.only.pp": "first",
                  "dataset.fields.b": "base_frames", "dataset.fields.b.only.pp": "last"}
        self.refuse((0, 1, 0, 1), "reader [01] has trainers that need other parts of samples than it reads: start ranks in blocks",
                    **{**fields, "delivery.mesh": "pp:2,dp:2"})

    def test_a_rank_that_never_comes(self):
        self.refuse((0, 0, 1), r"3 of 4 trainers connected within 2 s \(delivery.connect_timeout\), without rank 3",
                    **{"delivery.connect_timeout": 2})


class Shared:
    """Both trainers of a test are a group: each batch is for both, and each has a part of it."""

    batch = 8

    def settings(self, **more):
        mesh = {"delivery.mesh": "dp:1,tp:2", "delivery.data": "dp"}
        cut = {"dataset.cuts.rows.over": "tp", "dataset.cuts.rows.order": "zigzag", "dataset.fields.latents.array": "base_frames",
               "dataset.fields.latents.cut.2": "rows"}
        return super().settings(**{**mesh, **({} if "dataset.uri" in more else cut), **more})


class LostTrainers(Shared, test_lost_trainers.Trainers):
    """All of that test but one, which has two names for one dataset."""

    test_spawned_with_chunks_on_their_way = None


class LostReaders(Shared, test_recovery.Readers):
    """All of that test."""


if __name__ == "__main__":
    unittest.main()
