"""`trail lock` and `trail image`: what scripts rely on, and a store that notices damage."""

import os
import shutil
import subprocess
import time
import unittest
from pathlib import Path

from trail_case import TrailCase, clean_environment, main


class Images(TrailCase):
    def build(self, requirements="six\n", home=None):
        folder = self.project(requirements__txt=requirements)
        self.trail("lock", ".", cwd=folder, check=0, home=home)
        done = self.trail("image", "build", "--lock", "pylock.trail.toml", cwd=folder, check=0, home=home)
        return folder, done.out.strip()

    def own_home(self):
        """A state folder of its own, with the shared bases and tools as hard links: what is pruned here stays there."""
        home = self.folder / "home"
        (home / "store").mkdir(parents=True)
        self.trail("run", "--", "true", cwd=self.project("warm", requirements__txt="six\n"), check=0)
        for name in ("store/bases", "tools"):
            if (self.home / name).exists():
                subprocess.run(["cp", "-al", self.home / name, home / name], check=True)
        return home

    def test_the_same_lock_is_the_same_image(self):
        folder, image = self.build()
        self.assertRegex(image, r"^sha256:[0-9a-f]{64}$")
        again = self.trail("image", "build", "--lock", "pylock.trail.toml", "--json", cwd=folder, check=0)
        self.assertEqual(again.json["id"], image)
        listed = self.trail("image", "list", "--json", check=0).json["images"]
        self.assertIn(image, [entry["id"] for entry in listed])
        packages = self.trail("image", "inspect", image, "--json", check=0).json["packages"]
        self.assertIn("six", [package["name"] for package in packages])
        self.assertEqual(self.trail("run", "--image", image, "--", "python", "-c", "import six; print(six.__name__)", cwd=folder, check=0).out, "six\n")

    def test_a_lock_is_reused_until_its_inputs_change(self):
        folder = self.project(requirements__txt="six<1.17\n")
        self.trail("lock", ".", cwd=folder, check=0)
        before = (folder / "pylock.trail.toml").read_text()
        self.trail("run", "--", "true", cwd=folder, check=0)
        (folder / "new.py").write_text("x = 1\n")
        self.trail("run", "--", "true", cwd=folder, check=0)
        pins = [line for line in before.splitlines() if line.startswith("version")]
        self.assertEqual([line for line in (folder / "pylock.trail.toml").read_text().splitlines() if line.startswith("version")], pins)
        (folder / "requirements.txt").write_text("six<1.17\nidna\n")
        self.trail("run", "--", "python", "-c", "import idna", cwd=folder, check=0)
        self.assertIn("idna", (folder / "pylock.trail.toml").read_text())

    def test_dry_run_writes_nothing(self):
        folder = self.project(requirements__txt="six\n")
        done = self.trail("lock", ".", "--dry-run", "--json", cwd=folder, check=0)
        self.assertIn("six", [package["name"] for package in done.json["packages"]])
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["requirements.txt"])

    def test_an_sdist_is_built_once_in_the_sandbox(self):
        # The build itself notes what it saw, and a number that no second build would draw again.
        marker = self.folder / "marker-of-the-host"
        marker.write_text("seen")
        sources = self.folder / "told-1.0"
        sources.mkdir()
        (sources / "pyproject.toml").write_text("[build-system]\nrequires = ['setuptools>=61']\nbuild-backend = 'setuptools.build_meta'\n"
                                                "[project]\nname = 'told'\nversion = '1.0'\n[tool.setuptools]\npy-modules = ['told']\n")
        (sources / "setup.py").write_text("import os\nfrom setuptools import setup\n"
                                          f"facts = (os.urandom(8).hex(), os.path.exists({str(marker)!r}), os.getuid())\n"
                                          "open('told.py', 'w').write(f'FACTS = {facts!r}\\n')\nsetup()\n")
        (sources / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: told\nVersion: 1.0\n")
        archive = self.folder / "told-1.0.tar.gz"
        subprocess.run(["tar", "-C", self.folder, "-czf", archive, "told-1.0"], check=True)
        facts = []
        for name in ("first", "second"):
            folder = self.project(name, requirements__txt="./told-1.0.tar.gz\n")
            shutil.copy(archive, folder)
            done = self.trail("run", "--", "python", "-c", "import told; print(*told.FACTS)", cwd=folder, check=0)
            facts.append(done.out.split())
        self.assertEqual(facts[0], facts[1], "built twice")
        _, saw_the_host, uid = facts[0]
        self.assertEqual(saw_the_host, "False")
        self.assertNotEqual(uid, "0")

    def test_an_image_is_not_pruned_under_a_run_in_preparation(self):
        home = self.own_home()
        folder, image = self.build(home=home)
        # The snapshot waits for git, the run for the snapshot, and a prune comes in between.
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        slow, asked = self.folder / "slow", self.folder / "git-was-asked"
        slow.mkdir()
        (slow / "git").write_text(f"#!/bin/sh\ncase \"$*\" in *ls-files*) touch {asked}; sleep 4;; esac\nexec {shutil.which('git')} \"$@\"\n")
        (slow / "git").chmod(0o755)
        run = subprocess.Popen(self.command("run", "--", "python", "-c", "import six; print(six.__name__)"), cwd=folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(home, PATH=f"{slow}:{os.environ['PATH']}"))
        self.addCleanup(self.end, run)
        self.wait_for("the snapshot", asked.exists)
        time.sleep(1)  # until all but the snapshot is ready
        stamps = home / "store/images" / image.removeprefix("sha256:")
        for stamp in stamps.iterdir():
            os.utime(stamp, (1, 1), follow_symlinks=False)
        self.trail("image", "prune", "--all", home=home, check=0)
        out, err = run.communicate(timeout=60)
        self.assertEqual((run.returncode, out), (0, b"six\n"), err.decode())

    def test_a_project_that_installs_itself_in_editable_mode(self):
        folder = self.project(requirements__txt="-e .\n", files={"src/mine/__init__.py": "VALUE = 1\n"}, pyproject__toml=(
            "[build-system]\nrequires = ['setuptools>=61']\nbuild-backend = 'setuptools.build_meta'\n"
            "[project]\nname = 'mine'\nversion = '1.0'\ndependencies = ['six']\n[tool.setuptools.packages.find]\nwhere = ['src']\n"))
        code = "import mine, six; print(mine.VALUE)"
        self.assertEqual(self.trail("run", "--", "python", "-c", code, cwd=folder, check=0).out, "1\n")
        (folder / "src/mine/__init__.py").write_text("VALUE = 2  # of another size: Python tells sources of one second by that\n")
        self.assertEqual(self.trail("run", "--", "python", "-c", code, cwd=folder, check=0).out, "2\n")

    def test_a_flipped_byte_is_found(self):
        home = self.own_home()
        self.build(home=home)
        self.trail("image", "verify-store", home=home, check=0)
        victim = next(path for path in (home / "store").rglob("six.py") if "wheels" in path.parts)
        data = bytearray(victim.read_bytes())
        data[100] ^= 1
        victim.chmod(0o644)
        with open(victim, "r+b") as file:
            file.write(data)
        done = self.trail("image", "verify-store", home=home)
        self.assertEqual(done.code, 1, done)
        self.assertIn("six.py", done.out + done.err)

    def test_after_a_power_cut_the_next_run_checks_the_store_and_goes_on(self):
        home = self.own_home()
        notes = home / "store/unsynced" / f"{os.uname().nodename}.11111111-2222-3333-4444-555555555555"
        notes.mkdir(parents=True)
        (notes / "wheels@some").touch()
        done = self.trail("run", "--", "python", "-c", "import six; print(6)", cwd=self.project("warm", requirements__txt="six\n"), home=home, check=0)
        self.assertEqual(done.out, "6\n")
        self.assertIn("went down", done.err)
        self.assertFalse(notes.exists())

    def test_prune_removes_what_nothing_uses(self):
        home = self.own_home()
        _, image = self.build(home=home)
        stamps = home / "store/images" / image.removeprefix("sha256:")

        def pruned():
            # An image that was opened within a minute is kept: its run may be about to start. Compiling bytecode opens it too.
            for stamp in stamps.iterdir() if stamps.exists() else ():
                os.utime(stamp, (1, 1), follow_symlinks=False)
            self.trail("image", "prune", "--all", home=home, check=0)
            return self.trail("image", "list", "--json", home=home, check=0).json["images"] == []

        self.wait_for("no image left", pruned)

    def test_a_driver_too_old_is_refused_in_under_a_second_and_offline(self):
        fake = Path(self.command()[0]).parent / "fakes/libnvidia-ml.so.1"
        root = self.folder / "host"
        (root / "proc/driver/nvidia").mkdir(parents=True)
        (root / "proc/driver/nvidia/version").write_text(
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\nGCC version:  gcc\n")
        folder = self.project(requirements__txt="# new\n\ntorch==2.13.0\n")
        environment = {"STARTRAIL_HOST_ROOT": str(root), "STARTRAIL_NVML": str(fake) if fake.exists() else "none", "https_proxy": "http://127.0.0.1:9"}
        began = os.times().elapsed
        done = self.trail("lock", ".", "--json", cwd=folder, env=environment, check=1)
        self.assertLess(os.times().elapsed - began, 1.0)
        for text in ("580", "535.183"):
            self.assertIn(text, done.json["reason"])
        self.assertIn("requirements.txt:3", str(done.json))
        self.assertIn("torch==2.10", str(done.json["hints"]))


if __name__ == "__main__":
    main()
