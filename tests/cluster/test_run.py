"""penstock-run on hosts from a list: what is delivered is what a single process delivers, and nothing stays behind."""

import contextlib
import glob
import importlib.util
import os
import re
import shutil
import sys
import unittest

from cluster import HOSTS, ClusterTest
from job import environment, launcher_is_open_mpi, leftovers, program, run


def by_agent(agent):
    """Variables by which each launcher reaches hosts by the agent."""
    return dict.fromkeys(("OMPI_MCA_plm_rsh_agent", "PRTE_MCA_plm_ssh_agent", "HYDRA_LAUNCHER_EXEC"), agent)


class Run(ClusterTest):
    def penstock_run(self, trainers, *arguments, send=None, **more):
        """`arguments` of penstock-run, with the settings of this class."""
        command = [program("penstock-run"), "--verbose"]
        for key, value in {**self.settings, "delivery.trainers": trainers, **more}.items():
            command += ["--set", f"{key.replace('__', '.')}={value}"]
        env = environment(PATH=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
        return run([*command, *arguments], env=env, send=send, cwd=self.folder)

    def test_hosts(self):
        expected = self.single_process()
        file = os.path.join(self.folder, "hosts")
        with open(file, "w", encoding="ascii") as out:
            out.write("# all\n" + "".join(f"{host} slots=8\n" for host in HOSTS))
        for where, readers in [(["--hosts", "h2"], ["h2"]), (["--hosts", "h3,h1"], ["h3", "h1"]),
                               (["--hostfile", file, "--nodes", "3"], HOSTS[:3]),
                               (["--hostfile", file, "--readers-per-node", "2"], HOSTS * 2)]:
            with self.subTest(where=where):
                outcome = self.penstock_run(len(readers), *where, "--", *self.trainer_command())
                self.assertEqual(outcome.code, 0, outcome.output)
                self.assertEqual(sorted(self.nodes(outcome.output)), sorted(readers))
                self.assertEqual(self.take_digests(), expected)

    def test_torchrun(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest(f"{sys.executable} has no torch")
        expected = self.single_process()
        outcome = self.penstock_run(6, "--hosts", "h1,h2,h3", "--torchrun", "2", "--", "--no-python",
                                    *self.trainer_command())
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertEqual(self.take_digests(), expected)

    def test_doctor(self):
        """Each host is looked at as runs start there: one has few files that may be open. Readers come together."""
        agent = os.path.join(self.folder, "agent")
        with open(agent, "w", encoding="ascii") as out:
            out.write(f'#!/bin/sh\nfor word; do test "$word" = h2 && ulimit -n 100; done\nexec {os.environ["CLUSTER_RSH"]} "$@"\n')
        os.chmod(agent, 0o700)
        command = [program("penstock"), "doctor"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        fine = run([*command, "--hosts", "h1,h3"], cwd=self.folder)
        self.assertEqual(fine.code, 0, fine.output)
        for host in ("h1", "h3"):
            self.assertRegex(fine.output, rf"(?m)^ok +{host} +storage +.*: 203 samples")
            self.assertRegex(fine.output, rf"(?m)^ok +{host} +versions ")
        self.assertRegex(fine.output, r"(?m)^ok +all +mpi +.*readers: 2, nodes: 2")
        self.assertNotIn("behind", fine.output)  # one machine's clock
        short = run([*command, "--hosts", "h1,h2"], cwd=self.folder,
                    env=environment(**by_agent(agent)))
        self.assertEqual(short.code, 1, short.output)
        self.assertRegex(short.output, r"(?m)^ok +h1 +limits.nofile ")
        self.assertRegex(short.output, r"(?m)^FAILURE +h2 +limits.nofile +only 100 files")
        if not launcher_is_open_mpi():
            return  # MPICH's mpiexec takes 20 s to say that there is no such host
        gone = run([*command, "--hosts", "h1,nowhere"], cwd=self.folder)
        self.assertEqual(gone.code, 1, gone.output)
        self.assertRegex(gone.output, r"(?m)^FAILURE +all +nodes +only 1 of 2 hosts answer, not nowhere$")

    def test_copies(self):
        """A host whose copy of the dataset is not the others' is named before the first batch, and by doctor; a whole copy
        is fine."""
        path, copy = self.settings["dataset.uri"], os.path.join(self.folder, "copy")
        shutil.copytree(path, copy)
        more = {"dataset.fields.a": "base_frames", "dataset.fields.t": "clip_emb[segment_to_video]"}
        @contextlib.contextmanager
        def mounted_on_h2(*words):
            on_h2 = [os.path.join(os.environ["CLUSTER_DIR"], "enter"), "h2"]
            self.assertEqual(run([*on_h2, "mount", *words]).code, 0)
            try:
                yield
            finally:
                self.assertEqual(run([*on_h2, "umount", words[-1]]).code, 0)
        def refused(*words, code=4):
            outcome = self.penstock_run(2, "--hosts", "h1,h2", "--", *self.trainer_command(), **more)
            self.assertEqual(outcome.code, code, outcome.output)
            for word in words:
                self.assertRegex(outcome.output, word)
            self.assertEqual(self.take_digests(), [])
        def doctor(code, finding):
            found = run([program("penstock"), "doctor", "--hosts", "h1,h2", *[word for key, value in self.settings.items()
                                                                              for word in ("--set", f"{key}={value}")]])
            self.assertEqual(found.code, code, found.output)
            self.assertRegex(found.output, finding)
        with mounted_on_h2("-t", "tmpfs", "tmpfs", os.path.dirname(path)):
            refused(r"reader 1 on h2: store '.*dataset': no such directory", code=1)
        with mounted_on_h2("--bind", copy, path):
            outcome = self.penstock_run(2, "--hosts", "h1,h2", "--", *self.trainer_command())
            self.assertEqual(outcome.code, 0, outcome.output)
            self.assertEqual(self.take_digests(), self.expected)
            chunks = sorted(glob.glob(os.path.join(copy, "base_frames", "[0-9]*")), key=lambda name: int(
                os.path.basename(name).split(".")[0]))
            for chunk in chunks[len(chunks) // 2:]:
                os.remove(chunk)
            lacking = re.escape("base_frames/" + os.path.basename(chunks[len(chunks) // 2]))
            refused(rf"array 'base_frames': reader 1 on h2 has no '{lacking}' in the store", r"reader 0 on h1 has it \(26\)",
                    r"\(13 of 26 chunks are there\)", "copy the dataset to h2 anew")
            doctor(1, rf"(?m)^FAILURE +all +copies +array 'base_frames' of the store '.*dataset' has no '{lacking}' on h2 "
                   r"\(13 of 26 chunks are there\), and has it on h1 \(26\)$")
            shutil.rmtree(os.path.join(copy, "clip_emb"))
            refused("reader 1 on h2 finds no metadata of array 'clip_emb' in the store '.*dataset', and reader 0 on h1 does")

    def test_environment(self):
        """What is exported reaches trainers on all hosts, PATH as it is here; secrets are on no command line."""
        agent, found = os.path.join(self.folder, "agent"), os.path.join(self.folder, "found")
        with open(agent, "w", encoding="ascii") as out:
            out.write(f'#!/bin/sh\necho "$*" >>{self.folder}/reached\nexec {os.environ["CLUSTER_RSH"]} "$@"\n')
        os.chmod(agent, 0o700)
        path = os.pathsep.join([self.folder, os.environ["PATH"]])
        env = environment(PATH=path, AWS_SECRET_ACCESS_KEY="hush; two\nlines", **by_agent(agent))
        command = [program("penstock-run"), "--hosts", "h1,h2", "--set", "delivery.trainers=2"]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        outcome = run([*command, "--", "sh", "-c", f'echo "$RANK $PATH $AWS_SECRET_ACCESS_KEY" >{found}.$RANK; '
                       f'exec {program("penstock-trainer")}'], env=env, cwd=self.folder)
        self.assertEqual(outcome.code, 0, outcome.output)
        for rank in (0, 1):
            with open(f"{found}.{rank}", encoding="ascii") as file:
                self.assertEqual(file.read(), f"{rank} {path} hush; two\nlines\n")
        with open(os.path.join(self.folder, "reached"), encoding="utf-8") as file:
            reached = file.read()
        self.assertIn("h2", reached)
        self.assertNotIn("hush", reached)

    def test_a_signal_ends_all(self):
        before = leftovers()
        trainer = [program("penstock-trainer"), "--compute-ms", "10"]
        for seconds in (0.2, 3):  # while it starts, and in the middle
            outcome = self.penstock_run(3, "--hosts", "h1,h2,h3", "--", *trainer,
                                        order__epochs=100000, send=(seconds, 15))
            self.assertEqual(outcome.code, 143, outcome.output)
            self.assertLess(outcome.seconds, 60)
            self.assert_nothing_left(before, outcome)

    def test_the_code_of_a_trainer(self):
        outcome = self.penstock_run(3, "--hosts", "h1,h2,h3", "--", "sh", "-c", "exit 7")
        self.assertEqual(outcome.code, 4)
        self.assertIn("ended with exit code 7", outcome.output)


if __name__ == "__main__":
    unittest.main()
