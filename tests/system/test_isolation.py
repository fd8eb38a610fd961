"""A container is what the design says, for root and for an ordinary user."""

import os
import shutil
import subprocess
import unittest
from pathlib import Path

from trail_case import SHARED_HOME, TRAIL, Finished, TrailCase, clean_environment, main, ordinary_user

PROBE = r"""
import ctypes, json, os, pwd, sys
def attempt(action):
    try:
        action()
        return "done"
    except OSError as failure:
        return failure.strerror
def status(field):
    return next(line.split(":")[1].strip() for line in open("/proc/self/status") if line.startswith(field))
facts = {
    "uid": os.getuid(), "euid": os.geteuid(), "name": pwd.getpwuid(os.getuid()).pw_name,
    "home_writable": os.access(os.path.expanduser("~"), os.W_OK),
    "capabilities": [status("CapEff"), status("CapPrm"), status("CapBnd")],
    "no_new_privs": status("NoNewPrivs"), "seccomp": status("Seccomp"),
    "pids": sorted(int(p) for p in os.listdir("/proc") if p.isdigit()),
    "host_marker": os.path.exists(sys.argv[1]),
    "sysctl": attempt(lambda: open("/proc/sys/kernel/domainname", "w")),
    "mount": ctypes.CDLL(None, use_errno=True).mount(b"none", b"/mnt", b"tmpfs", 0, None),
    "unshare": ctypes.CDLL(None, use_errno=True).unshare(0x10000000),
    "ptrace_init": attempt(lambda: open("/proc/1/mem", "rb")),
    "image_write": attempt(lambda: open("/usr/bin/trail-was-here", "w")),
    "mounts": {line.split()[4]: line.split()[5].split(",") for line in open("/proc/self/mountinfo")},
    "directory": os.getcwd(),
    "environment": dict(os.environ),
    "datasets": attempt(lambda: open("/mnt/datasets/x", "w")),
    "temp": attempt(lambda: open("/mnt/temp/x", "w").close()),
    "personal": attempt(lambda: open("/mnt/personal/trail-probe", "w").close()),
    "shm": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
    "dev": sorted(os.listdir("/dev")),
}
open("made-inside", "w").write("x")
print(json.dumps(facts))
"""


class IsolationChecks:
    """The claims; subclasses say as whom `trail` runs."""

    def facts(self, *options):
        folder = self.project(requirements__txt="six\n", probe__py=PROBE)
        self.own(folder)
        marker = self.folder / "marker-of-the-host"
        marker.write_text("seen")
        return folder, self.trail("run", *options, "--", "python", "probe.py", marker, cwd=folder, check=0,
                                  env={"PYTHONDONTWRITEBYTECODE": "1", "CALLERS_SECRET": "leaked"}).json

    def test_the_command_is_not_root_and_has_no_way_to_become_it(self):
        _, facts = self.facts()
        self.assertNotEqual(facts["uid"], 0)
        self.assertEqual(facts["uid"], facts["euid"])
        self.assertEqual({int(mask, 16) for mask in facts["capabilities"]}, {0})
        self.assertEqual(facts["no_new_privs"], "1")
        self.assertEqual(facts["seccomp"], "2")
        self.assertEqual(facts["mount"], -1)
        self.assertEqual(facts["unshare"], -1)
        self.assertTrue(facts["name"])

    def test_the_host_is_not_seen(self):
        _, facts = self.facts()
        self.assertLess(len(facts["pids"]), 8)
        self.assertIn(1, facts["pids"])
        self.assertNotIn("STARTRAIL_HOME", facts["environment"])
        self.assertNotIn("PYTHONDONTWRITEBYTECODE", facts["environment"])
        self.assertNotIn("CALLERS_SECRET", facts["environment"])
        self.assertFalse(facts["host_marker"])
        self.assertNotEqual(facts["ptrace_init"], "done")
        self.assertFalse({"sda", "vda", "kmsg", "mem", "fuse"} & set(facts["dev"]))

    def test_system_files_are_not_written(self):
        _, facts = self.facts()
        self.assertNotEqual(facts["sysctl"], "done")
        self.assertNotEqual(facts["datasets"], "done")
        self.assertIn("ro", facts["mounts"]["/proc/sys"])

    def test_setuid_programs_and_devices_are_powerless_wherever_files_come_from(self):
        _, facts = self.facts()
        for place in ("/workspace", "/mnt/datasets", "/mnt/personal", "/mnt/temp"):
            self.assertLessEqual({"nosuid", "nodev"}, set(facts["mounts"][place]), place)

    def test_what_is_written_over_the_image_is_gone_with_the_run(self):
        folder, facts = self.facts()
        again = self.trail("run", "--", "python", "-c", "import os; print(os.path.exists('/usr/bin/trail-was-here'))", cwd=folder, check=0)
        self.assertEqual(again.out.strip(), "False", facts["image_write"])

    def test_the_four_places_are_there(self):
        _, facts = self.facts()
        self.assertEqual(facts["directory"], "/workspace")
        self.assertEqual((facts["temp"], facts["personal"], facts["home_writable"]), ("done", "done", True))
        for name in ("TRAIL_RUN_ID", "TRAIL_IMAGE", "TRAIL_OUTPUT_DIR", "TRAIL_CHECKPOINT_DIR"):
            self.assertIn(name, facts["environment"])

    def test_files_made_in_the_workspace_belong_to_the_caller(self):
        folder, _ = self.facts()
        self.assertEqual((folder / "made-inside").stat().st_uid, self.caller_uid)
        self.assertEqual((folder / "made-inside").stat().st_uid, folder.stat().st_uid)

    def test_shared_memory_has_the_size_asked_for(self):
        _, facts = self.facts("--shm-size", "128MiB")
        self.assertEqual(facts["shm"], 128 << 20)

    def test_a_memory_hog_dies_and_the_cause_is_named(self):
        folder = self.project(requirements__txt="six\n")
        self.own(folder)
        done = self.trail("run", "--memory", "256MiB", "--", "python", "-c",
                          "import time\nx = []\nwhile True:\n    x.append(b'x' * (8 << 20)); time.sleep(0.01)", cwd=folder, timeout=120)
        self.assertNotIn(done.code, (0, 125), done)
        self.assertIn("memory limit 256 MiB", done.err)

    def test_a_fork_bomb_stays_inside_its_limit(self):
        folder = self.project(requirements__txt="six\n", bomb__py=(
            "import os, time\nmade = 0\n"
            "try:\n    for _ in range(500):\n        if os.fork() == 0:\n            time.sleep(30); os._exit(0)\n        made += 1\n"
            "except OSError as failure:\n    print('refused after', made, failure.strerror)\n    raise SystemExit(9)\n"))
        self.own(folder)
        done = self.trail("run", "--pids", "64", "--", "python", "bomb.py", cwd=folder, timeout=120)
        self.assertEqual(done.code, 9, done)
        self.assertLessEqual(int(done.out.split()[2]), 64)

    def test_network_none_reaches_nothing(self):
        folder = self.project(requirements__txt="six\n")
        self.own(folder)
        done = self.trail("run", "--network", "none", "--", "python", "-c",
                          "import socket\ntry:\n    socket.create_connection(('192.0.2.1', 9), 2)\nexcept OSError as failure:\n    print(failure.strerror)\n"
                          "print(open('/proc/net/route').read().count(chr(10)))", cwd=folder, check=0)
        self.assertIn("unreachable", done.out)

    def test_how_limits_hold_is_on_record(self):
        folder = self.project(requirements__txt="six\n")
        self.own(folder)
        done = self.trail("run", "--json", "--", "true", cwd=folder, check=0)
        record = self.inspect(done.json["id"])
        self.assertTrue(record["record"]["limits_by"])
        self.assertEqual(record["spec"]["isolation"], self.mode)


@unittest.skipUnless(os.geteuid() == 0, "not root: see AsAnOrdinaryUser")
class AsRoot(IsolationChecks, TrailCase):
    mode = "root"
    caller_uid = 0

    def own(self, folder):
        pass

    def test_a_folder_of_another_user_keeps_its_owner(self):
        folder = self.project(requirements__txt="six\n")
        os.chown(folder, 12345, 12345)
        self.trail("run", "--", "touch", "made-inside", cwd=folder, check=0)
        self.assertEqual((folder / "made-inside").stat().st_uid, 12345)


class AsAnOrdinaryUser(IsolationChecks, TrailCase):
    mode = "rootless"

    @classmethod
    def setUpClass(cls):
        cls.user = ordinary_user() if os.geteuid() == 0 else None
        if os.geteuid() == 0 and cls.user is None:
            raise unittest.SkipTest("no ordinary user and no useradd here")

    def setUp(self):
        super().setUp()
        if self.user:
            self.home = SHARED_HOME.parent / "test-home-user"
            self.home.mkdir(parents=True, exist_ok=True)
            os.chown(self.home, self.user.pw_uid, self.user.pw_gid)
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
            if not self.reaches(TRAIL) or not self.reaches(self.home):
                self.skipTest(f"{self.user.pw_name} can't reach {TRAIL}")
        self.caller_uid = self.user.pw_uid if self.user else os.getuid()

    def reaches(self, path):
        return subprocess.run(["runuser", "-u", self.user.pw_name, "--", "test", "-r", str(path)], check=False).returncode == 0

    def own(self, folder):
        if self.user:
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def trail(self, *arguments, cwd=None, timeout=600, home=None, check=None, env=None, **options):
        if not self.user:
            return super().trail(*arguments, cwd=cwd, timeout=timeout, home=home, check=check, env=env, **options)
        environment = clean_environment(home or self.home, HOME=self.user.pw_dir, USER=self.user.pw_name, LOGNAME=self.user.pw_name, **(env or {}))
        done = subprocess.run(["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups", "--inh-caps=-all",
                               *self.command(*arguments)], cwd=cwd or self.folder, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=timeout, check=False)
        finished = Finished(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        if check is not None:
            self.assertEqual(finished.code, check, finished)
        return finished

    def test_the_uid_inside_is_the_callers_own(self):
        _, facts = self.facts()
        self.assertEqual(facts["uid"], self.caller_uid)


if __name__ == "__main__":
    main()
