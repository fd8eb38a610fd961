"""The main job on real input: examples/digits with torch from the package index, from nothing to a rerun."""

import shutil
import unittest
from pathlib import Path

from trail_case import SOURCE, TrailCase, index_is_reachable, main


@unittest.skipUnless(index_is_reachable(), "the package index can't be reached")
class Digits(TrailCase):
    def accuracy(self, text):
        return float(text.rsplit("test accuracy:", 1)[1].split("%")[0])

    def test_from_a_folder_to_a_finished_recorded_training(self):
        folder = self.folder / "digits with spaces and ümlaut"
        shutil.copytree(SOURCE / "examples/digits", folder, ignore=shutil.ignore_patterns("pylock.trail.toml", "output"))
        first = self.trail("run", "--", "python", "train.py", cwd=folder, check=0, timeout=1200)
        self.assertGreaterEqual(self.accuracy(first.out), 97.0)
        self.assertTrue((folder / "pylock.trail.toml").is_file())

        listed = self.trail("ps", "--all", "--json", check=0).json["runs"]
        run = next(entry["id"] for entry in listed if entry["workspace"] == str(folder))
        record = self.inspect(run)
        self.assertEqual((record["state"], record["status"]["exit_code"]), ("succeeded", 0))
        output = Path(record["outputs"])
        self.assertTrue((output / "model.pt").is_file(), record)
        self.assertTrue(list(output.rglob("events.out.tfevents.*")))
        self.assertIn("torch", self.trail("inspect", run, check=0).out)

        again = self.trail("run", "--", "python", "train.py", cwd=folder, check=0)
        for work in ("resolving", "downloading", "unpacking", "making"):
            self.assertNotIn(work, again.err, "a warm run prepares nothing")
        self.assertGreaterEqual(self.accuracy(again.out), 97.0)

        # The folder changes; the rerun is of what was recorded.
        (folder / "train.py").write_text("raise SystemExit('changed since')\n")
        (folder / "requirements.txt").write_text("a-package-that-does-not-exist\n")
        repeated = self.trail("rerun", run, cwd=self.folder, check=0, timeout=600)
        self.assertEqual(self.accuracy(repeated.out), self.accuracy(first.out))


if __name__ == "__main__":
    main()
