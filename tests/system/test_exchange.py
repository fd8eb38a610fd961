"""Images in files: out of one store and into another, to skopeo and podman and back, and what is refused."""

import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from trail_case import TRAIL, TrailCase, clean_environment, index_is_reachable

PRINT_VERSION = ("python", "-c", "import six; print(six.__version__)")
# podman's default limits need a right that not every root has.
RUNTIME = """#!/usr/bin/env python3
import json, os, sys
for index, word in enumerate(sys.argv):
    bundle = sys.argv[index + 1] if word in ("--bundle", "-b") else word[9:] if word.startswith("--bundle=") else None
    if bundle:
        spec = json.load(open(bundle + "/config.json"))
        spec["process"].pop("rlimits", None)
        json.dump(spec, open(bundle + "/config.json", "w"))
os.execvp("runc", ["runc", *sys.argv[1:]])
"""


def manifest_of(layout):
    index = json.loads((layout / "index.json").read_text())
    return json.loads((layout / "blobs/sha256" / index["manifests"][0]["digest"][7:]).read_text())


def layer_digests(layout):
    return [layer["digest"] for layer in manifest_of(layout)["layers"]]


class Exchange(TrailCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not index_is_reachable():
            raise unittest.SkipTest("the package index cannot be reached, and the image needs a package")
        cls.shared = Path(tempfile.mkdtemp(prefix="trail-exchange."))
        cls.addClassCleanup(shutil.rmtree, cls.shared, ignore_errors=True)
        project = cls.shared / "project"
        project.mkdir()
        (project / "requirements.txt").write_text("six==1.17.0\n")
        cls.id = cls.plainly("image", "build", ".", cwd=project)
        cls.layout, cls.archive = cls.shared / "layout", cls.shared / "image.tar"
        cls.digest = cls.plainly("image", "save", cls.id, "-o", cls.layout)
        cls.plainly("image", "save", cls.id, "-o", cls.archive)
        cls.pulled = cls.shared / "pulled"
        cls.plainly("image", "load", cls.archive, "--name", "mine", home=cls.pulled)

    @classmethod
    def plainly(cls, *arguments, cwd="/", home=None):
        environment = clean_environment(home) if home else clean_environment()
        done = subprocess.run([TRAIL, *map(str, arguments)], cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(f"{arguments}: {done.stderr}")
        return done.stdout.strip()

    def tool(self, *words):
        done = subprocess.run([str(word) for word in words], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
        return done.stdout.strip()

    def podman(self, *words):
        if not shutil.which("podman"):
            self.skipTest("podman is not installed")
        runtime = self.folder / "runtime"
        runtime.write_text(RUNTIME)
        runtime.chmod(0o755)
        return self.tool("podman", "--root", self.folder / "podman", "--runroot", self.folder / "podman-run", "--runtime",
                         runtime, "--cgroup-manager", "cgroupfs", *words)

    def fresh_home(self):
        return self.folder / "fresh"

    def test_a_store_that_never_saw_a_wheel_has_the_same_image_and_runs_in_it(self):
        images = self.trail("image", "list", "--json", home=self.pulled, check=0).json["images"]
        self.assertEqual([(image["id"], image["name"], image["origin"]) for image in images],
                         [(self.id, "mine", str(self.archive))])
        self.assertEqual(list((self.pulled / "store/wheels").iterdir()), [])
        folder = self.project()
        done = self.trail("run", "--image", "mine", "--", *PRINT_VERSION, cwd=folder, home=self.pulled, check=0)
        self.assertEqual(done.out, "1.17.0\n")
        self.trail("image", "verify-store", home=self.pulled, check=0)

    def test_the_layers_are_the_same_bytes_with_one_core_and_from_another_store(self):
        one_core = self.folder / "one-core"
        self.plainly("image", "save", self.id, "-o", one_core, home=self.pulled)
        self.assertEqual(layer_digests(one_core), layer_digests(self.layout))
        self.assertEqual(manifest_of(one_core), manifest_of(self.layout))
        other = self.folder / "other"
        subprocess.run(["taskset", "-c", "0", TRAIL, "image", "save", self.id, "-o", other, "--compression", "gzip"],
                       env=clean_environment(self.pulled), check=True, capture_output=True)
        twice = self.folder / "twice"
        self.trail("image", "save", self.id, "-o", twice, "--compression", "gzip", check=0)
        self.assertEqual(layer_digests(twice), layer_digests(other))

    def test_skopeo_reads_what_we_write_and_we_read_what_it_writes_layer_by_layer(self):
        if not shutil.which("skopeo"):
            self.skipTest("skopeo is not installed")
        for name in (f"oci:{self.layout}", f"oci-archive:{self.archive}"):
            told = json.loads(self.tool("skopeo", "inspect", name))
            self.assertEqual((told["Digest"], told["Layers"]), (self.digest, layer_digests(self.layout)))
        self.tool("skopeo", "copy", "-q", f"oci:{self.layout}", f"oci:{self.folder}/copy:theirs")
        self.assertEqual(layer_digests(self.folder / "copy"), layer_digests(self.layout))
        # Docker's own format has no zstd.
        self.trail("image", "save", self.id, "-o", self.folder / "gzip", "--compression", "gzip", check=0)
        self.tool("skopeo", "copy", "-q", f"oci:{self.folder}/gzip", f"docker-archive:{self.folder}/docker.tar:theirs:1")
        for name in ("copy", "docker.tar"):
            done = self.trail("image", "load", self.folder / name, home=self.fresh_home(), check=0)
            self.assertEqual(done.out.strip(), self.id)

    def test_podman_runs_what_we_write_and_we_run_what_it_makes_of_it(self):
        docker = self.folder / "docker.tar"
        self.trail("image", "save", "mine", "-o", docker, "--format", "docker", home=self.pulled, check=0)
        for archive in (self.archive, docker):
            name = self.podman("load", "-q", "-i", archive).split(": ", 1)[1]
            self.assertEqual(self.podman("run", "--rm", "--network", "none", name, *PRINT_VERSION), "1.17.0")
        self.podman("run", "--network", "none", "--name", "changed", name, "sh", "-c",
                    "echo from podman > /srv/told; rm -r /usr/share/doc")
        self.podman("commit", "-q", "changed", "localhost/changed:1")
        self.podman("rm", "changed")
        self.podman("save", "-q", "--format", "oci-archive", "-o", self.folder / "changed.tar", "localhost/changed:1")
        loaded = self.trail("image", "load", self.folder / "changed.tar", "--json", home=self.pulled, check=0).json
        self.assertNotEqual(loaded["id"], self.id, "others' changes make another image")
        self.assertEqual(loaded["names"], ["localhost/changed:1"])
        folder = self.project()
        run = self.trail("run", "--image", "localhost/changed:1", "--", "sh", "-c",
                         "cat /srv/told; ls -d /usr/share/doc; python -c 'import six; print(six.__version__)'; pwd; touch here",
                         cwd=folder, home=self.pulled, check=0)
        self.assertEqual(run.out, "from podman\n1.17.0\n/workspace\n", run)
        self.assertTrue((folder / "here").exists())
        record = self.trail("ps", "--all", "--json", home=self.pulled, check=0).json["runs"]
        mine = next(entry["id"] for entry in record if entry["workspace"] == str(folder))
        again = self.trail("rerun", mine, home=self.pulled, check=0)
        self.assertIn("from podman", again.out)
        self.trail("image", "verify-store", home=self.pulled, check=0)

    def test_buildah_builds_on_what_we_write_and_a_run_takes_the_environment_of_what_it_makes(self):
        if not shutil.which("buildah"):
            self.skipTest("buildah is not installed")

        def buildah(*words):
            return self.tool("buildah", "--root", self.folder / "buildah", "--runroot", self.folder / "buildah-run", *words)

        buildah("from", "--name", "theirs", f"oci:{self.layout}")
        self.addCleanup(buildah, "rm", "--all")
        told = json.loads(buildah("inspect", "theirs"))
        self.assertEqual(told["FromImageDigest"], self.digest)
        (self.folder / "greeting").write_text("hello from buildah\n")
        buildah("copy", "-q", "theirs", self.folder / "greeting", "/opt/greeting")
        buildah("config", "--env", "GREETED=yes", "--user", "nobody", "--workingdir", "/opt", "--entrypoint", '["false"]', "theirs")
        made = self.folder / "made"
        buildah("commit", "-q", "--format", "oci", "theirs", f"oci:{made}")
        ours, theirs = (json.loads((layout / "blobs/sha256" / manifest_of(layout)["config"]["digest"][7:]).read_text())["rootfs"]["diff_ids"]
                        for layout in (self.layout, made))
        self.assertEqual(theirs[:-1], ours)
        home = self.fresh_home()
        self.trail("image", "load", made, "--name", "theirs", home=home, check=0)
        folder = self.project()
        # Its variables count; user, folder and entry point are the run's.
        script = "cat /opt/greeting; echo $GREETED; pwd; id -un; command -v python; python -c 'import six; print(six.__version__)'"
        done = self.trail("run", "--image", "theirs", "--", "sh", "-c", script, cwd=folder, home=home, check=0)
        lines = done.out.splitlines()
        self.assertEqual(lines[:3], ["hello from buildah", "yes", "/workspace"])
        self.assertNotEqual(lines[3], "nobody")
        self.assertEqual(lines[4:], ["/opt/env/bin/python", "1.17.0"])

    def test_a_disk_that_fills_up_is_named_and_keeps_nothing_of_what_was_being_saved(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], capture_output=True, check=False).returncode:
            self.skipTest("this user can't mount a small disk")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        (disk / "precious.tar").write_text("an earlier one")
        for place in ("precious.tar", "layout"):
            done = self.trail("image", "save", self.id, "-o", disk / place, check=1)
            self.assertIn("No space left on device", done.err)
            self.assertIn(str(disk), done.err)
            self.assertEqual((disk / "precious.tar").read_text(), "an earlier one")
        # Whole layers may stay in a layout, for the next save; nothing half-made does, and nothing calls it an image.
        self.assertEqual(sorted(path.name for path in disk.iterdir()), ["layout", "precious.tar"])
        for blob in (path for path in (disk / "layout/blobs").rglob("*") if path.is_file()):
            self.assertEqual(hashlib.sha256(blob.read_bytes()).hexdigest(), blob.name)
        self.assertFalse((disk / "layout/index.json").exists())

    def test_a_load_that_is_killed_leaves_a_store_that_the_next_one_uses(self):
        home, chance = self.fresh_home(), random.Random(7)
        for _ in range(6):
            process = subprocess.Popen([TRAIL, "image", "load", self.archive], env=clean_environment(home),
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            time.sleep(chance.uniform(0.02, 2.5))
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        done = self.trail("image", "load", self.archive, home=home, check=0)
        self.assertEqual(done.out.strip(), self.id)
        self.trail("image", "verify-store", home=home, check=0)

    def test_a_flipped_byte_is_refused_and_leaves_nothing(self):
        layout = self.folder / "layout"
        shutil.copytree(self.layout, layout)
        blob = layout / "blobs/sha256" / max(manifest_of(layout)["layers"], key=lambda layer: layer["size"])["digest"][7:]
        with blob.open("r+b") as file:
            file.seek(blob.stat().st_size // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        home = self.fresh_home()
        done = self.trail("image", "load", layout, home=home, check=1)
        self.assertEqual(done.err.count("error:"), 1, done)
        self.assertIn(blob.name[:12], done.err)
        self.assertEqual(list((home / "store/images").iterdir()), [])
        self.assertEqual(list((home / "store/staging").iterdir()), [])

    def test_a_manifest_that_was_changed_is_refused(self):
        layout = self.folder / "layout"
        shutil.copytree(self.layout, layout)
        manifest = layout / "blobs/sha256" / self.digest[7:]
        manifest.write_text(manifest.read_text().replace("startrail", "startrial", 1))
        done = self.trail("image", "load", layout, home=self.fresh_home(), check=1)
        self.assertIn("holds something else", done.err)

    def test_a_tampered_store_is_found(self):
        home = self.fresh_home()
        self.trail("image", "load", self.archive, home=home, check=0)
        file = next(home.glob("store/images/*/tree/opt/env/lib/python*/site-packages/six.py"))
        file.chmod(0o644)
        file.write_text("import os\n")
        done = self.trail("image", "verify-store", home=home, check=1)
        self.assertIn("six.py", done.err + done.out)

    def test_a_root_filesystem_becomes_an_image_with_a_name(self):
        root = self.folder / "root"
        (root / "srv").mkdir(parents=True)
        (root / "srv/told").write_text("hello\n")
        subprocess.run(["tar", "-C", root, "-czf", self.folder / "root.tar.gz", "."], check=True)
        done = self.trail("image", "import", self.folder / "root.tar.gz", "--name", "rootfs", "--json", home=self.fresh_home(), check=0)
        told = self.trail("image", "inspect", "rootfs", "--json", home=self.fresh_home(), check=0).json
        self.assertEqual(told["id"], done.json["id"])
        self.assertEqual((Path(told["layers"][0]) / "srv/told").read_text(), "hello\n")
        done = self.trail("image", "load", self.folder / "root.tar.gz", home=self.fresh_home(), check=1)
        self.assertIn("trail image import", done.err)


if __name__ == "__main__":
    unittest.main()
