"""The record: what it holds, rerun from it alone, and what differs between two runs."""

import shutil
import subprocess
import unittest
from pathlib import Path

from trail_case import TrailCase, main


class Records(TrailCase):
    def run_id(self, folder, *command, options=(), check=0):
        done = self.trail("run", "--json", *options, "--", *command, cwd=folder)
        self.assertEqual(done.code, check, done)
        return done.json["id"]

    def test_the_record_tells_the_story(self):
        folder = self.project(requirements__txt="six\n", train__py="print('hi')\n")
        for command in (["init", "-q"], ["add", "train.py"], ["-c", "user.name=t", "-c", "user.email=t@example.invalid", "commit", "-qm", "x"]):
            subprocess.run(["git", *command], cwd=folder, check=True)
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()
        (folder / "train.py").write_text("print('changed since the commit')\n")
        run = self.run_id(folder, "python", "train.py", "--seed", "7", options=("--env", "PYTHONHASHSEED=3"))
        record = self.inspect(run)
        self.assertEqual(record["spec"]["command"], ["python", "train.py", "--seed", "7"])
        self.assertEqual(record["record"]["git"]["commit"], commit)
        self.assertTrue(record["record"]["git"]["dirty"])
        self.assertIn("7", str(record["record"]["seeds"]))
        self.assertIn("3", str(record["record"]["seeds"]))
        self.assertTrue(record["spec"]["image"].startswith("sha256:"))
        self.assertEqual(len(record["spec"]["lock_digest"].removeprefix("sha256:")), 64)
        self.assertGreater(record["record"]["machine"]["cpus"], 0)
        for moment in ("started", "ended"):
            self.assertRegex(record["status"][moment], r"^\d{4}-\d\d-\d\dT")

    def test_causes_of_death_are_one_line(self):
        folder = self.project(requirements__txt="six\n")
        causes = {
            "import a_module_that_is_not_there": "No module named 'a_module_that_is_not_there'",
            "import os; os.kill(os.getpid(), 11)": "signal 11",
            "raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 7.79 GiB')": "CUDA out of memory",
            "raise SystemExit(3)": "exit code 3",
        }
        for code, cause in causes.items():
            done = self.trail("run", "--json", "--", "python", "-c", code, cwd=folder)
            told = self.inspect(done.json["id"])["status"]["cause"]
            self.assertIn(cause, told)
            self.assertNotIn("\n", told)
            self.assertIn(cause, done.err)

    def test_a_command_that_does_not_exist_is_named(self):
        folder = self.project(requirements__txt="six\n")
        done = self.trail("run", "--", "no-such-program", "x", cwd=folder)
        self.assertEqual(done.code, 127, done)
        self.assertIn("no-such-program", done.err)

    def test_rerun_needs_nothing_but_the_record(self):
        folder = self.project(requirements__txt="six\n", train__py="import os, six\nprint('value', open('data.txt').read(), os.environ['KNOB'])\n", data__txt="one")
        run = self.run_id(folder, "python", "train.py", options=("--env", "KNOB=5"))
        (folder / "data.txt").write_text("two")
        (folder / "requirements.txt").unlink()
        (folder / "pylock.trail.toml").unlink()
        again = self.trail("rerun", "--json", run, check=0)
        self.assertIn("value one 5", again.err)
        self.assertEqual((folder / "data.txt").read_text(), "two")
        spec = self.inspect(again.json["id"])["spec"]
        self.assertEqual(spec["rerun_of"], run)
        self.assertEqual(spec["image"], self.inspect(run)["spec"]["image"])

    def test_a_rerun_that_cannot_be_leaves_no_folder(self):
        folder = self.project(requirements__txt="six\n", train__py=f"print({str(self.folder)!r})\n")
        run = self.run_id(folder, "python", "train.py")
        (self.home / "snapshots/manifests" / (self.inspect(run)["snapshot"]["id"] + ".json")).unlink()
        self.trail("rerun", run, check=125)
        self.assertEqual(list((self.home / "reruns").glob(run + ".*")), [])

    def test_diff_shows_what_differed(self):
        folder = self.project(requirements__txt="six\n", train__py="print(1)\n")
        first = self.run_id(folder, "python", "train.py", options=("--env", "KNOB=1"))
        (folder / "train.py").write_text("print(2)\n")
        (folder / "requirements.txt").write_text("six\nidna\n")
        second = self.run_id(folder, "python", "train.py", "--fast", options=("--env", "KNOB=2"))
        told = self.trail("diff", first, second, check=0).out
        for text in ("--fast", "idna", "-print(1)", "+print(2)", "KNOB"):
            self.assertIn(text, told)
        self.assertIn("idna", str(self.trail("diff", first, second, "--json", check=0).json))

    def test_ignored_and_huge_files_stay_out_of_the_snapshot_and_are_listed(self):
        folder = self.project(requirements__txt="six\n", train__py="print(1)\n", __gitignore="secret.txt\n", secret__txt="s")
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        with open(folder / "weights.bin", "wb") as weights:
            weights.truncate(4 << 30)
        run = self.run_id(folder, "true")
        snapshot = self.inspect(run)["snapshot"]
        self.assertIn("weights.bin", str(snapshot["omitted"]))
        shutil.rmtree(folder)
        again = self.trail("rerun", run, "--json", check=0).json["id"]
        restored = Path(self.inspect(again)["spec"]["workspace"])
        self.assertEqual(sorted(path.name for path in restored.iterdir() if not path.name.startswith("pylock")),
                         [".gitignore", "requirements.txt", "train.py"])


if __name__ == "__main__":
    main()
