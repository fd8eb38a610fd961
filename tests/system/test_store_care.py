"""The store's care: what prune leaves alone, what du tells, and one store for all users of a machine."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import unittest

from local_wheel import write_wheel
from trail_case import SHARED_HOME, TRAIL, Finished, TrailCase, clean_environment, main, ordinary_user

OFFLINE = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
# Found in the environment, so that this package is what runs, whoever's store it lies in.
CODE = "import markupsafe; print(markupsafe.__file__)"
# Whoever may change anything below the folder that is named says what.
CHANGE_ALL = """
import os, sys
for folder, folders, files in os.walk(sys.argv[1]):
    for path in [folder] + [os.path.join(folder, name) for name in folders + files]:
        for what, change in (("write", lambda: os.close(os.open(path, os.O_WRONLY))), ("chmod", lambda: os.chmod(path, 0o777)),
                             ("rename", lambda: os.rename(path, path + "-mine")), ("link", lambda: os.symlink("/", path + "/mine"))):
            if os.path.islink(path) and what != "rename" or what == "link" and not os.path.isdir(path):
                continue
            try:
                change()
                print(what, path)
            except OSError:
                pass
"""
# A machine on which root's state folder is this one, for this process alone.
WITH_ROOTS_HOME = 'mount -t tmpfs none /var/lib && mkdir /var/lib/startrail && mount --bind "$0" /var/lib/startrail && exec "$@"'
SITE = "/opt/env/lib/python3.11/site-packages"


def disk_of(folder):
    """Bytes that the disk has of it, hard links once."""
    return int(subprocess.run(["du", "-s", "-B1", folder], check=True, capture_output=True, text=True).stdout.split()[0])


class CareCase(TrailCase):
    def home_with_bases(self, name):
        """A state folder of its own, with the shared bases and tools as hard links."""
        self.trail("run", "--", "true", cwd=self.project("warm", requirements__txt="six\n"), home=SHARED_HOME, check=0)
        home = self.folder / name
        (home / "store").mkdir(parents=True)
        for part in ("store/bases", "tools"):
            if (SHARED_HOME / part).exists():
                subprocess.run(["cp", "-al", SHARED_HOME / part, home / part], check=True)
        return home

    @staticmethod
    def age(home):
        for image in (home / "store/images").iterdir():
            for stamp in image.iterdir():
                os.utime(stamp, (1, 1), follow_symlinks=False)

    def images(self, home):
        return [image["id"] for image in self.trail("image", "list", "--json", home=home, check=0).json["images"]]


class PruneAndDu(CareCase):
    def setUp(self):
        super().setUp()
        self.home = self.home_with_bases("home")

    def test_keeping_nothing_leaves_the_image_of_a_live_run(self):
        run = self.run_in_background(self.project(requirements__txt="six\n"), "sleep", "600")
        self.wait_for("the run to run", lambda: self.state(run) == "running", 120)
        image = self.inspect(run)["image"]["id"] if isinstance(self.inspect(run).get("image"), dict) else self.images(self.home)[0]
        self.age(self.home)
        told = self.trail("image", "prune", "--keep", "0", "--dry-run", "--json", check=0).json
        self.assertEqual(told["image_ids"], [])
        self.trail("image", "prune", "--keep", "0", check=0)
        self.assertIn(image, self.images(self.home))
        self.assertEqual(self.state(run), "running")
        self.trail("stop", "--now", run, check=0)

        def pruned():
            self.age(self.home)  # compiling bytecode uses it too
            self.trail("image", "prune", "--keep", "0", check=0)
            return self.images(self.home) == []

        self.wait_for("no image left", pruned, 60)
        self.assertEqual(list((self.home / "store/wheels").iterdir()), [])

    def test_du_is_what_du_says(self):
        for package in ("six", "idna"):
            self.trail("run", "--", "true", cwd=self.project(package, requirements__txt=f"{package}\n"), check=0)

        def agrees():
            before = disk_of(self.home / "store")
            self.told = self.trail("image", "du", "--json", check=0).json
            return before == disk_of(self.home / "store") == self.told["total_bytes"]

        self.wait_for("du to say the same", agrees, 60)  # bytecode arrives meanwhile
        self.assertEqual(len(self.told["images"]), 2)
        for image in self.told["images"]:
            self.assertGreater(image["shared_bytes"], 100e6, "the base")
            self.assertLess(image["own_bytes"], 20e6)


class SystemStore(CareCase):
    """root's store, and a user who takes from it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root, to be two users")
        cls.user = ordinary_user()
        if cls.user is None:
            raise unittest.SkipTest("no ordinary user and no useradd here")

    def setUp(self):
        super().setUp()
        if subprocess.run(["runuser", "-u", self.user.pw_name, "--", "test", "-x", str(TRAIL)], check=False).returncode:
            self.skipTest(f"{self.user.pw_name} can't reach {TRAIL}")
        self.system = self.home_with_bases("system")
        self.work = self.project("work", requirements__txt="markupsafe\n")
        write_wheel(self.work)
        self.trail("lock", ".", cwd=self.work, home=self.system, check=0)
        self.image = self.trail("image", "build", "--lock", "pylock.trail.toml", cwd=self.work, home=self.system, check=0).out.strip()
        self.wait_for("bytecode", lambda: (self.stored_image() / "bytecode").exists(), 120)
        self.user_home = self.folder / "user"
        self.user_home.mkdir()
        for path in (self.user_home, self.work, *self.work.rglob("*")):
            os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def stored_image(self):
        return self.system / "store/images" / self.image.removeprefix("sha256:")

    def base_size(self):
        manifest = json.loads((self.stored_image() / "manifest.json").read_text())
        return disk_of(self.system / "store/bases" / manifest["base"]["digest"])

    def shared_json(self):
        return self.user_home / "store/images" / self.image.removeprefix("sha256:") / "shared.json"

    def as_user(self, *arguments, check=None, before=(), **environment):
        given = clean_environment(self.user_home, HOME=str(self.user_home), **{"STARTRAIL_SYSTEM_STORE": str(self.system / "store"), **environment})
        done = subprocess.run([*before, "runuser", "-u", self.user.pw_name, "--", *self.command(*arguments)], cwd=self.work, env=given,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False)
        finished = Finished(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))
        if check is not None:
            self.assertEqual(finished.code, check, finished)
        return finished

    def fingerprint(self):
        """What every file of root's store holds; locks and stamps of use left out."""
        store = self.system / "store"
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for folder in ("wheels", "images", "bytecode")
                for path in (store / folder).rglob("*") if path.is_file() and not path.is_symlink() and path.name != "used"}

    def test_a_user_runs_roots_image_without_a_download_or_a_copy(self):
        done = self.as_user("run", "--", "python", "-c", CODE, check=0, **OFFLINE)
        self.assertEqual(done.out, f"{SITE}/markupsafe/__init__.py\n")
        own = disk_of(self.user_home / "store")
        self.assertLess(own, 0.01 * (disk_of(self.stored_image()) + self.base_size()), "the user keeps another copy")
        self.assertEqual([list((self.user_home / "store" / part).iterdir()) for part in ("wheels", "downloads")], [[], []])
        self.assertTrue(self.shared_json().exists())
        self.assertEqual([image["id"] for image in self.as_user("image", "list", "--json", check=0).json["images"]], [self.image])
        cached = self.as_user("run", "--", "python", "-c", "import markupsafe, os; print(os.path.exists(markupsafe.__spec__.cached))", check=0, **OFFLINE)
        self.assertEqual(cached.out, "True\n", "root's bytecode is not there")
        self.as_user("image", "verify-store", check=0)

    def test_a_user_can_add_to_what_is_roots_for_a_run_and_change_nothing(self):
        before = self.fingerprint()
        code = (f"import os; open('{SITE}/mine.py', 'w').write('x = 1'); import mine; os.mkdir('/opt/other');"
                f"print('made')\ntry: open('{SITE}/markupsafe/__init__.py', 'a').write('#')\nexcept OSError as e: print('refused')")
        done = self.as_user("run", "--", "python", "-c", code, check=0, **OFFLINE)
        self.assertEqual(done.out.splitlines()[0], "made", done)
        self.assertEqual(self.fingerprint(), before)
        for path in [self.system / "store", *(self.system / "store").rglob("*")]:
            if "bases" not in path.parts and not path.is_symlink():
                status = path.stat()
                self.assertEqual((status.st_uid, status.st_mode & 0o022), (0, 0), path)

    def test_packages_come_and_go_inside_a_run_on_roots_image(self):
        before = self.fingerprint()
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", self.work, "pip"], check=True)
        pip = f"python {next(self.work.glob('pip-*.whl')).name}/pip"
        script = (f"set -e; {pip} install -q --no-index ./unusual-1.0-py3-none-any.whl; unusual;"
                  f"{pip} uninstall -q -y markupsafe; ! python -c 'import markupsafe' 2>/dev/null; echo mine > mine.txt;"
                  "mkdir /usr/share/mine; echo x > /etc/mine")
        done = self.as_user("run", "--", "sh", "-c", script, check=0, **OFFLINE)
        self.assertEqual(done.out, "started\n")
        self.assertEqual((self.work / "mine.txt").read_text(), "mine\n")
        self.as_user("run", "--", "python", "-c", "import markupsafe", check=0, **OFFLINE)
        self.assertEqual(self.fingerprint(), before)

    def test_no_user_can_change_what_is_in_roots_store(self):
        self.as_user("run", "--", "true", check=0, **OFFLINE)
        for folder in ("store/images", "store/wheels", "store/bytecode", "store/locks", "store/built"):
            tried = subprocess.run(["runuser", "-u", self.user.pw_name, "--", "python3", "-c", CHANGE_ALL, self.system / folder],
                                   check=True, capture_output=True, text=True)
            self.assertEqual(tried.stdout, "")
        # The user's own part of the image neither.
        self.assertEqual(self.as_user("image", "verify-store", check=0).code, 0)

    def test_where_root_keeps_its_store_it_is_used_unasked(self):
        machine = ["unshare", "--mount", "sh", "-c", WITH_ROOTS_HOME, str(self.system)]
        unasked = self.as_user("image", "build", "--lock", "pylock.trail.toml", before=[*machine, "env", "-u", "STARTRAIL_SYSTEM_STORE"],
                               check=0, **OFFLINE)
        self.assertEqual(unasked.out.strip(), self.image)
        self.assertEqual(json.loads(self.shared_json().read_text())["store"], "/var/lib/startrail/store")
        unwanted = self.as_user("image", "build", "--lock", "pylock.trail.toml", before=machine, STARTRAIL_SYSTEM_STORE="none", **OFFLINE)
        self.assertNotEqual(unwanted.code, 0, "without the system store there is nothing to make it from")

    def test_a_link_to_the_store_that_another_user_can_turn_is_refused(self):
        link = self.folder / "link"
        link.symlink_to(self.system / "store")
        os.chown(link, 65534, 65534, follow_symlinks=False)
        done = self.as_user("image", "build", "--lock", "pylock.trail.toml", STARTRAIL_SYSTEM_STORE=str(link), **OFFLINE)
        self.assertIn(f"the system store {link} is not used: {link} belongs to uid 65534, neither to root nor to you", done.err)
        images = self.system / "store/images"
        images.rename(self.system / "elsewhere")
        images.symlink_to(self.system / "elsewhere")
        os.chown(images, 65534, 65534, follow_symlinks=False)
        done = self.as_user("image", "build", "--lock", "pylock.trail.toml", **OFFLINE)
        self.assertIn(f"the system store's image is not used: {images} belongs to uid 65534", done.err)

    def test_an_image_that_names_another_store_is_refused_and_made_again(self):
        self.as_user("run", "--", "true", check=0, **OFFLINE)
        other = self.folder / "other"
        shutil.copytree(self.stored_image(), other / "images" / self.image.removeprefix("sha256:"), symlinks=True)
        shared = self.shared_json()
        shared.chmod(0o644)
        shared.write_text(json.dumps({"store": str(other)}))
        done = self.as_user("run", "--image", self.image, "--", "true", **OFFLINE)
        self.assertNotEqual(done.code, 0, done)
        self.assertIn(f"error: {other} is not the system store", done.err)
        again = self.as_user("image", "build", "--lock", "pylock.trail.toml", check=0, **OFFLINE)
        self.assertIn(f"{other} is not the system store", again.err)
        self.assertEqual(json.loads(self.shared_json().read_text())["store"], str(self.system / "store"))
        self.as_user("run", "--image", self.image, "--", "true", check=0, **OFFLINE)

    def test_when_root_took_an_image_out_the_next_run_says_so_and_makes_its_own(self):
        self.as_user("run", "--", "true", check=0, **OFFLINE)
        self.age(self.system)
        self.trail("image", "prune", "--unused", "1d", home=self.system, check=0)
        self.assertFalse(self.stored_image().exists())
        refused = self.as_user("run", "--image", self.image, "--", "true", **OFFLINE)
        self.assertIn("hint: make the image again: trail image build", refused.err)
        done = self.as_user("run", "--", "python", "-c", CODE, check=0)
        self.assertEqual(done.out, f"{SITE}/markupsafe/__init__.py\n")
        self.assertIn("this image stood on the system store's, which is no longer used", done.err)
        self.assertFalse(self.shared_json().exists())

    def test_another_project_takes_root_s_wheels_without_a_download(self):
        (self.work / "more").mkdir()
        os.chown(self.work / "more", self.user.pw_uid, self.user.pw_gid)
        lock = (self.work / "pylock.trail.toml").read_text()
        # Another lock with the same wheel: another image, of which the system store has the parts.
        (self.work / "pylock.trail.toml").write_text(lock.replace("[tool.startrail]", "[tool.startrail]\nframework = \"mine\"", 1)
                                                     if 'framework = "' not in lock else lock.replace('framework = "', 'framework = "x', 1))
        done = self.as_user("image", "build", "--lock", "pylock.trail.toml", check=0, **OFFLINE)
        self.assertRegex(done.out.strip(), "^sha256:[0-9a-f]{64}$")
        self.assertEqual(list((self.user_home / "store/wheels").iterdir()), [])

    def test_a_store_that_others_can_write_is_refused_with_a_note(self):
        for part in ("bases", "wheels"):
            self.assertTrue((self.system / "store" / part).exists())
        store = self.system / "store"
        store.chmod(0o777)
        done = self.as_user("image", "build", "--lock", "pylock.trail.toml", **OFFLINE)
        self.assertIn(f"the system store {store} is not used: {store} can be written by others than its owner", done.err)
        self.assertFalse((self.user_home / "store/images").exists() and list((self.user_home / "store/images").glob("*/shared.json")))
        # Without it the user is on their own: with a base and the network the build goes on.
        shutil.rmtree(self.user_home / "store/bases", ignore_errors=True)
        subprocess.run(["cp", "-al", store / "bases", self.user_home / "store"], check=True)
        os.chown(self.user_home / "store/bases", self.user.pw_uid, self.user.pw_gid)
        done = self.as_user("image", "build", "--lock", "pylock.trail.toml", check=0)
        self.assertIn("is not used", done.err)
        self.assertEqual(done.out.strip(), self.image)
        self.assertNotEqual(list((self.user_home / "store/wheels").iterdir()), [])

    def test_an_image_that_became_writable_by_others_is_not_run(self):
        self.as_user("run", "--", "true", check=0, **OFFLINE)
        (self.stored_image() / "tree").chmod(0o777)
        done = self.as_user("run", "--image", self.image, "--", "true", **OFFLINE)
        self.assertNotEqual(done.code, 0, done)
        self.assertIn("can be written by others than its owner", done.err)

    def test_root_prunes_nothing_that_a_user_s_run_stands_on(self):
        run = self.as_user("run", "-d", "--", "sleep", "600", check=0, **OFFLINE).out.strip()
        self.addCleanup(self.as_user, "stop", "--now", run)
        self.wait_for("the run to run", lambda: self.as_user("inspect", run, "--json").json["state"] == "running", 60)
        self.age(self.system)
        self.trail("image", "prune", "--keep", "0", home=self.system, check=0)
        self.assertTrue((self.stored_image() / "manifest.json").exists())
        self.as_user("stop", "--now", run, check=0)

        def gone():
            self.age(self.system)
            self.trail("image", "prune", "--keep", "0", home=self.system, check=0)
            return not self.stored_image().exists()

        self.wait_for("the image to go after the run", gone, 30)


if __name__ == "__main__":
    main()
