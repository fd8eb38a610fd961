"""Instances: real ssh, scp, sftp, rsync and port forwarding into them, as root and as an ordinary user."""

import contextlib
import json
import os
import pty
import pwd
import select
import shutil
import signal
import socket
import subprocess
import time
import unittest
from pathlib import Path

from trail_case import SHARED_HOME, TRAIL, Finished, TrailCase, clean_environment, main, ordinary_user, processes_with

CLIENTS = ["ssh", "scp", "sftp", "rsync"]
# What a user's own configuration may do to every host.
HOSTILE = """Host *
  ProxyJump gate.example
  ProxyCommand false
  ControlMaster auto
  ControlPath ~/.ssh/%C
  ControlPersist 10m
  User somebody-else
  Port 2222
  IdentityFile /nonexistent
  HostName elsewhere.example
  StrictHostKeyChecking ask
  UserKnownHostsFile /nonexistent
  ForwardAgent yes
  RemoteCommand false
  CanonicalizeHostname yes
"""


def is_alive(pid):
    """A process that is dead and not yet reaped has no command line any more."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


class Instances(TrailCase):
    """As whoever runs the tests; `AsOrdinaryUser` runs the same as somebody without privileges."""

    def setUp(self):
        super().setUp()
        missing = [name for name in CLIENTS if not shutil.which(name)]
        if missing:
            self.skipTest(f"not installed: {', '.join(missing)}")
        self.prepare_account()
        # A name of this test's own: the state folder is shared.
        self.name = "t" + os.urandom(4).hex()
        self.ssh_config = self.folder / "ssh_config_of_user"
        self.addCleanup(self.trail, "rm", "--force", self.name, timeout=60)

    def prepare_account(self):
        pass

    def account_of_caller(self):
        return {}

    def environment(self):
        return clean_environment(self.home)

    def own(self, path):
        pass

    def trail(self, *arguments, cwd=None, timeout=120, check=None):
        done = subprocess.run(self.command(*arguments), cwd=cwd or self.folder, env={**self.environment(), "STARTRAIL_SSH_CONFIG": str(self.ssh_config)},
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False, **self.account_of_caller())
        finished = Finished(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        if check is not None:
            self.assertEqual(finished.code, check, f"trail {' '.join(map(str, arguments))}\n{finished}")
        return finished

    def client(self, program, *arguments, **options):
        """A real client, told of the configuration file that ~/.ssh/config stands for."""
        return subprocess.run([program, "-F", str(self.ssh_config), *map(str, arguments)], capture_output=True, timeout=60, check=False,
                              stdin=options.pop("stdin", subprocess.DEVNULL), env=self.environment(), **self.account_of_caller(), **options)

    def ssh(self, *arguments, **options):
        return self.client("ssh", self.name, *arguments, **options)

    def assert_ssh(self, command, out):
        done = self.ssh(command)
        self.assertEqual((done.returncode, done.stdout.decode()), (0, out), done.stderr.decode())

    def up(self, *options, folder=None, check=0):
        folder = folder or self.project(requirements__txt="six\n", train__py="print('trained')\n")
        return self.trail("up", *options, self.name, cwd=folder, check=check, timeout=600)

    def test_ssh_runs_commands_with_the_runs_environment(self):
        hard = 'a "b" \\c #d  $e \'f'
        self.up("--env", "GREETING=good day, you", "--env", f"HARD={hard}")
        self.assert_ssh("true", "")
        self.assert_ssh("echo $GREETING", "good day, you\n")
        self.assert_ssh('printf %s "$HARD"', hard)
        self.assert_ssh("python -c 'import six, sys; print(sys.prefix)'", "/opt/env\n")
        self.assert_ssh("cat /workspace/train.py", "print('trained')\n")
        self.assertEqual(self.ssh("exit 7").returncode, 7)
        self.assert_ssh("bash -lc 'command -v python'", "/opt/env/bin/python\n")

    def test_ssh_gives_a_terminal(self):
        self.up()
        done = self.client("ssh", "-tt", self.name, "tty; stty size; exit 3")
        self.assertIn(b"/dev/pts/", done.stdout, done.stderr)
        self.assertEqual(done.returncode, 3)

    def test_who_logs_in_to_type_is_where_the_work_is(self):
        self.up()
        done = subprocess.run(["ssh", "-tt", "-F", str(self.ssh_config), self.name], input=b"pwd; command -v python; exit 3\n", capture_output=True,
                              timeout=60, check=False, env=self.environment(), **self.account_of_caller())
        self.assertEqual(done.returncode, 3, done)
        self.assertIn(b"\r/workspace\r\n", done.stdout)
        self.assertIn(b"\n/opt/env/bin/python\r", done.stdout)

    def test_who_tries_apt_is_told_what_does_it(self):
        self.up()
        done = self.trail("exec", self.name, "--", "apt-get", "install", "ffmpeg")
        self.assertEqual(done.code, 100)
        self.assertIn("`system-packages` of trail.toml", done.err)
        self.assertIn(f"trail up --renew {self.name}", done.err)

    def test_files_go_both_ways_by_scp_sftp_and_rsync(self):
        self.up()
        there, back = self.folder / "there.bin", self.folder / "back"
        there.write_bytes(os.urandom(3_000_000))
        os.chmod(there, 0o644)
        self.writable(back)
        done = self.client("scp", there, f"{self.name}:/tmp/scp.bin")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.client("scp", f"{self.name}:/tmp/scp.bin", back / "scp.bin")
        self.assertEqual((back / "scp.bin").read_bytes(), there.read_bytes(), done.stderr)
        batch = self.folder / "batch"
        batch.write_text(f"put {there} /tmp/sftp.bin\nget /tmp/sftp.bin {back}/sftp.bin\n")
        done = self.client("sftp", "-b", batch, self.name)
        self.assertEqual((back / "sftp.bin").read_bytes(), there.read_bytes(), done.stderr)
        for source, target in ((there, f"{self.name}:/tmp/rsync.bin"), (f"{self.name}:/tmp/rsync.bin", back / "rsync.bin")):
            done = subprocess.run(["rsync", "-e", f"ssh -F {self.ssh_config}", str(source), str(target)], capture_output=True, timeout=60,
                                  check=False, env=self.environment(), **self.account_of_caller())
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((back / "rsync.bin").read_bytes(), there.read_bytes())

    def writable(self, folder):
        folder.mkdir()
        self.own(folder)

    def test_a_port_inside_is_reached_by_forwarding(self):
        self.up("--network", "none")
        (self.folder / "project" / "page.txt").write_text("from inside\n")
        server = self.start_client("ssh", self.name, "cd /workspace && exec python -m http.server --bind 127.0.0.1 8000")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.start_client("ssh", "-N", "-L", f"127.0.0.1:{port}:127.0.0.1:8000", self.name)
        self.wait_for("the page", lambda: self.fetch(port) == "from inside\n")
        self.assertIsNone(server.poll())

    @staticmethod
    def fetch(port):
        with socket.socket() as client:
            client.settimeout(5)
            try:
                client.connect(("127.0.0.1", port))
                client.sendall(b"GET /page.txt HTTP/1.0\r\n\r\n")
                answer = b""
                while chunk := client.recv(65536):
                    answer += chunk
            except OSError:
                return None
            return answer.partition(b"\r\n\r\n")[2].decode()

    def start_client(self, program, *arguments):
        process = subprocess.Popen([program, "-F", str(self.ssh_config), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True, env=self.environment(), **self.account_of_caller())
        self.addCleanup(self.end, process)
        return process

    def test_a_users_settings_for_all_hosts_do_not_break_it(self):
        self.ssh_config.write_text(HOSTILE)
        self.own(self.ssh_config)
        self.up()
        self.assertTrue(self.ssh_config.read_text().endswith(HOSTILE))
        self.assertEqual(len(self.ssh_config.read_text().splitlines()), len(HOSTILE.splitlines()) + 1)
        self.assert_ssh("echo reached", "reached\n")

    def test_exec_has_its_own_streams_and_exit_code(self):
        self.up()
        done = self.trail("exec", self.name, "--", "sh", "-c", "echo out; echo err >&2; exit 5")
        self.assertEqual((done.code, done.out, done.err), (5, "out\n", "err\n"))
        self.assertEqual(self.trail("exec", self.name, "--", "sh", "-c", "kill -SEGV $$").code, 128 + signal.SIGSEGV)
        self.assertEqual(self.trail("exec", self.name, "--", "no-such-program").code, 127)
        data = os.urandom(2_000_000)
        done = subprocess.run(self.command("exec", self.name, "--", "cat"), input=data, capture_output=True, timeout=60, check=False,
                              env=self.environment(), **self.account_of_caller())
        self.assertEqual((done.returncode, done.stdout), (0, data))
        done = self.trail("exec", self.name, "--", "sh", "-c", "echo by name > /dev/stdout; pwd")
        self.assertEqual((done.code, done.out), (0, "by name\n/workspace\n"), done.err)

    def test_exec_on_a_terminal_has_one_inside(self):
        self.up()
        ours, theirs = pty.openpty()
        process = subprocess.Popen(self.command("exec", "-t", self.name, "--", "sh", "-c", "tty; read line; echo got $line; exit 4"),
                                   stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=self.environment(), **self.account_of_caller())
        self.addCleanup(os.close, ours)
        os.close(theirs)
        self.addCleanup(self.end, process)
        self.assertIn("/dev/pts/", self.read_until(ours, "pts/"))
        os.write(ours, b"hello\r")
        self.assertIn("got hello", self.read_until(ours, "got hello"))
        self.assertEqual(process.wait(timeout=20), 4)

    @staticmethod
    def read_until(descriptor, text):
        got, deadline = "", time.monotonic() + 20
        while text not in got and time.monotonic() < deadline:
            if select.select([descriptor], [], [], 1)[0]:
                try:
                    got += os.read(descriptor, 65536).decode(errors="replace")
                except OSError:
                    break
        return got

    def test_exec_ends_with_its_reader_and_passes_interrupts_on(self):
        self.up()
        shell = f"{TRAIL} exec {self.name} -- yes | head -n 1"
        done = subprocess.run(["bash", "-c", shell], capture_output=True, timeout=30, check=False, env=self.environment(), **self.account_of_caller())
        self.assertEqual(done.stdout, b"y\n", done.stderr)
        process = subprocess.Popen(self.command("exec", self.name, "--", "sh", "-c", "echo begun; exec sleep 600"), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment(), **self.account_of_caller())
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), b"begun\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=20), 128 + signal.SIGINT)

    def test_two_who_start_it_at_once_get_one(self):
        folder = self.project(requirements__txt="six\n")
        environment = {**self.environment(), "STARTRAIL_SSH_CONFIG": str(self.ssh_config)}
        both = [subprocess.Popen(self.command("up", "--json", self.name), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=environment, **self.account_of_caller()) for _ in range(2)]
        told = [process.communicate(timeout=600) for process in both]
        self.assertEqual([process.returncode for process in both], [0, 0], told)
        told = [json.loads(out) for out, _ in told]
        self.assertEqual(told[0]["run"], told[1]["run"])
        self.assertEqual(sorted(each["was_up"] for each in told), [False, True])

    def test_its_name_stands_for_its_run_and_the_latest_run_is_another(self):
        folder = self.project(requirements__txt="six\n")
        run = self.trail("run", "-d", "--", "echo", self.name, cwd=folder, check=0).out.strip()
        self.up(folder=folder)
        self.assert_ssh("true", "")
        self.wait_for("sshd's words", lambda: "Accepted publickey" in self.trail("logs", self.name, check=0).err)
        own = self.instance()["run"]
        self.assertEqual(json.loads(self.trail("inspect", self.name, "--json", check=0).out)["id"], own)
        latest = json.loads(self.trail("inspect", "--json", check=0).out)["id"]
        self.assertNotEqual(latest, own)
        refused = self.trail("rerun", own, check=125)
        self.assertIn(f"trail up -C {folder} {self.name}", refused.err)
        self.trail("wait", run, check=0)

    def test_a_host_of_the_users_own_is_told_when_an_instance_hides_it(self):
        self.ssh_config.write_text(f"Host {self.name}\n  HostName gate.example\n")
        self.own(self.ssh_config)
        self.assertIn(f"`ssh {self.name}` no longer means", self.up().err)
        self.assert_ssh("true", "")

    def test_one_that_cannot_start_leaves_nothing(self):
        refused = self.up("--gpus", "17", check=1)
        self.assertIn("17", refused.err)
        self.assertFalse((self.home / "instances" / self.name).exists())

    def test_options_hold_until_others_are_given(self):
        folder = self.project(requirements__txt="six\n")
        self.up("--env", "A=1", "--env", "B=2", "--shm-size", "8MiB", folder=folder)
        self.trail("down", self.name, check=0)
        self.up("--env", "B=3", folder=folder)
        done = self.trail("exec", self.name, "--", "sh", "-c", "echo $A $B; df -k /dev/shm | tail -n 1", check=0)
        self.assertTrue(done.out.startswith("1 3\n"), done)
        self.assertIn(" 8192 ", done.out)

    def test_a_killed_caller_takes_its_command_along(self):
        self.up()
        marker = "8642" + str(int.from_bytes(os.urandom(3), "big"))
        process = subprocess.Popen(self.command("exec", self.name, "--", "sleep", marker), stdin=subprocess.DEVNULL, env=self.environment(), **self.account_of_caller())
        self.wait_for("the command", lambda: len(processes_with(marker)) > 1)
        process.kill()
        process.wait()
        self.wait_for("no command", lambda: not processes_with(marker))

    def test_what_was_changed_inside_survives_down_and_up_and_goes_with_rm(self):
        folder = self.project(requirements__txt="six\n", files={"extra/pyproject.toml": "[project]\nname='extra'\nversion='1'\n"})
        self.up(folder=folder)
        wheel = self.wheel()
        shutil.copy(wheel, folder / wheel.name)
        done = self.trail("exec", self.name, "--", "pip", "install", "--no-index", f"/workspace/{wheel.name}")
        self.assertEqual(done.code, 0, done)
        self.trail("exec", self.name, "--", "sh", "-c", "echo kept > /var/tmp/kept; echo secret > /opt/env/kept", check=0)
        self.trail("down", self.name, check=0)
        self.assertEqual(self.instance()["state"], "down")
        refused = self.trail("exec", self.name, "--", "true", check=125)
        self.assertIn(f"trail up -C {folder} {self.name}", refused.err)
        self.up(folder=folder)
        done = self.trail("exec", self.name, "--", "sh", "-c", "python -c 'import tiny; print(tiny.value)'; cat /var/tmp/kept /opt/env/kept", check=0)
        self.assertEqual(done.out, "42\nkept\nsecret\n")
        self.assert_ssh("echo the same host key", "the same host key\n")
        refused = self.trail("rm", self.name, check=1)
        self.assertIn(f"trail down {self.name}", refused.err)
        self.trail("down", self.name, check=0)
        self.trail("rm", self.name, check=0)
        self.assertFalse((self.home / "instances" / self.name).exists())
        self.assertNotIn(self.name, (self.home / "instances/ssh_config").read_text())
        self.up(folder=folder)
        self.assertEqual(self.trail("exec", self.name, "--", "python", "-c", "import tiny").code, 1)

    def wheel(self):
        """The smallest package that pip takes."""
        import zipfile
        path = self.folder / "tiny-1-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("tiny.py", "value = 42\n")
            archive.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
            archive.writestr("tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr("tiny-1.dist-info/RECORD", "tiny.py,,\ntiny-1.dist-info/METADATA,,\ntiny-1.dist-info/WHEEL,,\ntiny-1.dist-info/RECORD,,\n")
        os.chmod(path, 0o644)
        return path

    def test_a_package_of_the_image_can_be_replaced_and_the_image_stays(self):
        self.up()
        self.trail("exec", self.name, "--", "pip", "uninstall", "--yes", "six", check=0)
        self.assertEqual(self.trail("exec", self.name, "--", "python", "-c", "import six").code, 1)
        image = self.instance()["image"]
        self.trail("run", "--image", image, "--", "python", "-c", "import six", cwd=self.folder / "project", check=0)

    def instance(self):
        return next(each for each in self.trail("ps", "--instances", "--json", check=0).json["instances"] if each["name"] == self.name)

    def test_up_of_one_that_is_up_says_so(self):
        self.up()
        run = self.instance()["run"]
        self.assertIn("for other options", self.up("--env", "A=1").err)
        again = self.up()
        self.assertNotIn("for other options", again.err)
        self.assertIn(f"{self.name} is up already", again.err)
        self.assertEqual(self.instance()["run"], run)
        self.assertIn(self.name, self.trail("ps", check=0).out)

    def test_a_name_of_another_folder_is_refused_with_that_folder(self):
        self.up()
        other = self.project("other", requirements__txt="six\n")
        refused = self.trail("up", self.name, cwd=other, check=1)
        self.assertIn(f"{self.name} is the instance of {self.folder}/project", refused.err)

    def test_a_changed_lock_is_told_and_renewing_takes_it(self):
        folder = self.project(requirements__txt="six\n")
        self.up(folder=folder)
        image = self.instance()["image"]
        self.trail("down", self.name, check=0)
        (folder / "requirements.txt").write_text("six==1.16.0\nidna\n")
        self.trail("lock", cwd=folder, check=0)
        told = self.up(folder=folder)
        self.assertIn(f"trail up --renew {self.name}", told.err)
        self.assertEqual(self.instance()["image"], image)
        self.trail("down", self.name, check=0)
        self.up("--renew", folder=folder)
        self.assertNotEqual(self.instance()["image"], image)
        self.trail("exec", self.name, "--", "python", "-c", "import idna", check=0)

    def test_a_killed_supervisor_is_recovered_by_the_next_up(self):
        self.up()
        self.trail("exec", self.name, "--", "sh", "-c", "echo kept > /var/tmp/kept", check=0)
        pid = self.inspect(self.instance()["run"])["status"]["supervisor"]["pid"]
        os.kill(pid, signal.SIGKILL)
        self.up()
        self.assertEqual(self.trail("exec", self.name, "--", "cat", "/var/tmp/kept", check=0).out, "kept\n")
        self.assert_ssh("echo back", "back\n")

    def test_a_run_whose_id_was_not_written_down_any_more_is_found_again(self):
        self.up()
        run = self.instance()["run"]
        file = self.home / "instances" / self.name / "instance.json"
        record = json.loads(file.read_text())
        record["run"] = ""
        file.write_text(json.dumps(record))
        self.assertIn("is up already", self.up().err)
        self.assertEqual(self.instance()["run"], run)

    def test_killed_at_any_moment_it_can_be_started_again_and_has_lost_nothing(self):
        folder = self.project(requirements__txt="six\n")
        self.up(folder=folder)
        for round_number in range(12):
            self.trail("exec", self.name, "--", "sh", "-c", f"echo {round_number} >> /var/tmp/kept; sync /var/tmp/kept", check=0)
            self.trail("down", self.name, check=0)
            starting = subprocess.Popen(self.command("up", self.name), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**self.environment(), "STARTRAIL_SSH_CONFIG": str(self.ssh_config)}, **self.account_of_caller())
            time.sleep(0.01 * round_number)
            starting.kill()
            starting.wait()
            if round_number % 2:
                for pid in self.supervisors(folder):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    # Until it is dead, `up` may say with right that the instance is up.
                    self.wait_for("the supervisor's death", lambda pid=pid: not is_alive(pid), 30)
            self.up(folder=folder)
            done = self.trail("exec", self.name, "--", "cat", "/var/tmp/kept", check=0)
            self.assertEqual(done.out.split(), [str(number) for number in range(round_number + 1)])
            live = [run for run in self.trail("ps", "--json", check=0).json["runs"] if run["workspace"] == str(folder) and run["state"] == "running"]
            self.assertEqual(len(live), 1, live)

    def supervisors(self, folder):
        runs = self.trail("ps", "--json", check=0).json["runs"]
        live = [run["id"] for run in runs if run["workspace"] == str(folder) and run["state"] in ("queued", "preparing", "running")]
        return [pid for run in live for pid in processes_with(f"supervise {self.home}/runs/{run}")]

    def test_down_ends_open_sessions_at_once(self):
        self.up()
        shell = subprocess.Popen(["ssh", "-tt", "-F", str(self.ssh_config), self.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, env=self.environment(), **self.account_of_caller())
        self.addCleanup(self.end, shell)
        self.addCleanup(shell.stdin.close)
        shell.stdin.write(b"echo rea''dy\n")
        shell.stdin.flush()
        self.assertIn("ready", self.read_until(shell.stdout.fileno(), "ready"))
        began = time.monotonic()
        self.trail("down", self.name, check=0)
        self.assertLess(time.monotonic() - began, 10)
        shell.wait(timeout=10)

    def test_nonsense_on_its_socket_harms_nobody(self):
        self.up()
        for nonsense in (b"", b"x", os.urandom(24), b"\1\0\0\0" + b"\xff" * 20, b"\1\0\0\0" + b"\0" * 20, os.urandom(100_000)):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(self.home / "instances" / self.name / "inside/service"))
                try:
                    client.sendall(nonsense)
                except OSError:
                    pass
        self.assertEqual(self.trail("exec", self.name, "--", "echo", "fine", check=0).out, "fine\n")

    def test_nobody_else_can_reach_its_socket_or_keys(self):
        self.up()
        if os.geteuid() != 0:
            self.skipTest("only root can try as somebody else")
        folder = self.home / "instances" / self.name
        for path in ("inside/service", "client/id_ed25519", "server/host_key", "instance.json"):
            seen = subprocess.run(["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "test", "-e", str(folder / path)], check=False)
            self.assertEqual(seen.returncode, 1, path)
            self.assertTrue((folder / path).exists(), path)

    def test_pruning_spares_the_image_of_one_that_is_down(self):
        # Of its own: another test's run would spare it as well.
        folder = self.project(requirements__txt="six==1.14.0\n")
        self.up(folder=folder)
        self.trail("down", self.name, check=0)
        image = self.instance()["image"]
        used = self.home / "store/images" / image.removeprefix("sha256:") / "used"

        def would_go():
            os.utime(used, (time.time() - 7200, time.time() - 7200))
            return image in self.trail("image", "prune", "--dry-run", "--unused", "1h", "--json", check=0).out

        self.assertFalse(would_go())
        self.trail("rm", self.name, check=0)
        self.assertTrue(would_go())

    def test_down_lets_a_training_save_itself(self):
        folder = self.project(requirements__txt="six\n", train__py=(
            "import pathlib, signal, time\n"
            "def save(*_):\n    pathlib.Path('/workspace/saved').write_text('state'); raise SystemExit\n"
            "signal.signal(signal.SIGTERM, save)\n"
            "pathlib.Path('/workspace/ready').touch()\n"
            "time.sleep(600)\n"))
        self.up(folder=folder)
        self.trail("exec", self.name, "--", "sh", "-c", "nohup python train.py >/dev/null 2>&1 &", check=0)
        self.wait_for("the training", lambda: (folder / "ready").exists())
        self.trail("down", self.name, check=0)
        self.assertEqual((folder / "saved").read_text(), "state")

    def test_trail_ssh_needs_no_line_in_the_users_configuration(self):
        self.up()
        self.ssh_config.unlink()
        done = self.trail("ssh", self.name, "--", "echo", "inside", check=0)
        self.assertEqual(done.out, "inside\n")


class InstancesOfAnOrdinaryUser(Instances):
    """The same, started by an account without privileges, with a state folder of its own."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("the tests run as an ordinary user already")
        cls.account = ordinary_user()
        if cls.account is None:
            raise unittest.SkipTest("no ordinary user and no useradd here")

    def prepare_account(self):
        self.home = SHARED_HOME.parent / "test-home-user"
        self.home.mkdir(parents=True, exist_ok=True)
        self.own(self.home)
        self.own(self.folder)
        for path in (TRAIL, self.home):
            if subprocess.run(["runuser", "-u", self.account.pw_name, "--", "test", "-r", str(path)], check=False).returncode != 0:
                self.skipTest(f"{self.account.pw_name} can't reach {path}")

    def account_of_caller(self):
        return {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []}

    def environment(self):
        return clean_environment(self.home, HOME=self.account.pw_dir, USER=self.account.pw_name, LOGNAME=self.account.pw_name)

    def project(self, *arguments, **options):
        folder = super().project(*arguments, **options)
        for path in (folder, *folder.rglob("*")):
            self.own(path)
        return folder

    def own(self, path):
        os.chown(path, self.account.pw_uid, self.account.pw_gid)


if __name__ == "__main__":
    main()
