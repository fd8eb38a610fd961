"""Whatever is wrong, there is one clear error that names it, and nothing is lost."""

import os
import sqlite3
import subprocess
import unittest

from trail_case import TrailCase, clean_environment, main, ordinary_user


class BadInput(TrailCase):
    def refused(self, *arguments, code=1, says=(), **options):
        done = self.trail(*arguments, **options)
        self.assertEqual(done.code, code, done)
        self.assertEqual(done.err.count("error:"), 1, done)
        self.assertNotIn("Traceback", done.err)
        self.assertNotIn("terminate called", done.err)
        for text in says:
            self.assertIn(text, done.err)
        return done

    def test_a_folder_that_is_not_there(self):
        self.refused("lock", "nowhere", says=("nowhere",))

    def test_a_file_instead_of_a_folder(self):
        (self.folder / "file").write_text("x")
        self.refused("lock", "file", says=("file",))

    def test_an_empty_folder(self):
        self.refused("run", code=125, cwd=self.project(), says=("hint:",))

    def test_wrong_flags(self):
        self.refused("run", "--no-such-flag", "--", "true", code=2, says=("--no-such-flag",))
        self.refused("frobnicate", code=2, says=("frobnicate",))
        self.refused("rnu", code=2, says=("run",))

    def test_wrong_values(self):
        folder = self.project(requirements__txt="six\n")
        for option, value in (("--memory", "lots"), ("--memory", "0"), ("--cpus", "-1"), ("--pids", "0"), ("--env", "=1"),
                              ("--env", "NO SUCH NAME=1"), ("--env", "TRAIL_RUN_ID=another"), ("--mount", "/nowhere-at-all:/x"), ("--mount", "nonsense"), ("--network", "maybe"), ("--gpus", "banana"), ("--env-file", "missing.env")):
            done = self.trail("run", option, value, "--", "true", cwd=folder)
            self.assertIn(done.code, (1, 2, 125), (option, value, str(done)))
            self.assertIn("error:", done.err)
            self.assertIn(value.split(":")[0], done.err)

    def test_a_line_that_is_not_a_requirement_is_named(self):
        folder = self.project(requirements__txt="six\n\ntorch~=1.12.1+cu113\n")
        self.refused("lock", ".", cwd=folder, says=("requirements.txt:3", "hint:"))

    def test_garbage_in_every_file_we_read(self):
        for name in ("requirements.txt", "pyproject.toml", "environment.yml", "Pipfile", "uv.lock", "pylock.toml", "trail.toml", "setup.py", "setup.cfg"):
            folder = self.project("garbage-" + name)
            (folder / name).write_bytes(os.urandom(2000))
            done = self.trail("lock", ".", "--dry-run", cwd=folder)
            self.assertIn(done.code, (1,), (name, str(done)))
            self.assertIn("error:", done.err, name)

    def test_a_package_that_does_not_exist(self):
        folder = self.project(requirements__txt="six\na-package-that-surely-is-not-there==1.0\n")
        self.refused("lock", ".", cwd=folder, says=("a-package-that-surely-is-not-there", "requirements.txt:2"))
        done = self.trail("lock", ".", "--json", cwd=folder, check=1)
        self.assertTrue(done.json["reason"])
        self.assertTrue(done.json["hints"])
        self.assertFalse((folder / "pylock.trail.toml").exists())

    def test_a_run_that_is_not_there(self):
        for verb in ("logs", "inspect", "stop", "wait", "rerun"):
            self.refused(verb, "no-such-run", says=("no-such-run",))

    def test_a_corrupt_database_is_rebuilt_from_the_runs(self):
        folder = self.project(requirements__txt="six\n")
        home = self.folder / "home"
        home.mkdir()
        (home / "store").symlink_to(self.home / "store")
        (home / "tools").symlink_to(self.home / "tools") if (self.home / "tools").exists() else None
        run = self.trail("run", "--json", "--", "true", cwd=folder, home=home, check=0).json["id"]
        for damage in (b"this is not a database" * 400, b""):
            for extra in home.glob("state.db-*"):
                extra.unlink()
            (home / "state.db").write_bytes(damage)
            listed = self.trail("ps", "--all", "--json", home=home, check=0)
            self.assertEqual([entry["id"] for entry in listed.json["runs"]], [run], listed)
        self.assertTrue(list(home.glob("state.db.corrupt-*")))
        sqlite3.connect(home / "state.db").execute("select count(*) from run").fetchone()

    def test_an_unreadable_folder(self):
        folder = self.project(requirements__txt="six\n")
        folder.chmod(0)
        self.addCleanup(folder.chmod, 0o755)
        options = {}
        if os.geteuid() == 0:  # who reads everything
            user = ordinary_user()
            if user is None:
                self.skipTest("there is no ordinary user to be")
            home = self.folder / "home"
            home.mkdir()
            os.chown(home, user.pw_uid, user.pw_gid)
            options = {"home": home, "user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "env": {"HOME": user.pw_dir}}
        self.refused("lock", str(folder), says=(str(folder),), **options)

    def test_trail_toml_may_not_set_what_the_run_itself_sets(self):
        for line, says in (('TRAIL_RUN_ID = "another"', "TRAIL_RUN_ID"), ('"A B" = "1"', "A B"), ('"A=B" = "1"', "A=B"), ('A = "1\\u0000"', "NUL")):
            folder = self.project(requirements__txt="six\n", trail__toml=f"[run.env]\n{line}\n")
            self.refused("run", "--", "true", code=125, cwd=folder, says=("trail.toml:2", says))

    def test_a_pipe_in_place_of_the_lock_is_not_waited_for(self):
        folder = self.project(requirements__txt="six\n")
        os.mkfifo(folder / "pylock.trail.toml")
        self.refused("lock", ".", cwd=folder, timeout=30, says=("pylock.trail.toml", "not a file"))

    def test_an_interpreters_own_modules_are_no_packages(self):
        folder = self.project(main__py="try:\n    import __pypy__\nexcept ImportError:\n    import six\nimport _winapi\n")
        done = self.trail("lock", ".", "--json", cwd=folder, check=0)
        self.assertEqual([package["name"] for package in done.json["packages"]], ["six"])

    def test_an_output_that_can_not_be_written_is_no_success(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run(self.command("ps", "--all"), env=clean_environment(self.home), stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"standard output", done.stderr)

    def test_names_with_spaces_and_utf8(self):
        folder = self.project("mein projekt – 学習", requirements__txt="six\n")
        (folder / "zug ü.py").write_text("print('läuft')\n")
        self.assertEqual(self.trail("run", "--", "python", "zug ü.py", cwd=folder, check=0).out, "läuft\n")

    def test_a_read_only_folder_still_runs(self):
        folder = self.project(requirements__txt="six\n")
        self.trail("lock", ".", cwd=folder, check=0)
        before = sorted(path.name for path in folder.iterdir())
        if os.geteuid() == 0:
            subprocess.run(["mount", "--bind", folder, folder], check=True)
            # The supervisor gives the folder back a moment after it has told the end.
            self.addCleanup(self.wait_for, "the folder is free", lambda: subprocess.run(["umount", folder], capture_output=True, check=False).returncode == 0)
            subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        else:
            folder.chmod(0o555)
        with self.assertRaises(OSError):
            (folder / "probe").write_text("x")
        self.assertEqual(self.trail("run", "--", "python", "-c", "import six; print(six.__name__)", cwd=folder, check=0).out, "six\n")
        self.assertEqual(sorted(path.name for path in folder.iterdir()), before)

    def test_a_damaged_lock_is_named(self):
        folder = self.project(requirements__txt="six\n", pylock__trail__toml="lock-version = '9.0'\n")
        done = self.trail("image", "build", "--lock", "pylock.trail.toml", cwd=folder)
        self.assertEqual(done.code, 1, done)
        self.assertIn("pylock.trail.toml", done.err)

    def test_state_that_can_not_be_written(self):
        done = self.trail("ps", env={"STARTRAIL_HOME": "/proc/nowhere"})
        self.assertEqual(done.code, 1, done)
        self.assertIn("/proc/nowhere", done.err)
        done = self.trail("ps", env={"STARTRAIL_HOME": "relative"})
        self.assertEqual(done.code, 1, done)


if __name__ == "__main__":
    main()
