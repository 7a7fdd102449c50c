"""A supervised job for the tests that break things: penstock-run --restarts, with trainers that log what they get.

Runs on this machine, or, inside hosts.sh, from its head node with a reader on each host. A trainer writes a line for each
sample before it gives the batch back, each process of a rank (a "life") to a file of its own: digest.RANK.PID. So what was
delivered can be told although trainers are killed: lives of a rank follow one another without a gap, and only the one
batch that a trainer held when it died comes again. One that holds several gives them back out of order: of these, what
lies behind the oldest that was not given back comes again.
"""

import glob
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "mpi"))

from job import MARK, environment, program, run  # noqa: E402

HOSTS = os.environ["CLUSTER_HOSTS"].split(",") if "CLUSTER_HOSTS" in os.environ else []
SAMPLES = 203  # 25 rows of 8 and a short one
GLOBAL_BATCH = 12
STEPS = -(-SAMPLES // GLOBAL_BATCH)  # of an epoch


def synth(path, samples, chunk, *more):
    made = run([program("penstock"), "synth", path, "--samples", str(samples), "--chunk", str(chunk), "--videos", "7",
                "--seed", str(samples), *more])
    if made.code:
        raise RuntimeError(made.output)


def make_dataset(folder):
    """The settings that name the dataset."""
    path = os.path.join(folder, "dataset")
    synth(path, SAMPLES, 8)
    return {"dataset.uri": path, "order.window_rows": 9}


def make_mix(folder):
    """Three sources, of which the last has few samples; a sample has the frame before and the one behind, too."""
    items = []
    for number, (samples, chunk, window_rows, weight) in enumerate(((150, 8, 9, 5), (90, 5, 4, 3), (21, 3, 2, 2))):
        synth(os.path.join(folder, f"source{number}"), samples, chunk)
        path = os.path.join(folder, f"source{number}.yaml")
        with open(path, "w", encoding="ascii") as file:
            file.write(f"dataset: {{uri: source{number}, fields: {{latents: {{array: base_frames, steps: '-1:2'}}}}}}\n"
                       f"samples: {{pad: {{before: 1, after: 1}}}}\norder: {{window_rows: {window_rows}}}\n")
        items.append(f"{path}:{weight}")
    return {"mix.sources": ",".join(items), "mix.samples": SAMPLES}


def write_texts(store, count, chunk):
    """An array of strings of unequal lengths: text."""
    path = os.path.join(store, "text")
    os.mkdir(path)
    with open(os.path.join(path, ".zarray"), "w", encoding="ascii") as file:
        json.dump({"zarr_format": 2, "shape": [count], "chunks": [chunk], "dtype": "|O", "fill_value": "", "order": "C",
                   "compressor": None, "filters": [{"id": "vlen-utf8"}]}, file)
    texts = [(f"é{i}" * (i % 5)).encode() for i in range(-(-count // chunk) * chunk)]
    for first in range(0, count, chunk):
        values = b"".join(struct.pack("<I", len(text)) + text for text in texts[first:first + chunk])
        with open(os.path.join(path, str(first // chunk)), "wb") as file:
            file.write(struct.pack("<I", chunk) + values)
    os.remove(os.path.join(store, ".zmetadata"))


def make_ragged(folder):
    """Events as they are, events of two windows as dense tensors, and strings, which are held."""
    path = os.path.join(folder, "dataset")
    synth(path, SAMPLES, 320, "--layout", "events", "--items", "40", "--shape", "4,9,16")
    write_texts(path, SAMPLES, 16)
    settings = {"dataset.uri": path, "order.window_rows": 9, "samples.pad_after": 1, "dataset.fields.label.array": "label",
                "dataset.fields.text.array": "text", "dataset.fields.dense.steps": "0:2",
                "dataset.fields.dense.deliver.dense": "[4,9,16]", "dataset.fields.dense.cast": "uint8"}
    for field in ("events", "dense"):
        settings |= {f"dataset.fields.{field}.ragged.offsets": "events/offsets",
                     f"dataset.fields.{field}.ragged.index": "[events/bin,events/y,events/x]",
                     f"dataset.fields.{field}.ragged.values": "events/count"}
    return settings


def set_options(settings):
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


class Process:
    """One that carries this program's mark in its environment."""

    def __init__(self, pid, words):
        self.pid, self.words = pid, words

    def kind(self):
        name = os.path.basename(self.words[0])
        if name == "penstock-reader":
            return "reader"
        if name == "penstock-trainer":
            return "trainer"
        if name.startswith("python") and self.words[-1].endswith("chaos_transform.py"):
            return "transform"
        if "--keep" in self.words and "bash" in name:
            return "keeper"
        if name in ("mpirun", "mpiexec", "orterun", "mpiexec.openmpi", "mpiexec.hydra", "mpiexec.mpich"):
            if "--keep" in self.words:
                return "trainers' mpirun"
            if any(word.endswith("penstock-reader") for word in self.words):
                return "readers' mpirun"
        return name

    def __str__(self):
        return f"{self.pid} {' '.join(self.words)[:160]}"


def processes():
    """Those of jobs that this program has started, but not what it runs itself."""
    found = []
    for path in glob.glob("/proc/[0-9]*"):
        try:
            with open(path + "/environ", "rb") as file:
                if f"PENSTOCK_TEST_MARK={MARK}".encode() not in file.read().split(b"\0"):
                    continue
            with open(path + "/cmdline", "rb") as file:
                words = [word.decode(errors="replace") for word in file.read().split(b"\0")[:-1]]
        except OSError:
            continue
        if words:
            found.append(Process(int(path[6:]), words))
    return found


def on_hosts():
    """Numbers of the processes on the cluster's hosts, marked or not (daemons of mpirun are not)."""
    found = set()
    for path in glob.glob("/proc/[0-9]*") if HOSTS else []:
        try:
            with open(path + "/mountinfo", encoding="utf-8") as file:
                inside = f" {os.environ['CLUSTER_DIR']} " in file.read()
            with open(path + "/cmdline", "rb") as file:
                words = file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if inside and words:
            found.add(f"{path[6:]} {words[:160]}")
    return found


def shared_files():
    """What lies in /dev/shm and /tmp of all hosts; on this machine others may work there."""
    found = set()
    for host in HOSTS:
        listed = run([os.environ["CLUSTER_RSH"], host, "cd / && find dev/shm tmp -mindepth 1 -xdev"])
        found.update(f"{host}:/{path}" for path in listed.output.split())
    return found | ({f"head:{path}" for path in glob.glob("/dev/shm/*") + glob.glob("/tmp/*")} if HOSTS else set())


def stacks():
    """What every process of the job is doing, for a hang."""
    text = []
    for process in processes():
        text.append(f"=== {process}")
        if shutil.which("gdb"):
            done = subprocess.run(["gdb", "-batch", "-p", str(process.pid), "-ex", "thread apply all bt 12"],
                                  capture_output=True, text=True, timeout=60, check=False)
            text += [line for line in done.stdout.splitlines() if line.startswith(("#", "Thread"))]
        for name in ("wchan", "stack", "status"):
            try:
                with open(f"/proc/{process.pid}/{name}", encoding="utf-8") as file:
                    text += [f"{name}: {line}" for line in file.read().splitlines()[:12]]
            except OSError:
                continue
    return "\n".join(text)


class Command:
    """A command in a folder of its own, with what it prints in a file there."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="penstock-chaos-")
        self.run_dir = os.path.join(self.folder, "run")
        self.log = open(os.path.join(self.folder, "log"), "w+", encoding="utf-8")
        self.started, self.process = time.monotonic(), None

    def start(self, command, **env):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
                                        start_new_session=True, env=environment(**env))

    def seconds(self):
        return time.monotonic() - self.started

    def code(self):
        """None while it runs."""
        return self.process.poll()

    def output(self):
        self.log.flush()
        with open(self.log.name, encoding="utf-8", errors="replace") as file:
            return file.read()

    def end(self):
        """Whatever this program has started is killed, and all files go."""
        for _ in range(50):
            left = processes()
            for process in left:
                try:
                    os.kill(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if not left:
                break
            time.sleep(0.02)
        if self.process:
            self.process.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.run_dir, ignore_errors=True)


class Played:
    """A run of chaos.py. play() notes kills and, as check() does, faults; story() says what was killed; `job` is its Command."""

    def __init__(self, seed, args, job):
        self.seed, self.args, self.job = seed, args, job
        self.random = random.Random(seed)
        self.kills = []  # [victim, seconds since the start, recovery or None]
        self.faults = []

    def do(self):
        try:
            self.play()
            if not self.faults:
                self.check()
            if self.faults:
                self.faults.append(self.job.output())
        finally:
            self.seconds = self.job.seconds()
            self.job.end()
        return self

    def __str__(self):
        verdict = "FAILED\n" + "\n".join(self.faults) if self.faults else "identical"
        return f"seed {self.seed}: {self.story()}; {self.seconds:.1f} s; {verdict}"


class Job(Command):
    """One run. Everything it leaves behind must be in `folder`, or is found by leftovers()."""

    def __init__(self, dataset, epochs, compute_ms, readers, trainers, restarts, options=(), hold=1):
        super().__init__()
        self.epochs, self.trainers = epochs, trainers
        temporary = os.path.join(self.folder, "tmp")
        os.mkdir(temporary)
        os.mkdir(self.digests())
        self.run_dir = f"/tmp/penstock-chaos-{os.getpid()}-{time.monotonic_ns()}"
        settings = {**dataset, "batch.global_size": GLOBAL_BATCH, "batch.last": "partial",
                    "order.epochs": epochs, "order.seed": 5, "readers.threads": 1, "delivery.trainers": trainers}
        command = [program("penstock-run"), "--restarts", str(restarts), "-q", *options]
        command += ["--hosts", ",".join(HOSTS)] if HOSTS else ["--readers-per-node", str(readers)]
        command += set_options(settings)
        # The shell's $$ stays the number of the trainer that it becomes.
        trainer = (f"exec {program('penstock-trainer')} --compute-ms {compute_ms} --touch --hold {hold} "
                   f"--digest {self.digests()}/digest.$RANK.$$")
        self.before = (shared_files(), on_hosts())
        # mpirun's own temporary files: on hosts those are in a /tmp of their own.
        more = {} if HOSTS else {"TMPDIR": temporary}
        self.start([*command, "--", "sh", "-c", trainer], PENSTOCK_RUN_DIR=self.run_dir, **more)

    def digests(self):
        return os.path.join(self.folder, "digests")

    def bytes_of_ranks(self):
        """How much each rank has logged, over all its lives."""
        sizes = [0] * self.trainers
        for entry in os.scandir(self.digests()):
            sizes[int(entry.name.split(".")[1])] += entry.stat().st_size
        return sizes

    def lives(self, rank):
        """Of each life of a rank, first to last: its whole lines, split."""
        paths = glob.glob(os.path.join(self.digests(), f"digest.{rank}.*"))
        texts = []
        for path in sorted(paths, key=lambda path: os.stat(path).st_mtime_ns):
            with open(path, encoding="ascii") as file:
                texts.append(file.read())
        return [[line.split() for line in text.split("\n")[:-1]] for text in texts if "\n" in text]

    def leftovers(self):
        """What the job has left although it has ended."""
        deadline = time.monotonic() + 5
        while True:
            left = [str(process) for process in processes()]
            left += sorted(shared_files() - self.before[0])
            left += sorted(on_hosts() - self.before[1])
            ours = [self.run_dir, *glob.glob(f"/dev/shm/penstock*-{self.process.pid}"), *glob.glob(self.folder + "/tmp/*")]
            left += [path for path in ours if os.path.lexists(path)]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.05)


def lacking(cursors):
    """The first cursor that is not among them."""
    return next(cursor for cursor in range(len(cursors) + 1) if cursor not in cursors)


def check_lives(rank, lives, hold=1):
    """None, or what is wrong with a rank's sequence: a gap, or a batch again that was given back, and all before it.

    Lines are written before a batch is given back, so that of a life that was killed the last one may have been kept."""
    had, last = set(), None
    for number, life in enumerate(lives):
        start = lacking(had - {last})  # where this life may begin: all before was given back
        seen = set()
        for line in life:
            cursor = int(line[0]) * STEPS + int(line[1])
            if cursor == last and cursor in seen:
                continue  # another sample of it
            last = cursor
            where = f"trainer {rank}, life {number}: epoch {line[0]} step {line[1]}"
            if cursor in seen or cursor < start:
                return f"{where} again"
            seen.add(cursor)
            if len(set(range(start, cursor)) - seen - had) > hold:
                return f"{where} after a gap: {sorted(set(range(start, cursor)) - seen - had)}"
        had |= seen
    return None


def merged(job, ranks=None):
    """All lines of these ranks, or of all, without repeats, sorted."""
    lines = {tuple(line) for rank in ranks or range(job.trainers) for life in job.lives(rank) for line in life}
    return sorted(lines, key=lambda line: [int(word) for word in line[:3]])
