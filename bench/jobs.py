"""Runs jobs on several hosts for the benchmarks: on hosts that tests/cluster/hosts.sh makes of this machine, on those
of a hostfile, or on those of a Slurm allocation. One reader and one trainer a host. Only the standard library.
"""
import glob
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time

from commands import Failed, say

BENCH = pathlib.Path(__file__).resolve().parent
HOSTS_SCRIPT = BENCH.parent / "tests" / "cluster" / "hosts.sh"
CANNOT = 77
PERIOD_US = 10000  # of a limit on processor time


def add_arguments(parser):
    parser.add_argument("--build", type=pathlib.Path, required=True, help="where the programs are: DIR/bin")
    parser.add_argument("--work", type=pathlib.Path, required=True,
                        help="datasets and reports; all hosts have to see it")
    parser.add_argument("--hostfile", help="hosts to run on, as mpirun takes it: no root needed, links as they are")
    parser.add_argument("--launch", metavar="CMD",
                        help="what starts one process on each of {hosts} hosts, instead of mpirun: "
                             "'srun --overlap --mpi=pmix -N {hosts} -n {hosts}'")
    parser.add_argument("--timeout", type=float, default=90, help="seconds that one job may take (%(default)s)")


def has_hosts(arguments):
    """Whether there are hosts to run on already."""
    return bool(arguments.hostfile or arguments.launch or "SLURM_JOB_ID" in os.environ or
                "CLUSTER_NAME" in os.environ)


def result_folders(arguments):
    """Makes the folders where results go, if that was said, to share them: hosts have a /tmp of their own."""
    plots, keep = getattr(arguments, "plots", None), getattr(arguments, "keep", None)
    folders = [folder.resolve() for folder in (plots, keep and keep.parent) if folder]
    for folder in folders:
        if folder == pathlib.Path("/tmp"):
            sys.exit("--plots and --keep: hosts have a /tmp of their own; name a folder in /tmp, or elsewhere")
        folder.mkdir(parents=True, exist_ok=True)
    return folders


def on_new_hosts(arguments, count, options):
    """Runs this very command on hosts that are made for it; never returns."""
    shared = [arguments.work, arguments.build, *result_folders(arguments)]
    command = [str(HOSTS_SCRIPT), "with", str(count), *(word for folder in shared for word in ("--share", str(folder))),
               *options, "--", sys.executable, *sys.argv]
    code = subprocess.run(command, check=False).returncode
    if code == CANNOT:
        say("several hosts cannot be made of this machine: give real ones with --hostfile")
    sys.exit(code)


def give_processors(host, cores):
    """Gives a host that was made with --cpus the same share of a core in smaller pieces than hosts.sh does, so that it is
    slow, and does not stop now and then; and before other work of the machine."""
    cluster = pathlib.Path(os.environ["CLUSTER_DIR"])
    folder = pathlib.Path((cluster / f"{host}.cgroup").read_text(encoding="ascii").split()[0])
    quota = int(cores * PERIOD_US)
    if (folder / "cpu.max").exists():
        (folder / "cpu.max").write_text(f"{quota} {PERIOD_US}")
        (folder.parent / "cpu.weight").write_text("10000")
    else:
        (folder / "cpu.cfs_quota_us").write_text("-1")
        (folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (folder / "cpu.cfs_quota_us").write_text(str(quota))
        (folder.parent / "cpu.shares").write_text("262144")


def is_open_mpi():
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False)
    return "Open MPI" in version.stdout or "OpenRTE" in version.stdout


def one_reader(build, settings, config=None):
    """What starts one reader on this machine, and the environment for it."""
    environment, words = dict(os.environ), ["mpirun"]
    if is_open_mpi():  # wants a word before it starts as root or with more ranks than cores
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        words += ["--oversubscribe", "--bind-to", "none"]
    words += ["-np", "1", build / "bin/penstock-reader", "--quiet", *(("-c", config) if config else ())]
    for key, value in settings.items():
        words += ["--set", f"{key}={value}"]
    return [str(word) for word in words], environment


class Jobs:
    def __init__(self, arguments):
        self.bin = arguments.build.resolve() / "bin"
        self.work = arguments.work.resolve()
        self.timeout = arguments.timeout
        self.template = arguments.launch
        self.hostfile = arguments.hostfile
        self.open_mpi = not self.template and is_open_mpi()
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")

    def program(self, name):
        return self.bin / name

    def _launcher(self, hosts, only):
        if self.template:
            return shlex.split(self.template.format(hosts=hosts))
        if self.open_mpi:
            files = ["--hostfile", self.hostfile] if self.hostfile else []
            where = ["--host", only] if only else ["--map-by", "ppr:1:node"]
            return ["mpirun", "--bind-to", "none", "-np", str(hosts), *files, *where]
        files = ["-f", self.hostfile] if self.hostfile else []
        where = ["-hosts", only] if only else ["-ppn", "1"]
        return ["mpirun", "-bind-to", "none", "-np", str(hosts), *files, *where]

    def launch(self, hosts, command, only=None):
        """Standard output of a command that is started once on each of so many hosts, or on the host `only`."""
        command = [str(word) for word in (*self._launcher(hosts, only), *command)]
        try:
            # A session of its own: a launcher must not take the terminal's signals for its own.
            run = subprocess.run(command, capture_output=True, text=True, timeout=self.timeout, check=False,
                                 stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"took more than {self.timeout:.0f} s: {shlex.join(command)}") from late
        if run.returncode != 0:
            raise Failed(f"exit code {run.returncode}: {shlex.join(command)}\n{run.stdout}{run.stderr}")
        return run.stdout

    @staticmethod
    def run_here(command):
        """A program on this host, without its output."""
        run = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise Failed(f"exit code {run.returncode}: {shlex.join(map(str, command))}\n{run.stderr}")

    def reader(self, hosts, settings, only=None, trainer=("--touch",), name="job", read=None):
        """A whole job; returns the reader's report, with what each host's network counted under "hosts". Jobs that run at
        once need different names. Each host reads all files of the folder `read` just before the first epoch,
        which counts in --timeout."""
        for old in glob.glob(str(self.work / f"{name}-*.json")):
            os.remove(old)
        command = [self.program("penstock-reader"), "--quiet", "--report", self.work / f"{name}-report.json"]
        for key, value in {"delivery.trainers": hosts, **settings}.items():
            command += ["--set", f"{key}={value}"]
        command += ["--", sys.executable, BENCH / "host_counters.py", self.work / f"{name}-host-{{rank}}.json",
                    *(("--read", read) if read else ()), self.program("penstock-trainer"), *trainer, "--json=/dev/null"]
        self.launch(hosts, command, only)
        with open(self.work / f"{name}-report.json", encoding="utf-8") as file:
            report = json.load(file)
        report["hosts"] = []
        for rank in range(hosts):
            with open(self.work / f"{name}-host-{rank}.json", encoding="utf-8") as file:
                report["hosts"].append(json.load(file))
        return report

    def forecast(self, hosts, settings):
        """What `penstock plan` expects of each epoch."""
        command = [self.program("penstock"), "plan", "--json", "--readers", hosts, "--nodes", hosts]
        for key, value in {"delivery.trainers": hosts, **settings}.items():
            command += ["--set", f"{key}={value}"]
        run = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise Failed(f"penstock plan: {run.stderr}")
        return json.loads(run.stdout)["epochs"]

    def synth(self, name, samples, **options):
        """A synthetic dataset; written under another name first: one that is there is complete."""
        path = self.work / name
        if path.exists():
            return path
        say(f"writing {path}")
        part = f"{path}.part"
        command = [self.program("penstock"), "synth", part, "--overwrite", "--samples", str(samples)]
        for key, value in options.items():
            command += [f"--{key}", str(value)]
        subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        os.rename(part, path)
        return path


def save_plots(folder, name, figures):
    """Writes FOLDER/NAME.json, and has BENCH/NAME_plot.py draw it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    script = BENCH / f"{name}_plot.py"
    for python in (sys.executable, "/usr/bin/python3"):  # Debian's Matplotlib is for Debian's Python
        drawn = subprocess.run([python, script, path], capture_output=True, text=True, check=False)
        if drawn.returncode == 0:
            say(f"wrote {' '.join([str(path), *drawn.stdout.split()])}")
            return
    say(f"no plots: {drawn.stderr.splitlines()[-1]} (apt-get install python3-matplotlib, then bench/{script.name} {path})")


def read_files(path):
    """Into the page cache: idle pages may have been paged out since the last time."""
    for file in path.rglob("*"):
        if file.is_file():
            file.read_bytes()


def bits(text):
    """Bits a second of a rate as tc writes it."""
    found = re.fullmatch(r"([0-9.]+)([kmgt]?)(bit|bps)", text)
    if not found:
        raise ValueError(f"'{text}' is not a rate like 1gbit")
    scale = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}[found[2]]
    return float(found[1]) * scale * (8 if found[3] == "bps" else 1)


class Clock:
    """How long everything may take."""

    def __init__(self, budget_s):
        self.start, self.budget, self.longest = time.monotonic(), budget_s, 0.0

    def elapsed(self):
        return time.monotonic() - self.start

    def fits_another(self, since):
        """Whether a round like the longest so far still fits; `since` is when the last one began."""
        self.longest = max(self.longest, self.elapsed() - since)
        return self.elapsed() + self.longest <= self.budget
