"""One reader on each host of a cluster of many delivers what one reader delivers. Run by hosts.sh with 64."""

import unittest

from scale import Clock, settings_of, tell

from cluster import HOSTS, ClusterTest
from job import MPIEXEC, environment, run


class ManyHosts(ClusterTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        settings = settings_of(cls, len(HOSTS))
        del settings["delivery.trainers"]
        cls.settings, cls.SAMPLES = settings, 4096

    def test_the_same_as_of_one(self):
        clock = Clock()
        # Each host believes that it has this machine's cores: MPI is told that it has not.
        outcome = run([MPIEXEC, *self.flags, "-np", str(len(HOSTS)), *self.reader_command(len(HOSTS)), "--",
                       *self.trainer_command()],
                      env=environment(OMPI_MCA_mpi_yield_when_idle=1))
        self.assertEqual(outcome.code, 0, outcome.output)
        self.assertRegex(outcome.output, rf"(?m)^readers +{len(HOSTS)} on h1, h2, .*, h8 and {len(HOSTS) - 8} more:")
        self.assert_same_digests()
        tell(f"{len(HOSTS)} hosts: {clock.seconds():.1f} s")


if __name__ == "__main__":
    unittest.main()
