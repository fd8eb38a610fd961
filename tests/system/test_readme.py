"""The README's tour is run as it is printed: every `$ ` line of its console blocks, in order, in a copy of examples/digits."""

import re
import shutil
import subprocess
import unittest

from trail_case import SOURCE, TRAIL, TrailCase, clean_environment, index_is_reachable, main


def console_commands(text):
    """The commands of ```console blocks; `./dev` lines are what brought us here and are left out."""
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ ") and not line.startswith("$ ./dev"):
                yield line[2:]


@unittest.skipUnless(index_is_reachable(), "the package index can't be reached")
class Readme(TrailCase):
    def test_every_command_of_the_tour_works(self):
        folder = self.folder / "digits"
        shutil.copytree(SOURCE / "examples/digits", folder, ignore=shutil.ignore_patterns("pylock.trail.toml", "output"))
        commands = list(console_commands((SOURCE / "README.md").read_text()))
        self.assertGreater(len(commands), 5)
        environment = clean_environment(self.home)
        environment["PATH"] = f"{TRAIL.parent}:{environment['PATH']}"
        for command in commands:
            with self.subTest(command):
                done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                      capture_output=True, text=True, timeout=1200, check=False)
                self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")


if __name__ == "__main__":
    main()
