"""penstock.torch against a demo server: epochs, tensors, states, copies to a device, and registered memory."""

import collections
import contextlib
import gc
import json
import os
import pathlib
import pickle
import re
import sys
import textwrap
import unittest
import unittest.mock
import warnings

try:
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import penstock
import penstock.torch
from demo import Demo, pattern
from fake_device import FakeDevice
from interrupts import steps_in_spite_of_interrupts

SAMPLES, BATCH = 41, 4
STEPS = -(-SAMPLES // BATCH)


def open_loader(demo, **options):
    return penstock.torch.Loader(run_dir=demo.run_dir, rank=0, world_size=1, timeout=10, **options)


def is_right(batch, samples=SAMPLES):
    """Whether all bytes are those of the samples that the step has: demo_server.c says which."""
    positions = range(batch.step * BATCH, batch.step * BATCH + BATCH)
    if batch.indices.tolist() != [(position + 7 * batch.epoch) % samples for position in positions]:
        return False
    for name in ("bits", "image"):
        data = batch[name].contiguous().view(torch.uint8).reshape(len(batch.indices), -1)
        for i, index in enumerate(batch.indices.tolist()):
            if bytes(data[i].tolist()) != pattern(index, data.shape[1]):
                return False
    return batch["label"].tolist() == batch.indices.tolist()


class OnDevice(unittest.TestCase):
    """A test that copies to a device; test_torch_gpu.py has the same ones on a GPU."""

    new_device = FakeDevice


class Epochs(OnDevice):
    def test_each_iteration_is_an_epoch(self):
        with Demo(samples=SAMPLES, epochs=3) as demo, open_loader(demo) as loader:
            self.assertEqual((len(loader), loader.info.epochs), (STEPS, 3))
            for epoch in range(3):
                coming = iter(loader)
                batches = [(batch.epoch, batch.step, is_right(batch)) for batch in coming]
                self.assertTrue(coming.complete)
                self.assertEqual(batches, [(epoch, step, True) for step in range(STEPS)])
            self.assertTrue(loader.complete)
            with self.assertRaisesRegex(penstock.Ended, "epoch 3 was asked for, and order.epochs is 3"):
                iter(loader)

    def test_epochs_end_by_themselves(self):
        for device in (None, self.new_device()):
            with Demo(samples=SAMPLES, epochs=3, slots=4) as demo, open_loader(demo, device=device) as loader:
                seen = [(epoch, sum(1 for _ in zip(epoch, range(5)))) for epoch in loader.epochs()]
                self.assertEqual([(epoch.number, epoch.complete, count) for epoch, count in seen], [(n, False, 5) for n in range(3)])
                self.assertTrue(loader.complete)

    def test_an_epoch_by_its_number(self):
        with Demo(samples=SAMPLES, epochs=5) as demo, open_loader(demo) as loader:
            self.assertEqual({batch.epoch for batch, _ in zip(loader.epoch(1), range(2))}, {1})
            self.assertEqual([(batch.epoch, batch.step) for batch in loader.epoch(3)], [(3, step) for step in range(STEPS)])
            with self.assertRaisesRegex(penstock.Invalid, "epoch 2 is over"):
                loader.epoch(2)
            for number in (5, 9):
                with self.assertRaisesRegex(penstock.Ended, f"epoch {number} was asked for, and order.epochs is 5"):
                    loader.epoch(number)

    def test_keys_are_a_dicts(self):
        with Demo() as demo, open_loader(demo) as loader:
            batch = next(iter(loader))
            self.assertEqual(list(batch.keys()), ["bits", "image", "label"])
            batch["image.valid"] = torch.ones(BATCH, 1, dtype=torch.bool)
            self.assertEqual({name: mask.shape for name, mask in batch.valid_of.items()}, {"image": (BATCH, 1)})

    def test_samples_of_a_short_last_step_are_counted(self):
        with Demo(samples=SAMPLES, epochs=1, last="partial") as demo, open_loader(demo) as loader:
            self.assertEqual([batch.sample_count for batch in loader], [BATCH] * (STEPS - 1) + [SAMPLES % BATCH])

    def test_a_program_without_a_mark_gets_no_padding(self):
        for device in (None, self.new_device()):
            with Demo(samples=SAMPLES, epochs=1) as demo, open_loader(demo, device=device, all_valid=True) as loader:
                with self.assertRaisesRegex(penstock.Invalid, f"epoch 0 step {STEPS - 1}: 3 of 4 samples are not valid"):
                    list(map(is_right, loader))

    def test_tensors_share_the_slot(self):
        with Demo() as demo, open_loader(demo) as loader:
            batch = next(iter(loader))
            self.assertEqual([tensor.dtype for tensor in batch.values()],
                             [torch.bfloat16, torch.float32, torch.int64])
            self.assertEqual((batch.valid.dtype, batch.sample_keys.dtype), (torch.bool, torch.int64))
            self.assertEqual(loader.stats.leased, 1)
            image = batch["image"]
            del batch
            gc.collect()
            self.assertEqual(loader.stats.leased, 1)
            del image
            gc.collect()
            self.assertEqual(loader.stats.leased, 0)

    def test_constants_share_the_connections_memory(self):
        with Demo(constants=1) as demo, open_loader(demo) as loader, warnings.catch_warnings():
            warnings.simplefilter("error")
            height, times = loader.constants["grid/height"], loader.constants["time"]
            self.assertEqual((height.dtype, height.tolist()), (torch.float32, [[0, 1, 2], [3, 4, 5]]))
            self.assertEqual((times.dtype, times.tolist()), (torch.int64, [1 << 40, -1]))
            shared = loader.connection.constants["grid/height"]
            self.assertEqual(height.data_ptr(), shared.ctypes.data)
            self.assertFalse(shared.flags.writeable)
        self.assertEqual(height.sum().item(), 15)  # they outlive the loader
        with Demo() as demo, open_loader(demo) as loader:
            self.assertEqual(loader.constants, {})

    def test_an_abandoned_epoch_is_skipped(self):
        for device in (None, self.new_device()):
            with Demo(samples=SAMPLES, epochs=3, slots=4) as demo, open_loader(demo, device=device) as loader:
                for batch, _ in zip(loader, range(2)):
                    self.assertEqual(batch.epoch, 0)
                held = batch
                self.assertEqual([batch.epoch for batch in loader], [1] * STEPS)
                self.assertEqual((held.epoch, held.step, is_right(held)), (0, 1, True))
                self.assertEqual(next(iter(loader)).epoch, 2)

    def test_set_epoch(self):
        with Demo(samples=SAMPLES, epochs=4) as demo, open_loader(demo) as loader:
            loader.set_epoch(0)
            self.assertEqual(sum(1 for _ in loader), STEPS)
            loader.set_epoch(1)
            loader.set_epoch(3)
            self.assertEqual({batch.epoch for batch in loader}, {3})
            with self.assertRaisesRegex(penstock.Invalid, "epoch 2 is over; the next one is epoch 4"):
                loader.set_epoch(2)

    def test_a_loop_in_a_data_loader(self):
        with Demo(samples=SAMPLES, epochs=2) as demo:
            dataset = penstock.torch.Dataset(run_dir=demo.run_dir, rank=0, world_size=1)
            batches = torch.utils.data.DataLoader(dataset, batch_size=None)
            for epoch in range(2):
                self.assertEqual([(batch.epoch, is_right(batch)) for batch in batches], [(epoch, True)] * STEPS)
            dataset.loader.close()

    def test_a_loop_in_a_function_holds_no_batch(self):
        """Its variable has an epoch's last batch until the next epoch's first one is there, and no longer."""
        with Demo(samples=SAMPLES, epochs=3, slots=3) as demo:
            dataset = penstock.torch.Dataset(run_dir=demo.run_dir, rank=0, world_size=1)

            def train():
                for _ in range(3):
                    for batch in torch.utils.data.DataLoader(dataset, batch_size=None):
                        self.assertLessEqual(dataset.loader.stats.leased, 2)
                return batch.epoch

            self.assertEqual(train(), 2)
            dataset.loader.close()

    def test_a_dataset_that_makes_samples_of_batches(self):
        """The program's own, with which a DataLoader makes batches of another size."""
        with Demo(samples=40, epochs=1) as demo:
            dataset = penstock.torch.Dataset(run_dir=demo.run_dir, rank=0, world_size=1)

            class Samples(torch.utils.data.IterableDataset):
                def __iter__(self):
                    for batch in dataset:
                        yield from batch["label"].clone()

            batches = [batch.tolist() for batch in torch.utils.data.DataLoader(Samples(), batch_size=8)]
            self.assertEqual(batches, [list(range(start, start + 8)) for start in range(0, 40, 8)])
            dataset.loader.close()

    def test_what_nobody_can_use(self):
        """A DataLoader that makes batches, or wants samples by index; two loops at a time; another process."""
        with Demo() as demo:
            dataset = penstock.torch.Dataset(run_dir=demo.run_dir, rank=0, world_size=1)
            for options in ({}, {"batch_size": 2}, {"batch_size": 2, "collate_fn": list}):
                with self.assertRaisesRegex(penstock.Invalid, "give batch_size=None"):
                    next(iter(torch.utils.data.DataLoader(dataset, **options)))
            for options in ({"shuffle": True}, {"sampler": [0, 1]}):
                with self.assertRaises(ValueError):  # torch's own
                    torch.utils.data.DataLoader(dataset, batch_size=None, **options)
            for wrong in (dataset.loader, torch.utils.data.Subset(dataset, [0])):
                with self.assertRaisesRegex(penstock.Invalid, "no samples by index"):
                    next(iter(torch.utils.data.DataLoader(wrong, batch_size=None)))
            with self.assertRaisesRegex(penstock.Invalid, "goes on with epoch 0: .* to one loop at a time"):
                list(zip(dataset.loader, dataset.loader))
            for thing in (dataset, dataset.loader, dataset.loader.connection):
                with self.assertRaisesRegex(penstock.Invalid, "cannot be pickled"):
                    pickle.dumps(thing)
            dataset.loader.close()

    def test_workers_are_refused(self):
        with Demo() as demo:
            dataset = penstock.torch.Dataset(run_dir=demo.run_dir, rank=0, world_size=1)
            with self.assertRaisesRegex(penstock.Invalid, "num_workers=0"):
                next(iter(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1)))
            dataset.loader.close()


class States(OnDevice):
    def resumed(self, device_of):
        """Steps of a run that is interrupted everywhere in its first two epochs."""
        for stop in (0, 1, STEPS - 1, STEPS, STEPS + 3, 2 * STEPS):
            seen = []
            with Demo(samples=SAMPLES, epochs=2, slots=5) as demo, open_loader(demo, **device_of()) as loader:
                for epoch in loader.epochs():
                    for batch in epoch if len(seen) < stop else ():
                        seen.append((batch.epoch, batch.step))
                        if len(seen) == stop:
                            break
                    if len(seen) == stop:
                        break
                state = loader.state_dict()
            with Demo(samples=SAMPLES, epochs=2, slots=5) as demo:
                loader = open_loader(demo, **device_of(), **({"state": state} if stop % 2 else {}))
                if stop % 2 == 0:
                    loader.load_state_dict(state)
                with loader:
                    for epoch in loader.epochs():
                        rest = [(batch.epoch, batch.step) for batch in epoch]
                        self.assertEqual({number for number, _ in rest}, {epoch.number})
                        seen += rest
            self.assertEqual(seen, [divmod(n, STEPS) for n in range(2 * STEPS)], stop)

    def test_resume_on_the_cpu(self):
        self.resumed(dict)

    def test_resume_with_batches_ahead(self):
        self.resumed(lambda: {"device": self.new_device(), "depth": 3})

    def test_a_state_on_a_connected_loader(self):
        with Demo(samples=SAMPLES, epochs=2) as demo, open_loader(demo) as loader:
            state = loader.state_dict()
            loader.load_state_dict(state | {"epoch": 0, "step": 3})
            self.assertEqual(next(iter(loader)).step, 3)
            with self.assertRaisesRegex(penstock.Invalid, "load the state before the first batch"):
                loader.load_state_dict(state)


    def test_a_state_in_an_epoch_that_was_begun(self):
        with Demo(samples=SAMPLES, epochs=2) as demo, open_loader(demo) as loader:
            self.assertEqual(next(iter(loader)).step, 0)
            loader.load_state_dict(loader.state_dict() | {"epoch": 0, "step": 5})
            self.assertEqual([(batch.epoch, batch.step) for batch in loader], [(0, n) for n in range(5, STEPS)])

    def test_a_connection_that_gave_batches_before(self):
        with Demo(samples=SAMPLES, epochs=2) as demo:
            connection = penstock.connect(demo.run_dir, rank=0, world_size=1, timeout=10)
            for _ in range(STEPS + 2):
                connection.next()
            with penstock.torch.Loader(connection) as loader:
                self.assertEqual((loader.state_dict()["epoch"], loader.state_dict()["step"]), (1, 2))
                self.assertEqual([batch.step for batch in loader], list(range(2, STEPS)))

    def test_the_end_is_heard(self):
        """Whoever has the last batch waits for the service's end: if it has to start again, others need this one."""
        for device in (None, self.new_device()):
            with Demo(samples=SAMPLES, epochs=2, slots=4) as demo, open_loader(demo, device=device) as loader:
                for epoch in loader.epochs():
                    for _batch in epoch:
                        self.assertFalse(loader.connection._ended)
                self.assertTrue(loader.connection._ended)

    def test_a_batch_that_was_not_trained_on_comes_again(self):
        """Whatever is copied ahead: a process that takes this one's place goes on with the batch in training."""
        for device, depth in ((None, 1), (self.new_device(), 3)):
            for stop in (0, 3, STEPS, 2 * STEPS - 1):
                with Demo(samples=SAMPLES, epochs=2, slots=5) as demo:
                    with self.assertRaisesRegex(ValueError, "died"), open_loader(demo, device=device, depth=depth) as loader:
                        for number, batch in enumerate(batch for epoch in loader.epochs() for batch in epoch):
                            if device:
                                device.finish()  # the slots are free
                            if number == stop:
                                raise ValueError("died")
                    self.assertEqual(demo.process.wait(60), 0)
                    epoch, step = divmod(stop, STEPS)
                    self.assertRegex(demo.farewell(), rf"failed at epoch {epoch} step {step}: ValueError: died")


class Interrupts(OnDevice):
    def test_an_interrupt_anywhere(self):
        """No batch is lost, and none comes twice."""
        for options in ({}, {"device": self.new_device(), "depth": 2}):
            with self.subTest(options), Demo(samples=4000, epochs=1, slots=5) as demo, open_loader(demo, **options) as loader:
                steps, places = steps_in_spite_of_interrupts(iter(loader))
                self.assertGreater(places, 10)
                self.assertEqual(steps, list(range(places)))


LOOP = re.compile(r"^```python\n((?:(?!```).)*\.epochs\(\)(?:(?!```).)*)^```", re.M | re.S)
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def documented_loops():
    """(file, program) of each loop over epochs in the documents, and in the texts at the top of the package's files."""
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("python/*.md")]):
        for match in LOOP.finditer(path.read_text(encoding="utf-8")):
            yield path.name, match.group(1)
    for module in (penstock, penstock.torch):
        for block in re.findall(r"(?:^    .*\n|^\n)+", module.__doc__, re.M):
            if ".epochs()" in block:
                yield module.__name__, textwrap.dedent(block)


class Documented(OnDevice):
    """Loops of the documents, as they stand, with what is the reader's own replaced by what notes it."""

    class Stop(Exception):
        pass

    def run_loop(self, program, stop=None, state=None, **settings):
        """Steps that the program trained on, and what it saved last."""
        seen, saved, validated = [], [], []
        program = program.replace("penstock.jax.batches(epoch, sharding)", "epoch")  # JAX is in test_jax.py
        training, rest = re.fullmatch(r"(.*?^ *for batch in epoch: *(?:#[^\n]*)?\n)(.*)", program, re.M | re.S).groups()
        indent = re.match(r" *", rest).group()
        body = re.match(rf"(?:^{indent}.*\n)+", rest, re.M).group()
        saves = "".join(line if re.search("state|validation|evaluate|complete", line) else
                        re.sub(r"\S.*", "if True:" if line.rstrip().endswith(":") else "pass", line)
                        for line in rest[len(body):].splitlines(True))
        program = training + f"{indent}note(epoch, batch)\n" + saves
        program = re.sub(r'device="cuda"', "device=DEVICE", re.sub(r"^(import|from) (?!penstock).*\n", "", program, flags=re.M))
        program = re.sub(r"\A.*?(?=^with |^loader = )", "", program, flags=re.M | re.S)

        def note(epoch, batch):
            if len(seen) == stop:
                raise self.Stop
            self.assertEqual(epoch.number, batch.epoch)
            seen.append((batch.epoch, batch.step))

        class Jax:
            process_index, process_count = staticmethod(lambda: 0), staticmethod(lambda: 1)

        def keep(*things, **_):
            saved.append(next(json.loads(json.dumps(thing)) for thing in things if isinstance(thing, dict)))

        scope = {"penstock": penstock, "note": note, "DEVICE": self.new_device(), "jax": Jax, "model": None, "checkpoint": None,
                 "state": None, "save": keep, "evaluate": lambda batch: validated.append((batch.epoch, batch.step))}
        scope["torch"] = type("torch", (), {"save": staticmethod(lambda both, _: keep(both["data"]))})
        scope["model"] = type("model", (), {"state_dict": staticmethod(lambda: None)})
        with Demo(samples=SAMPLES, epochs=3, slots=4, **settings) as demo, contextlib.ExitStack() as stack:
            variables = {"PENSTOCK_RUN_DIR": demo.run_dir, "RANK": "0", "WORLD_SIZE": "1"}
            if '"val"' in program:
                beside = stack.enter_context(Demo(run_dir=demo.run_dir + ".val", samples=8, epochs=9, slots=4))
                self.assertIsNone(beside.process.poll())
            if state is not None:
                variables["PENSTOCK_STATE"] = json.dumps(state)
            stack.enter_context(unittest.mock.patch.dict(os.environ, variables))
            stack.enter_context(contextlib.suppress(self.Stop))
            exec(compile(program, "loop", "exec"), scope)  # pylint: disable=exec-used
        return seen, saved, validated

    def test_a_resume_goes_on(self):
        loops = list(documented_loops())
        self.assertGreaterEqual(len(loops), 9, [name for name, _ in loops])
        for name, program in loops:
            with self.subTest(name=name, program=program):
                whole, _, checked = self.run_loop(program)
                self.assertEqual(whole, [divmod(n, STEPS) for n in range(3 * STEPS)])
                first, saved, begun = self.run_loop(program, stop=STEPS + 3)
                if not saved:
                    saved = [{"epoch": 1, "step": 0}]  # a loop without a checkpoint
                rest, _, finished = self.run_loop(program, state=saved[-1])
                self.assertEqual(first[:STEPS] + rest, whole)
                self.assertEqual(begun + finished, checked)
                if checked:  # no validation of a part of an epoch
                    self.assertEqual(self.run_loop(program, end=STEPS + 3)[2], begun)


class Device(OnDevice):
    def test_late_copies_are_right(self):
        device = self.new_device(pause=0.002)
        with Demo(samples=SAMPLES, epochs=3, slots=4) as demo, open_loader(demo, device=device, depth=2) as loader:
            for _ in range(3):
                self.assertEqual([is_right(batch) for batch in loader], [True] * STEPS)

    def test_a_slot_released_before_its_copy_is_noticed(self):
        """The mutant: without the wait for the event, batches are wrong; so the test above can fail."""
        device = self.new_device(pause=0.01)
        with Demo(samples=400, epochs=1, slots=4) as demo, open_loader(demo, device=device, depth=2, pin=True) as loader:
            loader.connection  # pins
            loader._copying = collections.deque(maxlen=0)
            self.assertIn(False, [is_right(batch, 400) for batch in loader])

    def test_batches_ahead_leave_the_service_a_slot(self):
        with Demo(slots=4) as demo:
            with self.assertRaisesRegex(penstock.Invalid, "at most 2 batches .* raise delivery.slots"):
                open_loader(demo, device=self.new_device(), depth=3).info
        with Demo(slots=4) as demo:
            with open_loader(demo, device=self.new_device(pause=0.01), depth=2) as loader:
                for batch in loader:
                    self.assertTrue(is_right(batch, 40))
                    self.assertLess(loader.stats.leased, 4)

    def test_arguments(self):
        for options, message in (({"depth": 0}, "depth is 0"), ({"pin": True}, "give a device"),
                                 ({"pin": True, "device": "cpu"}, "give a device")):
            with self.assertRaisesRegex(penstock.Invalid, message):
                penstock.torch.Loader(**options)
        if not torch.cuda.is_available():
            with self.assertRaisesRegex(penstock.Invalid, "finds no GPU"):
                penstock.torch.Loader(device="cuda")


class Pinned(OnDevice):
    def test_the_ring_is_registered_from_start_to_end(self):
        device = self.new_device(pause=0.001)
        with Demo(samples=SAMPLES, slots=4) as demo, open_loader(demo, device=device, pin=True) as loader:
            self.assertTrue(all(is_right(batch) for batch in loader))
            self.assertEqual(len(device.registered), 1)
        gc.collect()
        self.assertEqual([(what, code) for what, _, _, code in device.log], [("register", 0), ("unregister", 0)])
        self.assertEqual(device.unregistered_copies, 0)

    def test_large_rings_are_registered_in_parts(self):
        device, before = self.new_device(), penstock._torch_device._REGISTER_BYTES
        penstock._torch_device._REGISTER_BYTES = 4096
        try:
            with Demo(slots=4) as demo, open_loader(demo, device=device, pin=True) as loader:
                self.assertTrue(all(is_right(batch, 40) for batch in loader))
                self.assertGreater(len(device.registered), 1)
            gc.collect()
        finally:
            penstock._torch_device._REGISTER_BYTES = before
        self.assertEqual(device.registered, {})
        self.assertEqual({code for *_, code in device.log}, {0})

    def test_a_refusal_is_raised(self):
        with Demo(slots=4) as demo:
            loader = open_loader(demo, device=self.new_device(refuses=2), pin=True)
            with self.assertRaisesRegex(penstock.Invalid, r"refused to register .* \(error 2\): raise the limit"):
                next(iter(loader))
            loader.close()

    def test_readers_that_die_and_come_back(self):
        """Each new ring is registered, and each old one unregistered before its memory goes."""
        device = self.new_device(pause=0.001)
        common = {"samples": 400, "epochs": 2, "slots": 5, "reconnect": 20000}
        first = Demo(**common, die=30)
        loader = open_loader(first, device=device, depth=2, pin=True)
        seen, servers = [], [first]
        for _ in range(2):
            for batch in loader:
                self.assertTrue(is_right(batch, 400))
                seen.append((batch.epoch, batch.step))
                if servers[-1].process.poll() is not None and len(servers) < 5:
                    servers.append(Demo(run_dir=first.run_dir, **common, die=30))
                elif servers[-1].process.poll() is not None:
                    servers.append(Demo(run_dir=first.run_dir, **common))
        self.assertEqual(seen, [divmod(n, 100) for n in range(200)])
        reconnects = loader.stats.reconnects
        self.assertGreaterEqual(reconnects, 4)
        loader.close()
        gc.collect()
        self.assertEqual(device.registered, {})
        self.assertEqual(collections.Counter(what for what, *_ in device.log),
                         {"register": reconnects + 1, "unregister": reconnects + 1})
        self.assertEqual({code for *_, code in device.log}, {0})
        self.assertEqual(device.unregistered_copies, 0)
        for server in servers:
            server.__exit__()


if __name__ == "__main__":
    unittest.main()
