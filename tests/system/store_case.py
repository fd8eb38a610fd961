"""What the suites that break the store on purpose share: wheels at a local server, and a state folder of their own."""

import hashlib
import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from trail_case import TRAIL, TrailCase, clean_environment, index_is_reachable
from wheel_server import WheelServer, fetch_wheels, lock_for

PACKAGES = "pillow\nlxml\npyyaml\nclick\nidna\nmarkupsafe\n"
CHUNK = 1 << 20  # of a journal: base/arriving_file.hpp


class StoreCase(TrailCase):
    """Wheels of the package index, fetched once a suite; every build goes to a local server."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not index_is_reachable():
            raise unittest.SkipTest("the package index cannot be reached, and these tests need its wheels")
        folder = Path(tempfile.mkdtemp(prefix="trail-wheels."))
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        (folder / "requirements.txt").write_text(PACKAGES)
        subprocess.run([TRAIL, "lock", "."], cwd=folder, env=clean_environment(), check=True, capture_output=True)
        cls.real_lock = (folder / "pylock.trail.toml").read_text()
        cls.wheels = fetch_wheels(cls.real_lock)
        cls.sizes = {name: len(content) for name, content in cls.wheels.items()}
        cls.digests = {name: hashlib.sha256(content).hexdigest() for name, content in cls.wheels.items()}
        cls.total = sum(cls.sizes.values())

    def setUp(self):
        super().setUp()
        self.home = self.folder / "home"
        self.store = self.home / "store"
        self.make_base()

    def make_base(self):
        """A base of one empty folder: these tests are about wheels, and verifying a real base each time would take all
        their time. Bases have tests of their own."""
        digest = hashlib.sha256(b"dir 755 usr \n").hexdigest()
        folder = self.store / "bases" / digest
        (folder / "root/usr").mkdir(parents=True)
        (folder / "root/usr").chmod(0o755)
        (folder / "meta.json").write_text(json.dumps({"digest": digest, "size": 1}))
        recipe = re.search(r'base-recipe = "(\w+)"', self.real_lock)[1]
        (self.store / "bases" / f"recipe-{recipe}").write_text(digest + "\n")

    def serve(self, decide=None, rate=None, files=None):
        server = WheelServer(self.wheels if files is None else files, decide, rate)
        self.addCleanup(server.close)
        return server

    def lock_file(self, server, **options):
        # A wheel that can't be had where the lock says is looked up in the index: the real one must not help out here.
        environment = mock.patch.dict(os.environ, UV_DEFAULT_INDEX=f"{server.address}/simple/")
        environment.start()
        self.addCleanup(environment.stop)
        file = self.folder / "pylock.test.toml"
        file.write_text(lock_for(self.real_lock, server, **options))
        return file

    def start_build(self, lock):
        return self.start("image", "build", "--lock", lock)

    def build(self, lock, check=0, **options):
        done = self.trail("image", "build", "--lock", lock, check=check, **options)
        self.wait_for_background()
        return done

    def wait_for_background(self):
        """Bytecode is compiled by a process of its own after a build: with this base it ends at once, but on a busy machine
        it has to be given a turn, for it runs in idle time only."""
        self.wait_for("the background process to end", self.no_background_left, 60)

    def no_background_left(self):
        processes = self.background()
        for process in processes:
            try:
                os.sched_setscheduler(process, os.SCHED_OTHER, os.sched_param(0))
                os.setpriority(os.PRIO_PROCESS, process, 0)
            except OSError:
                pass  # ended, or we may not
        return not processes

    def background(self):
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and b"\0bytecode\0" in (entry / "cmdline").read_bytes() and \
                        f"STARTRAIL_HOME={self.home}\0".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def kill_group(self, process):
        """SIGKILL for trail and all its children at once."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def empty_store(self):
        for name in ("wheels", "images", "bytecode", "staging", "downloads", "built", "locks"):
            shutil.rmtree(self.store / name, ignore_errors=True)

    def assert_clean(self, note=""):
        done = self.trail("image", "verify-store")
        self.assertEqual(done.code, 0, f"{note}\n{done}")

    def assert_one_error(self, done, *says, code=1):
        self.assertEqual(done.code, code, done)
        self.assertEqual(done.err.count("error:"), 1, done)
        for text in says:
            self.assertIn(text, done.err)

    def arrived(self):
        """{wheel: ranges that are in the store}, by the journals of the parts and the finished trees."""
        there = {}
        for name, digest in self.digests.items():
            journal = self.store / "downloads" / f"{digest}.part.journal"
            if (self.store / "wheels" / f"{digest}.v1" / "meta.json").exists():
                there[name] = [(0, self.sizes[name])]
            elif journal.exists() and len(data := journal.read_bytes()) > 24:
                counters = struct.unpack(f"<{(len(data) - 24) // 4}I", data[24:])
                there[name] = [(index * CHUNK, index * CHUNK + count) for index, count in enumerate(counters) if count]
        return there

    def asked_again(self, server, there):
        """What was asked for although it had arrived."""
        return [(request.name, request.begin, request.end) for request in server.requests
                for begin, end in there.get(request.name, ()) if request.begin < end and begin < request.end]
