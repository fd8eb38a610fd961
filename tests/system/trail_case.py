"""What the system tests share: the built `trail`, a state folder that suites share, and projects made on the spot."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
TRAIL = Path(os.environ.get("TRAIL", SOURCE / "build/release/trail")).resolve()
# Shared by all suites: bases and big wheels are made once. Runs and locks of a test live in its own folders.
SHARED_HOME = Path(os.environ.get("STARTRAIL_TEST_HOME", TRAIL.parent / "test-home")).resolve()


def clean_environment(home=SHARED_HOME, **more):
    """The caller's environment without its Python and Startrail settings, and without this machine's system store."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "STARTRAIL_", "TRAIL_"))}
    return {**kept, "STARTRAIL_HOME": str(home), "STARTRAIL_SYSTEM_STORE": "none", "NO_COLOR": "1", **more}


class Finished:
    """A finished process: its exit code, and both streams as text."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)

    def __str__(self):
        return f"exit {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class TrailCase(unittest.TestCase):
    maxDiff = None
    longMessage = True

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="trail-test."))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        os.chmod(self.folder, 0o755)
        self.home = SHARED_HOME
        SHARED_HOME.mkdir(parents=True, exist_ok=True)

    def project(self, name="project", files=None, **named_files):
        """A folder with these files; in keyword names '__' stands for '.' (requirements__txt)."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        for key, text in {**{key.replace("__", "."): text for key, text in named_files.items()}, **(files or {})}.items():
            path = folder / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder

    def command(self, *arguments):
        return [str(TRAIL), *map(str, arguments)]

    def trail(self, *arguments, cwd=None, timeout=600, home=None, check=None, env=None, **options):
        """Runs trail to its end. check=0 asserts the exit code."""
        done = subprocess.run(self.command(*arguments), cwd=cwd or self.folder, env=clean_environment(home or self.home, **(env or {})),
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False, **options)
        finished = Finished(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        if check is not None:
            self.assertEqual(finished.code, check, f"trail {' '.join(map(str, arguments))}\n{finished}")
        return finished

    def start(self, *arguments, cwd=None, **options):
        """Starts trail in a session of its own and returns the Popen; killed at the end if still there."""
        process = subprocess.Popen(self.command(*arguments), cwd=cwd or self.folder, env=clean_environment(self.home),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   start_new_session=True, **options)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()

    def run_in_background(self, folder, *command, options=()):
        """`trail run -d`; returns the run's id and stops it at the end of the test."""
        run = self.trail("run", "-d", *options, "--", *command, cwd=folder, check=0).out.strip()
        self.addCleanup(self.trail, "stop", "--now", run)
        return run

    def inspect(self, run):
        return self.trail("inspect", run, "--json", check=0).json

    def latest_run(self, folder):
        """The newest run of this folder; other suites may use the same state folder at the same time."""
        runs = self.trail("ps", "--all", "--json", check=0).json["runs"]
        return next(run["id"] for run in runs if run["workspace"] == str(folder))

    def state(self, run):
        return self.inspect(run)["state"]

    def wait_for(self, what, condition, seconds=30):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        self.fail(f"after {seconds} s still not: {what}")

    def wait_for_log(self, run, text, seconds=60):
        return self.wait_for(f"{text!r} in the log of {run}", lambda: text in self.trail("logs", run).out, seconds)


def processes_with(text):
    """Pids whose command line holds `text`, this process left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if text.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def index_is_reachable():
    """Suites that need the package index probe first and say why they skip."""
    probe = subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", tempfile.mkdtemp(), "six"],
                           capture_output=True, check=False, timeout=120)
    return probe.returncode == 0


def ordinary_user():
    """An account without privileges for the rootless tests: made when missing, if we are root."""
    name = "trail-tester"
    try:
        return pwd.getpwnam(name)
    except KeyError:
        if os.geteuid() != 0 or not shutil.which("useradd"):
            return None
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", name], check=True)
        return pwd.getpwnam(name)


def main():
    unittest.main(verbosity=2)
