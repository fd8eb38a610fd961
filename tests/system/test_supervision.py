"""A run belongs to its supervisor: what happens when the CLI, the supervisor or the machine goes away."""

import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import time
import unittest
from pathlib import Path

from trail_case import TrailCase, main, processes_with

COUNTER = "import time,sys\nfor i in range(600):\n    print('tick', i, flush=True)\n    time.sleep(0.1)\n"


class Supervision(TrailCase):
    def counting_project(self):
        return self.project(requirements__txt="six\n", count__py=COUNTER)

    def supervisor(self, run):
        return self.inspect(run)["status"]["supervisor"]["pid"]

    def mounts_of(self, run):
        return [line for line in Path("/proc/self/mounts").read_text().splitlines() if run in line]

    def test_the_exit_code_is_the_commands_own(self):
        folder = self.counting_project()
        self.trail("run", "--", "python", "-c", "raise SystemExit(7)", cwd=folder, check=7)
        self.trail("run", "--", "true", cwd=folder, check=0)
        self.trail("run", "--", "sh", "-c", "kill -SEGV $$", cwd=folder, check=128 + signal.SIGSEGV)

    def test_output_streams_are_kept_apart_and_byte_exact(self):
        folder = self.counting_project()
        done = self.trail("run", "--", "python", "-c", "import sys; print('to out'); print('to err', file=sys.stderr)", cwd=folder, check=0)
        self.assertEqual(done.out, "to out\n")
        self.assertIn("to err\n", done.err)

    def test_a_killed_cli_leaves_the_run_going(self):
        folder = self.counting_project()
        cli = self.start("run", "--", "python", "count.py", cwd=folder)
        self.wait_for("first ticks", lambda: cli.stdout.readline().startswith(b"tick"))
        run = self.latest_run(folder)
        self.addCleanup(self.trail, "stop", "--now", run)
        cli.send_signal(signal.SIGKILL)
        cli.wait()
        before = self.trail("logs", run).out.count("tick")
        self.wait_for("more ticks", lambda: self.trail("logs", run).out.count("tick") > before + 3)
        self.assertEqual(self.state(run), "running")

    def test_a_closed_terminal_leaves_the_run_going(self):
        folder = self.counting_project()
        cli = self.start("run", "--", "python", "count.py", cwd=folder)
        self.wait_for("first ticks", lambda: cli.stdout.readline().startswith(b"tick"))
        run = self.latest_run(folder)
        self.addCleanup(self.trail, "stop", "--now", run)
        os.killpg(cli.pid, signal.SIGHUP)
        cli.wait(timeout=10)
        self.assertEqual(self.state(run), "running")

    def test_a_killed_supervisor_takes_the_training_with_it(self):
        folder = self.counting_project()
        marker = "marker-" + os.urandom(6).hex()
        run = self.run_in_background(folder, "sh", "-c", f"(setsid sleep 987 {marker} &) ; exec python count.py {marker}")
        self.wait_for_log(run, "tick")
        os.kill(self.supervisor(run), signal.SIGKILL)
        self.wait_for("no process left", lambda: not processes_with(marker), 10)
        record = self.inspect(run)
        self.assertEqual(record["state"], "lost")
        self.assertIn("supervisor", record["status"]["cause"])
        self.assertEqual(self.mounts_of(run), [])
        self.assertFalse((self.home / "runs" / run / "scratch").exists())

    def test_a_supervisor_is_gone_moments_after_its_run_and_the_list_knows_the_end(self):
        folder = self.counting_project()
        run = self.trail("run", "-d", "--", "true", cwd=folder, check=0).out.strip()
        self.trail("wait", run, check=0)
        began = time.monotonic()
        self.wait_for("no supervisor", lambda: not processes_with(f"/runs/{run}"), 10)
        self.assertLess(time.monotonic() - began, 4.5, "SQLite's patience with a lock is 5 s")
        with contextlib.closing(sqlite3.connect(self.home / "state.db", timeout=10)) as index:
            self.assertEqual(index.execute("SELECT state FROM run WHERE id = ?", [run]).fetchone(), ("succeeded",))

    def test_a_reboot_is_noticed(self):
        folder = self.counting_project()
        run = self.run_in_background(folder, "python", "count.py")
        self.wait_for_log(run, "tick")
        os.kill(self.supervisor(run), signal.SIGKILL)
        state_file = self.home / "runs" / run / "state.json"
        state = json.loads(state_file.read_text())
        state["supervisor"]["boot_id"] = "00000000-0000-0000-0000-000000000000"
        state["state"] = "running"
        state_file.write_text(json.dumps(state))
        record = self.inspect(run)
        self.assertEqual(record["state"], "lost")
        self.assertIn("restarted", record["status"]["cause"])

    def test_ctrl_c_stops_gracefully(self):
        folder = self.project(requirements__txt="six\n", save__py=(
            "import signal,sys,time\n"
            "def save(*_):\n    print('saved', flush=True); sys.exit(0)\n"
            "signal.signal(signal.SIGTERM, save)\nprint('ready', flush=True)\ntime.sleep(600)\n"))
        cli = self.start("run", "--", "python", "save.py", cwd=folder)
        self.wait_for("ready", lambda: cli.stdout.readline() == b"ready\n")
        cli.send_signal(signal.SIGINT)
        self.assertIn(b"saved", cli.stdout.read())
        cli.wait(timeout=20)
        run = self.latest_run(folder)
        self.assertEqual(self.state(run), "stopped")

    def test_ctrl_c_twice_kills(self):
        folder = self.project(requirements__txt="six\n", stubborn__py=(
            "import signal,time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(600)\n"))
        cli = self.start("run", "--", "python", "stubborn.py", cwd=folder)
        self.wait_for("ready", lambda: cli.stdout.readline() == b"ready\n")
        run = self.latest_run(folder)
        cli.send_signal(signal.SIGINT)
        self.wait_for("ending", lambda: self.state(run) == "ending")
        cli.send_signal(signal.SIGINT)
        self.assertEqual(cli.wait(timeout=10), 128 + signal.SIGKILL)
        self.assertEqual(self.state(run), "killed")

    def test_stop_ends_forked_daemons_too(self):
        folder = self.counting_project()
        marker = "marker-" + os.urandom(6).hex()
        run = self.run_in_background(folder, "sh", "-c", f"trap '' TERM; (setsid sh -c \"trap '' TERM; sleep 999 {marker}; sleep 999\" &); echo up; sleep 999",
                                     options=("--grace", "1"))
        self.wait_for_log(run, "up")
        self.trail("stop", run, check=0)
        self.trail("wait", run)
        self.assertEqual(processes_with(marker), [])
        self.assertIn(self.state(run), ("stopped", "killed"))

    def test_a_stop_is_heard_while_the_runtime_hangs(self):
        folder = self.counting_project()
        self.trail("run", "--", "true", cwd=folder, check=0)
        shims = self.folder / "shims"
        shims.mkdir()
        seconds = 1000 + int.from_bytes(os.urandom(3), "big")
        for name in ("crun", "runc"):
            shim = shims / name
            shim.write_text(f"#!/bin/sh\ncase \"$*\" in *--version*) exec {shutil.which(name) or 'false'} \"$@\";; esac\nsleep {seconds}\n")
            shim.chmod(0o755)
        run = self.trail("run", "-d", "--", "true", cwd=folder, check=0, env={"PATH": f"{shims}:{os.environ['PATH']}"}).out.strip()
        self.addCleanup(self.trail, "stop", "--now", run)
        self.wait_for("the runtime", lambda: processes_with(str(seconds)))
        self.assertEqual(self.state(run), "preparing")
        self.trail("stop", run, check=0)
        self.wait_for("its end", lambda: self.state(run) == "stopped", 10)
        self.wait_for("no process left", lambda: not processes_with(str(seconds)), 10)
        self.assertIn("before it started", self.inspect(run)["status"]["cause"])

    def test_wait_gives_the_runs_exit_code(self):
        folder = self.counting_project()
        run = self.run_in_background(folder, "sh", "-c", "sleep 0.5; exit 5")
        self.trail("wait", run, check=5)

    def test_logs_follow_to_the_end(self):
        folder = self.counting_project()
        run = self.run_in_background(folder, "sh", "-c", "echo one; sleep 1; echo two")
        done = self.trail("logs", "-f", run, check=0)
        self.assertEqual(done.out, "one\ntwo\n")

    def test_twenty_runs_at_once_do_not_interfere(self):
        folder = self.counting_project()
        self.trail("run", "--", "true", cwd=folder, check=0)
        clis = [self.start("run", "--", "sh", "-c", f"echo run-{i}; test -z \"$(ls /mnt/temp)\" && touch /mnt/temp/{i}", cwd=folder) for i in range(20)]
        for i, cli in enumerate(clis):
            out, err = cli.communicate(timeout=120)
            self.assertEqual((cli.returncode, out), (0, f"run-{i}\n".encode()), err.decode())


if __name__ == "__main__":
    main()
