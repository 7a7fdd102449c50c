"""penstock.torch on a DeviceMesh against a demo server: who this process is, DTensors, and copies from memory that is read-only."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import unittest

try:
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import penstock
import penstock.torch
from demo import Demo, connect_all
from fake_device import FakeDevice
from test_groups import is_right


@contextlib.contextmanager
def first_of(trainers, torchs=None, **settings):
    """A penstock.torch.Loader of rank 0, on a DeviceMesh of torch's whose other ranks talk to nobody."""
    with Demo(trainers=trainers, fields="grid", slots=4, **settings) as demo, contextlib.ExitStack() as stack:
        others = [stack.enter_context(loader) for loader in connect_all(demo, trainers)]
        yield penstock.torch.Loader(others[0], mesh=torchs)


@contextlib.contextmanager
def first_batch_of(*arguments, **settings):
    with first_of(*arguments, **settings) as loader:
        yield next(iter(loader))


def mesh_of(*sizes, names):
    return init_device_mesh("cpu", sizes, mesh_dim_names=tuple(names.split(",")))


class OneProcess(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)

    @classmethod
    def tearDownClass(cls):
        dist.destroy_process_group()


class DTensors(OneProcess):
    def placed(self, batch, name, mesh=None):
        found = batch.dtensor(name, mesh)
        self.assertEqual(found.to_local().data_ptr(), batch[name].data_ptr())
        return found.placements, tuple(found.shape), found.stride()

    def test_data_axes_cuts_and_repetition(self):
        mesh = mesh_of(2, 2, 2, names="dp,sp,tp")
        with first_batch_of(8, mesh, mesh="dp:2,sp:2,tp:2", data="dp", cut=["grid:1:sp", "tokens:0:sp,tp"]) as batch:
            self.assertEqual(self.placed(batch, "grid"), ((Shard(0), Shard(2), Replicate()), (8, 8, 6), (48, 6, 1)))
            self.assertEqual(self.placed(batch, "tokens"), ((Shard(0), Shard(1), Shard(1)), (8, 16), (16, 1)))
            self.assertEqual(self.placed(batch, "label"), ((Shard(0), Replicate(), Replicate()), (8,), (1,)))

    def test_uneven_parts_as_of_torch_chunk(self):
        mesh = mesh_of(2, 4, names="dp,sp")
        with first_batch_of(8, mesh, mesh="dp:2,sp:4", data="dp", cut="grid:1:sp::chunk") as batch:
            self.assertEqual(self.placed(batch, "grid"), ((Shard(0), Shard(2)), (8, 8, 6), (48, 6, 1)))

    def test_two_axes_of_a_sample(self):
        mesh = mesh_of(1, 2, 2, 2, names="dp,h,w,tp")
        with first_batch_of(8, mesh, mesh="dp:1,h:2,w:2,tp:2", data="dp", cut=["grid:0:h", "grid:1:w"]) as batch:
            self.assertEqual(self.placed(batch, "grid"), ((Shard(0), Shard(1), Shard(2), Replicate()), (4, 8, 6), (48, 6, 1)))

    def test_a_part_of_the_mesh(self):
        """Of the samples and parts that its ranks have."""
        mesh = mesh_of(2, 2, 2, names="dp,sp,tp")
        with first_batch_of(8, mesh, mesh="dp:2,sp:2,tp:2", data="dp", cut=["grid:1:sp", "tokens:0:tp:zigzag"]) as batch:
            self.assertEqual(self.placed(batch, "grid", mesh["sp"]), ((Shard(2),), (4, 8, 6), (48, 6, 1)))
            self.assertEqual(self.placed(batch, "grid", mesh["tp"]), ((Replicate(),), (4, 8, 3), (24, 3, 1)))
            self.assertEqual(self.placed(batch, "tokens", mesh["dp", "sp"]), ((Shard(0), Replicate()), (8, 8), (8, 1)))

    def test_axes_of_size_1_may_be_left_out(self):
        with first_batch_of(8, mesh_of(8, 1, names="dp,ep"), mesh="pp:1,dp:8,tp:1", data="dp", cut="grid:0:tp") as batch:
            self.assertEqual(self.placed(batch, "grid"), ((Shard(0), Replicate()), (32, 8, 6), (48, 6, 1)))

    def test_what_cannot_be_is_said(self):
        cuts = {
            "tokens:0:sp:zigzag": "it is cut in zigzag. batch\\['tokens'\\] is this rank's part, and the positions\\(0\\)",
            "grid:0:sp::even": "",
            "grid:1:sp::even": "not those of torch.chunk\\(\\); split: chunk makes such",
            "grid:0:sp::5,3": "not those of torch.chunk",
            "grid:1:sp,tp::chunk": "6 indices are no multiple of 4 parts",
            "grid:0:tp,sp": "cut over \\('tp', 'sp'\\), and the DeviceMesh has \\('sp', 'tp'\\)",
        }
        mesh = mesh_of(2, 2, 2, names="dp,sp,tp")
        for cut, words in cuts.items():
            sizes = {"grid:1:sp::even": "dp:2,sp:4", "grid:0:sp::even": "dp:2,sp:2,tp:2"}.get(cut, "dp:2,sp:2,tp:2")
            of = mesh_of(2, 4, names="dp,sp") if sizes == "dp:2,sp:4" else mesh
            with first_batch_of(8, of, mesh=sizes, data="dp", cut=cut) as batch:
                if not words:
                    batch.dtensor("grid")
                    continue
                with self.assertRaisesRegex(penstock.Invalid, f"cannot express field '{cut.split(':')[0]}' along axis .*{words}"):
                    batch.dtensor(cut.split(":")[0])
        with first_batch_of(8, mesh, mesh="dp:2,sp:2,tp:2", data="dp", cut=["grid:0:sp", "grid:1:sp"]) as batch:
            with self.assertRaisesRegex(penstock.Invalid, "cut twice over \\('sp',\\)"):
                batch.dtensor("grid")
        with first_batch_of(8, mesh="dp:2,sp:4", data="dp") as batch:
            with self.assertRaisesRegex(penstock.Invalid, "give Loader\\(\\) or dtensor\\(\\) mesh"):
                batch.dtensor("grid")
            with self.assertRaisesRegex(penstock.Invalid, r"DeviceMesh is \[dp: 2, sp: 2, tp: 2\], and delivery.mesh \[dp: 2, sp: 4\]"):
                batch.dtensor("grid", mesh)
            with self.assertRaises(KeyError):
                batch.dtensor("gird", mesh)

    def test_a_short_last_step(self):
        for samples, shape in ((18, (2, 8, 6)), (17, None)):
            mesh = mesh_of(2, 4, names="dp,tp")
            with first_of(8, mesh, mesh="dp:2,tp:4", data="dp", samples=samples, last="partial", epochs=1) as loader:
                last = [batch for batch, _ in zip(loader, range(3))][-1]
                if shape:
                    self.assertEqual(tuple(last.dtensor("grid").shape), shape)
                else:
                    with self.assertRaisesRegex(penstock.Invalid, "step 2 has a number of samples that need not divide"):
                        last.dtensor("grid")
                self.assertEqual(last.dtensor("grid", mesh["tp"]).placements, (Replicate(),))

    def test_groups_that_do_not_divide_a_step(self):
        with first_of(8, mesh_of(2, 4, names="dp,tp"), mesh="dp:2,tp:4", data="dp", less=1) as loader:
            with self.assertRaisesRegex(penstock.Invalid, "2 groups: set batch.global_size to a multiple of these"):
                next(iter(loader)).dtensor("grid")


class Meshes(OneProcess):
    def test_one_message_says_both(self):
        for mesh in (mesh_of(4, 2, names="dp,tp"), mesh_of(2, 4, names="dp,sp")):
            with self.assertRaisesRegex(penstock.Invalid, r"by the DeviceMesh this process is at \{'dp': .*and by delivery.mesh it "
                                                          r"is at \{'dp': \(0, 2\), 'tp': \(0, 4\)\}"):
                with first_of(8, mesh, mesh="dp:2,tp:4", data="dp") as loader:
                    loader.info  # pylint: disable=pointless-statement
            with Demo(trainers=8, fields="grid", mesh="dp:2,tp:4", data="dp") as demo:
                with self.assertRaisesRegex(penstock.Refused, r"told: dp=0/\d,[ts]p=0/\d; delivery.mesh: \[dp: 2, tp: 4\]"):
                    next(iter(penstock.torch.Loader(run_dir=demo.run_dir, rank=0, world_size=8, timeout=10, mesh=mesh)))

    def test_a_mesh_that_says_nothing(self):
        with self.assertRaisesRegex(penstock.Invalid, "has no names: give init_device_mesh"):
            penstock.torch.Loader(mesh=init_device_mesh("cpu", (8,)))
        elsewhere = dist.device_mesh.DeviceMesh("cpu", torch.arange(4, 8), mesh_dim_names=("dp",))
        with self.assertRaisesRegex(penstock.Invalid, r"this process is not in the DeviceMesh \[dp: 4\]"):
            penstock.torch.Loader(mesh=elsewhere)
        with self.assertRaisesRegex(penstock.Invalid, "give one of the two"):
            penstock.torch.Loader(mesh=mesh_of(8, names="dp"), coordinates={"dp": 0})


class Processes(unittest.TestCase):
    def test_dtensors_are_whole_samples(self):
        with socket.socket() as held, Demo(trainers=4, fields="grid", mesh="dp:2,tp:2", data="dp", samples=24, epochs=1, slots=4,
                                           cut=["grid:0:tp", "tokens:0:tp"]) as demo:
            held.bind(("127.0.0.1", 0))
            port = str(held.getsockname()[1])
            held.close()
            program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_process.py")
            environment = dict(os.environ, WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT=port, OMP_NUM_THREADS="1")
            processes = [subprocess.Popen([sys.executable, program, demo.run_dir], env=dict(environment, RANK=str(rank)),
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(4)]
            try:
                outputs = [process.communicate(timeout=120) for process in processes]
            finally:
                for process in processes:
                    process.kill()
        outcomes = [json.loads(out.splitlines()[-1]) if out else err for out, err in outputs]
        self.assertEqual(outcomes, [{"steps": 3, "wrong": [], "rank": 2 * (rank % 2) + rank // 2,
                                     "at": {"dp": rank % 2, "tp": rank // 2}} for rank in range(4)])


class Pinned(unittest.TestCase):
    """Copies to a device from memory that a group shares."""

    new_device = FakeDevice

    def test_the_device_is_told_that_the_memory_is_read_only(self):
        for mesh, trainers in (("dp:1,tp:2", 2), ("dp:1", 1)):
            device = self.new_device()
            with Demo(trainers=trainers, fields="grid", mesh=mesh, data="dp", slots=4, samples=24) as demo:
                first, *others = connect_all(demo, trainers)
                with penstock.torch.Loader(first, device=device, pin=True, depth=2) as loader:
                    for batch in loader:
                        batch["grid"].add_(1)  # the device's own memory
                        batch["grid"].sub_(1)
                        host = {name: tensor.cpu().numpy() for name, tensor in batch.items()}
                        self.assertTrue(is_right(loader, type("Host", (dict,), {"indices": batch.indices.cpu()})(host)))
                        for other in others:
                            other.next()
                    for other in others:
                        other.close()
            self.assertEqual(device.read_only, {trainers > 1})
            self.assertEqual((device.unregistered_copies, device.registered), (0, {}))

    def test_a_device_that_cannot(self):
        with Demo(trainers=2, fields="grid", mesh="dp:1,tp:2", data="dp", slots=4) as demo:
            first, other = connect_all(demo, 2)
            with self.assertRaisesRegex(penstock.Invalid, r"error 801\): it takes none that is read-only"):
                penstock.torch.Loader(first, device=self.new_device(refuses=801), pin=True)
            first.close()
            other.close()


if __name__ == "__main__":
    unittest.main()
