"""kill -9, two builders, a full disk: the next call completes, the store is whole, and nothing is fetched twice."""

import ctypes
import os
import random
import subprocess
import threading
import time
import unittest

from store_case import StoreCase
from trail_case import main

KILLS = 50


class CrashSafety(StoreCase):
    def test_a_build_killed_at_any_moment_is_finished_by_the_next(self):
        # The rate makes the build last long enough for the moments to differ; what is asserted doesn't depend on it.
        server = self.serve(rate=30_000_000)
        lock = self.lock_file(server)
        began = time.monotonic()
        image = self.build(lock).out
        length = time.monotonic() - began
        seed = random.randrange(1 << 32)
        moments = random.Random(seed)
        met = {"arriving": 0, "unpacked": 0}
        for number in range(KILLS):
            self.empty_store()
            moment = moments.uniform(0, length)
            note = f"kill {number} after {moment:.3f} s of {length:.3f}, seed {seed}"
            build = self.start_build(lock)
            time.sleep(moment)
            self.kill_group(build)
            self.wait_for_background()
            there = self.arrived()
            met["arriving"] += any((self.store / "downloads").glob("*.part")) if (self.store / "downloads").exists() else 0
            met["unpacked"] += len(there) > 0
            server.forget()
            self.assertEqual(self.build(lock).out, image, note)
            self.assertEqual(self.asked_again(server, there), [], note)
            self.assert_clean(note)
        # Otherwise all kills came before or after what they are about.
        self.assertGreater(met["arriving"], KILLS // 10, met)
        self.assertGreater(met["unpacked"], KILLS // 10, met)

    def test_two_builds_of_one_lock_share_the_work(self):
        server = self.serve(rate=20_000_000)
        lock = self.lock_file(server)
        builds = [self.start_build(lock) for _ in range(2)]
        outputs = [build.communicate(timeout=120) for build in builds]
        self.assertEqual([build.returncode for build in builds], [0, 0], outputs)
        self.assertEqual(outputs[0][0], outputs[1][0])
        self.wait_for_background()
        self.assertEqual(server.sent(), self.total)
        self.assert_clean()

    def test_a_build_takes_over_from_one_that_is_killed(self):
        server = self.serve(rate=10_000_000)
        lock = self.lock_file(server)
        first = self.start_build(lock)
        self.wait_for("bytes on their way", lambda: server.sent() > self.total // 4)
        second = self.start_build(lock)
        time.sleep(0.3)
        self.assertIsNone(first.poll(), "the first build was to be at work still")
        self.kill_group(first)
        there = self.arrived()
        out, err = second.communicate(timeout=120)
        self.assertEqual(second.returncode, 0, err)
        self.assertTrue(there)
        self.wait_for_background()
        # What the killed build had been sent but had not written yet is fetched again: buffers of sockets and streams.
        self.assertLess(server.sent() - self.total, 16 * 3_000_000)
        self.assertIn("sha256:", out.decode())
        self.assert_clean()


class Repair(StoreCase):
    def test_a_damaged_store_is_repaired_and_the_next_build_fetches_what_went(self):
        server = self.serve()
        lock = self.lock_file(server)
        image = self.build(lock).out.strip()
        victim = next(path for path in (self.store / "wheels").rglob("click/core.py"))
        victim.chmod(0o644)
        victim.write_bytes(victim.read_bytes()[:-1] + b"X")
        victim.chmod(0o444)
        self.assertIn("click/core.py", self.trail("image", "verify-store", check=1).out)
        folder = self.store / "images" / image.removeprefix("sha256:")
        os.utime(folder / "used", (1, 1))  # an image that was used some seconds ago would be left alone
        done = self.trail("image", "verify-store", "--repair", "--json", check=0)
        self.assertEqual(done.json["images_removed"], [folder.name])
        self.assertTrue(all(fault["repaired"] for fault in done.json["faults"]))
        self.assert_clean()
        server.forget()
        self.assertEqual(self.build(lock).out.strip(), image)
        self.assertEqual({request.name.split("-")[0] for request in server.requests}, {"click"})
        self.assert_clean()


class FullDisk(StoreCase):
    """A state folder on a small filesystem, mounted where only this process and its children see it."""

    @classmethod
    def setUpClass(cls):
        new_namespace = 0x00020000  # CLONE_NEWNS, sched.h
        if os.geteuid() != 0:
            raise unittest.SkipTest("mounting a small filesystem needs root")
        super().setUpClass()
        if ctypes.CDLL(None, use_errno=True).unshare(new_namespace) != 0:
            raise unittest.SkipTest(f"no mount namespace of its own: {os.strerror(ctypes.get_errno())}")
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)

    def setUp(self):
        super().setUp()
        self.addCleanup(subprocess.run, ["umount", "--lazy", self.home], check=False)
        self.limit("120m")
        self.make_base()

    def limit(self, size):
        if os.path.ismount(self.home):
            subprocess.run(["mount", "-o", f"remount,size={size}", self.home], check=True)
        else:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.home], check=True)

    def fill(self, leaving):
        disk = os.statvfs(self.home)
        size = disk.f_bavail * disk.f_frsize - leaving
        with open(self.home / "ballast", "wb") as file:
            os.posix_fallocate(file.fileno(), 0, size)

    def filling(self, leaving):
        """The first request fills the disk; no byte is sent before that is done."""
        filled = threading.Event()

        def decide(request):
            if request.number == 1:
                self.fill(leaving)
                filled.set()
            filled.wait(60)

        return decide

    def test_too_little_space_is_told_before_the_first_byte(self):
        self.limit("60m")
        server = self.serve()
        done = self.build(self.lock_file(server), check=1)
        self.assert_one_error(done, "of disk", "are free", "hint:")
        self.assertEqual(server.requests, [])
        self.assert_clean()

    def test_a_disk_that_fills_up_meanwhile_is_told_and_loses_nothing(self):
        for leaving in (3_000_000, 12_000_000, 25_000_000):  # while arriving, and while unpacking
            with self.subTest(leaving=leaving):
                self.empty_store()
                (self.home / "ballast").unlink(missing_ok=True)
                server = self.serve(self.filling(leaving), rate=30_000_000)
                lock = self.lock_file(server)
                done = self.build(lock, check=1)
                self.assert_one_error(done, "No space left", "needs", "are free", "hint:")
                self.assert_clean("right after the failure")
                self.assertEqual(list((self.store / "images").iterdir()), [])
                there = self.arrived()
                (self.home / "ballast").unlink()
                server.forget()
                server.decide = lambda request: None
                self.build(lock)
                self.assertEqual(self.asked_again(server, there), [])
                self.assert_clean()

    def test_a_disk_without_a_byte_left_is_told_once_by_every_command(self):
        folder = self.project(requirements__txt="six\n")
        self.fill(0)
        for command in (("ps",), ("run", "--", "true"), ("image", "list"), ("lock", ".")):
            done = self.trail(*command, cwd=folder)
            if done.code != 0:
                self.assertIn(done.code, (1, 125), done)
                self.assertEqual(done.err.count("error:"), 1, done)
                self.assertRegex(done.err, "space|full|free", done)
        (self.home / "ballast").unlink()
        self.trail("ps", check=0)
        self.assert_clean()


if __name__ == "__main__":
    main()
