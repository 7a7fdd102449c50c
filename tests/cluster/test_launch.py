"""penstock-run and the scripts of launch/slurm in Slurm jobs: everything is delivered exactly once, as a single process
delivers it, and nothing stays behind."""

import glob
import importlib.util
import json
import os
import re
import shlex
import sys
import time
import unittest

from cluster import HERE, HOSTS, ClusterTest
from job import BIN, TIMEOUT_S, environment, leftovers, launcher_is_open_mpi, program, run

ROOT = os.path.join(HERE, "..", "..")
TRAINER = os.path.join(HERE, "trainer.py")
ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL")


def has(module):
    return importlib.util.find_spec(module) is not None


class Launch(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # What users have set up: programs and python's own torchrun in PATH, the package where Python finds it.
        cls.env = environment(TRAINERS_PER_NODE=2, PATH=os.pathsep.join([os.path.abspath(BIN), os.path.dirname(sys.executable),
                                                    os.environ["PATH"]]),
                              PYTHONPATH=os.pathsep.join([os.path.join(ROOT, "python"),
                                                          os.environ.get("PYTHONPATH", "")]))

    def configuration(self, **more):
        """A run.yaml with the settings of this class."""
        sections = {}
        for key, value in {**self.settings, **more}.items():
            section, option = key.replace("__", ".").split(".")
            sections.setdefault(section, []).append(f"{option}: {value}")
        path = os.path.join(self.folder, "run.yaml")
        with open(path, "w", encoding="ascii") as file:
            for section, options in sections.items():
                file.write(f"{section}: {{{', '.join(options)}}}\n")
        return path

    def need(self, *modules):
        for module in modules:
            if not has(module):
                self.skipTest(f"{sys.executable} has no module {module}")

    # --- jobs -----------------------------------------------------------------------------------------

    def submit(self, command, nodes=3):
        """Submits a script with its arguments, two trainers a node instead of one for each GPU; returns the job's number."""
        self.log = os.path.join(self.folder, "log")
        submitted = run(["sbatch", "--parsable", f"--chdir={self.folder}", f"--nodes={nodes}", "--ntasks-per-node=1",
                         "--exclusive", f"--output={self.log}", *command], env=self.env)
        self.assertEqual(submitted.code, 0, submitted.output)
        job = submitted.output.split()[-1]
        self.addCleanup(run, ["scancel", "--quiet", job])
        return job

    def output(self):
        if not os.path.exists(self.log):
            return "(it has printed nothing)"
        with open(self.log, encoding="utf-8") as file:
            return file.read()

    def wait_for(self, what, condition, job):
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            shown = run(["scontrol", "show", "job", job]).output
            self.assertLess(time.monotonic(), deadline, f"{what}: {shown}\n{self.output()}")
            time.sleep(0.1)

    def states(self, job):
        """Of all tasks of an array, or of the one job."""
        return re.findall(r"JobState=(\S+)", run(["scontrol", "show", "job", job]).output)

    def finish(self, job, expect="COMPLETED"):
        """Waits for a job, or all tasks of an array."""
        self.wait_for("hangs", lambda: all(state in ENDED for state in self.states(job)), job)
        self.assertEqual(set(self.states(job)), {expect}, self.output())
        return self.output()

    def batch(self, lines, nodes=3):
        """Runs a script of these lines."""
        script = os.path.join(self.folder, "script")
        with open(script, "w", encoding="ascii") as file:
            file.write("\n".join(["#!/bin/bash", *lines, ""]))
        return self.finish(self.submit([script], nodes))

    def penstock_run(self, *arguments, trainer=()):
        return shlex.join([program("penstock-run"), "--verbose", "-c", os.path.join(self.folder, "run.yaml"), *arguments,
                           *trainer])

    def script(self, name):
        return os.path.join(ROOT, "launch", "slurm", name)

    # --- the scripts of launch/slurm ------------------------------------------------------------------

    def test_torchrun_script(self):
        self.need("torch", "xxhash")
        if not launcher_is_open_mpi():
            self.skipTest("the script is for Open MPI")
        expected = self.single_process()
        job = self.submit([self.script("torchrun.sbatch"), self.configuration(), TRAINER, "--digest",
                           os.path.join(self.folder, "digest.{rank}")])
        output = self.finish(job)
        self.assertEqual(self.nodes(output), HOSTS[:3])
        self.assertEqual(len(glob.glob(os.path.join(self.folder, "digest.*"))), 6)
        self.assertEqual(self.take_digests(), expected)

    def test_mpirun_script(self):
        if not launcher_is_open_mpi():
            self.skipTest("the script is for Open MPI")
        expected = self.single_process()
        output = self.finish(self.submit([self.script("mpirun.sbatch"), self.configuration(),
                                          *self.trainer_command()]))
        self.assertEqual(self.nodes(output), HOSTS[:3])
        self.assertEqual(self.take_digests(), expected)

    def test_preemptible_script(self):
        """Two notices, as Slurm sends them before a time limit: three starts deliver what one would have."""
        self.need("xxhash")
        self.settings = {**self.settings, "order.epochs": 12}
        expected = self.single_process()
        self.env["CHECKPOINTS"] = folder = os.path.join(self.folder, "checkpoints")
        job = self.submit([self.script("preemptible.sbatch"), self.configuration(), TRAINER, "--digest",
                           os.path.join(self.folder, "digest.{rank}.{start}"), "--step-seconds", "0.05"])

        def begun(start):
            """The last trainer has a batch."""
            path = os.path.join(self.folder, f"digest.5.{start}")
            return os.path.exists(path) and os.path.getsize(path) > 0

        for start in (0, 1):
            self.wait_for(f"start {start}", lambda number=start: begun(number), job)
            sent = run(["scancel", "--batch", "--signal=USR1", job])
            self.assertEqual(sent.code, 0, sent.output)
        self.wait_for("start 2", lambda: begun(2), job)
        output = self.finish(job)
        starts = re.findall(r"^start (\d): (.*)$", output, re.MULTILINE)
        self.assertEqual([number for number, _ in starts], ["0", "1", "2"])
        self.assertEqual(starts[0][1], "from the beginning")
        with open(os.path.join(folder, "state.json"), encoding="ascii") as file:
            self.assertEqual(json.loads(starts[2][1]), json.load(file))
        self.assertEqual(self.take_digests(), expected)

    def test_scaling_script(self):
        self.env["REPORTS"] = os.path.join(self.folder, "reports")
        job = self.submit([self.script("scaling.sbatch"), self.configuration()], nodes=4)
        self.finish(job)
        for nodes in (1, 2, 4):
            with open(os.path.join(self.folder, "reports", f"{nodes}.json"), encoding="ascii") as file:
                report = json.load(file)
            self.assertEqual((len(report["readers"]), report["trainers"]), (nodes, 2 * nodes))
            self.assertEqual([epoch["samples"] for epoch in report["epochs"]], [self.SAMPLES] * 2)
        # All tasks write to one log here; the last one's table has all sizes.
        table = self.output().rsplit("nodes  epoch", 1)[1].splitlines()[1:]
        self.assertEqual([line.split()[:2] for line in table],
                         [[nodes, epoch] for nodes in "124" for epoch in "01"])

    # --- penstock-run in a job ------------------------------------------------------------------------

    def test_penstock_run(self):
        expected = self.single_process()
        self.configuration(delivery__trainers=6)
        cases = [((), 3), (("--launcher", "mpirun"), 3), (("--nodes", "2"), 2),
                 (("--launcher", "mpirun", "--nodes", "2"), 2), (("--readers-per-node", "2"), 6)]
        for options, readers in cases:
            with self.subTest(options=options):
                output = self.batch([self.penstock_run(*options, "--", *self.trainer_command())])
                self.assertEqual(len(self.nodes(output)), readers)
                self.assertEqual(set(self.nodes(output)), set(HOSTS[:min(readers, 3)]))
                self.assertEqual(self.take_digests(), expected)

    def test_doctor(self):
        """In a job, penstock doctor looks at all of its nodes, and starts a reader on each."""
        self.configuration(delivery__trainers=6)
        output = self.batch([shlex.join([program("penstock"), "doctor", "-c", os.path.join(self.folder, "run.yaml")])])
        for host in HOSTS[:3]:
            self.assertRegex(output, rf"(?m)^ok +{host} +storage +.*: {self.SAMPLES} samples")
        self.assertRegex(output, r"(?m)^ok +all +mpi +.*readers: 3, nodes: 3")

    def test_penstock_run_with_torchrun(self):
        self.need("torch")
        expected = self.single_process()
        self.configuration()
        self.batch(["set -e", self.penstock_run("--torchrun", "2", "--", "--no-python",
                                                *self.trainer_command())])
        self.assertEqual(self.take_digests(), expected)

    def test_the_commands_of_a_dry_run(self):
        """What --dry-run prints, as a script, does the same."""
        expected = self.single_process()
        self.configuration(delivery__trainers=6)
        self.batch(["set -eo pipefail", self.penstock_run("--dry-run", "--", *self.trainer_command()) + " | bash"])
        self.assertEqual(self.take_digests(), expected)

    def test_trainers_of_a_step_of_their_own(self):
        """Who they are comes from Slurm, whose lists of tasks by node are compressed: 3(x2),2."""
        expected = self.single_process()
        self.configuration(delivery__trainers=8)
        self.batch(["set -e", "export PENSTOCK_RUN_DIR=/tmp/penstock-$SLURM_JOB_ID",
                    self.penstock_run("--no-trainers", "--readers-per-node", "2") + " &",
                    f"srun --overlap --nodes=3 --ntasks=8 --ntasks-per-node=3 --distribution=block {shlex.join(self.trainer_command())}",
                    "wait $!"])
        self.assertEqual(self.take_digests(), expected)

    def test_a_reader_is_killed(self):
        """Its step is started again inside the job; trainers go on where they were."""
        self.settings = {**self.settings, "order.epochs": 16}
        expected = self.single_process()
        self.configuration(delivery__trainers=6)
        if not launcher_is_open_mpi():
            self.skipTest("under Slurm's pmi2 the other readers do not hear of it")
        for launcher in ("srun", "mpirun"):
            with self.subTest(launcher=launcher):
                marks = os.path.join(self.folder, "digest.5")
                output = self.batch([
                    self.penstock_run("--launcher", launcher, "--restarts", "3", "--", *self.trainer_command(),
                                      "--compute-ms", "40") + " & job=$!",
                    f"for i in {{1..300}}; do [[ $(cat {marks} 2>/dev/null) ]] && break; sleep 0.1; done",
                    # The hosts see each other's processes.
                    "for p in /proc/[0-9]*; do grep -qs $PENSTOCK_TEST_MARK $p/environ && "
                    "[[ $(cat $p/comm) == penstock-reader ]] && kill -KILL ${p#/proc/} && break; done",
                    "wait $job; echo code $?"])
                self.assertIn("code 0", output)
                self.assertRegex(output, r"the readers' step ended with exit code \d+.*: restart 1 of 3")
                self.assertRegex(output, r"serving again, from epoch \d+ step \d+: [\d.]+ s after")
                self.assertEqual(self.take_digests(), expected)

    def readers_alive(self):
        return [path for path in leftovers() if path.endswith(" penstock-reader")]

    def test_cancelled_and_submitted_again(self):
        """scancel is no failure to be mended; the next job goes on at the last state that was saved."""
        self.need("xxhash")
        self.settings = {**self.settings, "order.epochs": 12}
        expected = self.single_process()
        self.configuration(delivery__trainers=6)
        state = os.path.join(self.folder, "state.json")
        outputs = []
        for number in (0, 1):
            script = os.path.join(self.folder, "script")
            with open(script, "w", encoding="ascii") as file:
                file.write("#!/bin/bash\nexec " + self.penstock_run(
                    "--restarts", "3", "--state", state, "--", "python3", TRAINER, "--checkpoint", self.folder,
                    "--save-every", "5", "--step-seconds", "0.05" if number == 0 else "0", "--digest",
                    os.path.join(self.folder, f"digest.{{rank}}.{number}")) + "\n")
            job = self.submit([script])
            if number == 0:
                self.wait_for("no state", lambda: os.path.exists(state), job)
                run(["scancel", job])
                outputs.append(self.finish(job, "CANCELLED"))
                # The job counts as ended before its processes have.
                self.wait_for("processes", lambda: not self.readers_alive(), job)
            else:
                outputs.append(self.finish(job))
        self.assertNotIn("restart 1 of 3", outputs[0])
        self.assertRegex(outputs[1], r"goes on at epoch \d+ step \d+")
        lines = self.take_digests()
        self.assertGreater(len(lines), len(expected))
        unique = {tuple(line) for line in lines}
        self.assertEqual(sorted(unique, key=lambda line: [int(word) for word in line[:3]]),
                         [tuple(line) for line in expected])

    def test_a_signal_ends_all(self):
        self.configuration(delivery__trainers=6, **{"order.epochs": 100000})
        for launcher in ("srun", "mpirun"):
            with self.subTest(launcher=launcher):
                marks = os.path.join(self.folder, "batches.{rank}")
                output = self.batch([
                    self.penstock_run("--launcher", launcher, "--", program("penstock-trainer"), "--digest", marks)
                    + " &",
                    f"for i in {{1..300}}; do [[ $(cat {marks.format(rank=5)} 2>/dev/null) ]] && break; sleep 0.1; done",
                    "kill -TERM $!; wait $!; echo code $?",
                    # The hosts see each other's processes.
                    "for i in {1..600}; do left=$(for p in /proc/[0-9]*; do grep -qs $PENSTOCK_TEST_MARK $p/environ"
                    " && cat $p/comm; done | grep ^penstock-) || break; sleep 0.1; done; echo \"$left\"",
                    "srun --overlap --nodes=3 --ntasks=3 bash -c 'ls -d /tmp/penstock-[0-9]*'; true"])
                self.assertIn("code 143", output)
                self.assertNotRegex(output, r"(?m)^penstock-(reader|trainer|run)$")
                # Trainers hear of it from the reader; the signal itself does not reach them.
                self.assertNotIn("killed by signal 12", output)
                if launcher_is_open_mpi():  # MPICH aborts a rank that finds another gone before it sees its signal
                    self.assertNotRegex(output, r"(?m)^/tmp/penstock-\d")
                for path in glob.glob(os.path.join(self.folder, "batches.*")):
                    os.remove(path)


if __name__ == "__main__":
    unittest.main()
