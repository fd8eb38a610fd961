"""Exchange with a real registry: what we push, skopeo and podman read; what they push, we read; digest for digest."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from plain_image import PlainImage
from registry_server import RealRegistry
from trail_case import SHARED_HOME, TRAIL, TrailCase, clean_environment, index_is_reachable, main

USER, PASSWORD = "somebody", "open-sesame-4711"
VERSION = "import six; print(six.__version__)"


def run(*command, **options):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, check=False, **options)


class RegistryExchange(TrailCase):
    """One small image on a real base, pushed once by trail; every test pulls or reads that, or pushes elsewhere."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not index_is_reachable():
            raise unittest.SkipTest("the package index cannot be reached, and the image needs a wheel of it")
        cls.place = Path(tempfile.mkdtemp(prefix="trail-registry."))
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        os.chmod(cls.place, 0o755)
        cls.registry = RealRegistry(cls.place / "registry")
        cls.addClassCleanup(cls.registry.close)
        cls.built = cls.home_with_bases(cls.place / "built")
        cls.project_folder = cls.place / "project"
        cls.project_folder.mkdir()
        (cls.project_folder / "requirements.txt").write_text("six\n")
        cls.id = cls.at(cls.built, "image", "build", ".", cwd=cls.project_folder).stdout.strip()
        cls.version = cls.at(cls.built, "run", "-q", "--image", cls.id, "--", "python", "-c", VERSION, cwd=cls.project_folder).stdout.split()[-1]
        cls.reference = f"{cls.registry.host}/lab/six:1"
        cls.pushed = json.loads(cls.at(cls.built, "image", "push", cls.id, cls.reference, "--json").stdout)

    @classmethod
    def home_with_bases(cls, home):
        """A state folder of its own; bases that the shared one has need not be made again."""
        for name in ("store/bases", "tools"):
            # Links where they are possible. What another suite is just making fails both ways, and is made anew here.
            for how in ("-al", "-a"):
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                if not (SHARED_HOME / name).is_dir() or run("cp", how, SHARED_HOME / name, home / name).returncode == 0:
                    break
                shutil.rmtree(home / name, ignore_errors=True)
        return home

    @classmethod
    def at(cls, home, *words, cwd=None):
        done = run(TRAIL, *words, cwd=cwd or cls.place, env=clean_environment(home), stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f"trail {words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def setUp(self):
        super().setUp()
        self.home = self.folder / "state"

    def skopeo(self, *words):
        done = run("skopeo", *words)
        self.assertEqual(done.returncode, 0, done)
        return done.stdout

    def raw(self, reference):
        return json.loads(self.skopeo("inspect", "--raw", "--tls-verify=false", f"docker://{reference}"))

    def pull(self, reference, home=None):
        return self.trail("image", "pull", reference, "--json", home=home, check=0).json

    def push(self, reference, *options):
        return json.loads(self.at(self.built, "image", "push", self.id, reference, "--json", *options).stdout)

    # ---- what we push ----

    def test_skopeo_reads_the_same_layers_digest_for_digest(self):
        self.assertEqual([layer["digest"] for layer in self.raw(self.reference)["layers"]],
                         [layer["digest"] for layer in self.pushed["layers"]])
        told = json.loads(self.skopeo("inspect", "--tls-verify=false", f"docker://{self.reference}"))
        self.assertEqual((told["Digest"], told["Architecture"], told["Os"]), (self.pushed["digest"], "amd64", "linux"))

    def test_skopeo_copies_it_whole_and_finds_every_digest_right(self):
        self.skopeo("copy", "-q", "--preserve-digests", "--src-tls-verify=false", f"docker://{self.reference}", f"oci:{self.folder}/copy:1")
        index = json.loads((self.folder / "copy/index.json").read_text())
        self.assertEqual(index["manifests"][0]["digest"], self.pushed["digest"])

    def test_podman_runs_it_and_prints_the_same_version(self):
        storage = ["--root", self.folder / "podman", "--runroot", self.folder / "podman-run", "--storage-driver", "vfs"]
        pulled = run("podman", *storage, "pull", "-q", "--tls-verify=false", self.reference)
        self.assertEqual(pulled.returncode, 0, pulled)
        self.addCleanup(run, "podman", *storage, "system", "reset", "-f")
        done = run("podman", *storage, "--runtime", shutil.which("runc") or "/usr/sbin/runc", "run", "--rm", "--network", "host",
                   "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", self.reference, "python", "-c", VERSION)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, self.version), done)
        digest = run("podman", *storage, "image", "inspect", "--format", "{{.Digest}}", self.reference)
        self.assertEqual(digest.stdout.strip(), self.pushed["digest"])

    def test_gzip_is_for_what_reads_nothing_else(self):
        done = self.push(f"{self.registry.host}/lab/six:gzip", "--compression", "gzip")
        self.assertEqual({layer["media_type"] for layer in done["layers"]}, {"application/vnd.oci.image.layer.v1.tar+gzip"})
        self.assertNotEqual(done["digest"], self.pushed["digest"])

    def test_the_second_push_sends_nothing(self):
        before = self.registry.requests("POST")
        again = self.push(self.reference)
        self.assertEqual((again["sent_bytes"], again["digest"]), (0, self.pushed["digest"]))
        self.assertEqual({layer["way"] for layer in again["layers"]}, {"was there"})
        self.assertEqual([path for path in self.registry.requests("POST")[len(before):] if "/lab/six/" in path], [])

    def test_to_another_repository_of_the_same_registry_layers_are_mounted(self):
        done = self.push(f"{self.registry.host}/lab/mounted:1")
        self.assertEqual((done["sent_bytes"], done["digest"]), (0, self.pushed["digest"]))
        self.assertEqual({layer["way"] for layer in done["layers"]}, {"mounted"})

    def test_bill_of_materials_and_provenance_are_found_under_the_fallback_tag(self):
        tag = self.pushed["digest"].replace(":", "-")
        index = self.raw(f"{self.registry.host}/lab/six:{tag}")
        self.assertEqual(index["mediaType"], "application/vnd.oci.image.index.v1+json")
        kinds = [entry["artifactType"] for entry in index["manifests"]]
        self.assertEqual(len(kinds), len(set(kinds)), "a second push must not list them twice")
        self.assertTrue(any("cyclonedx" in kind for kind in kinds), kinds)
        for entry in index["manifests"]:
            statement = self.raw(f"{self.registry.host}/lab/six@{entry['digest']}")
            self.assertEqual(statement["subject"]["digest"], self.pushed["digest"])

    # ---- what we pull ----

    def test_an_empty_store_that_pulls_has_the_same_image(self):
        pulled = self.pull(self.reference)
        self.assertEqual((pulled["id"], pulled["digest"]), (self.id, self.pushed["digest"]))
        self.assertEqual(pulled["fetched_bytes"], sum(layer["size"] for layer in pulled["layers"]))
        self.trail("image", "verify-store", check=0)
        done = self.trail("run", "-q", "--image", self.id[7:19], "--", "python", "-c", VERSION, cwd=self.project(), check=0)
        self.assertEqual(done.out.split()[-1], self.version)
        self.assertEqual(self.pull(self.reference)["fetched_bytes"], 0)

    def test_run_pulls_what_is_not_here_and_asks_nobody_afterwards(self):
        def run_it():
            return self.trail("run", "-q", "--image", self.reference, "--", "python", "-c", VERSION, cwd=self.project(), check=0).out.split()[-1]

        self.assertEqual(run_it(), self.version)
        before = len(self.registry.requests("GET"))
        self.assertEqual(run_it(), self.version)
        asked = [path for path in self.registry.requests("GET")[before:] if path.startswith("/v2/lab/six/")]
        self.assertEqual(asked, [])

    def test_what_skopeo_pushes_is_pulled_layer_for_layer(self):
        image = PlainImage((3_000_000, 40_000))
        layout = image.write_layout(self.folder / "layout")
        for number, kind in enumerate(("oci", "v2s2")):
            with self.subTest(kind=kind):
                reference = f"{self.registry.host}/lab/foreign:{kind}"
                self.skopeo("copy", "-q", "--dest-tls-verify=false", "--format", kind, f"oci:{layout}:it", f"docker://{reference}")
                home = self.folder / f"home-{number}"
                pulled = self.pull(reference, home)
                self.assertEqual([layer["digest"] for layer in pulled["layers"]], [layer["digest"] for layer in self.raw(reference)["layers"]])
                self.trail("image", "verify-store", home=home, check=0)
                tree = home / "store/images" / pulled["id"][7:] / "tree"
                for name, content in image.files.items():
                    self.assertEqual((tree / name).read_bytes(), content)

    # ---- who may ----

    def test_basic_authentication_lets_in_who_has_logged_in(self):
        users = self.folder / "users"
        users.write_text(run("htpasswd", "-Bbn", USER, PASSWORD).stdout)
        registry = RealRegistry(self.folder / "closed", users)
        self.addCleanup(registry.close)
        reference = f"{registry.host}/lab/six:1"
        auth = self.folder / "auth.json"
        login = run("skopeo", "login", "--tls-verify=false", "--authfile", auth, "-u", USER, "--password-stdin", registry.host, input=PASSWORD)
        self.assertEqual(login.returncode, 0, login)
        known, nobody = {"REGISTRY_AUTH_FILE": str(auth)}, {"REGISTRY_AUTH_FILE": str(self.folder / "none.json")}
        refused = self.trail("image", "push", self.id, reference, home=self.built, env=nobody)
        self.assertEqual(refused.code, 1, refused)
        self.assertIn(f"{registry.host} wants credentials", refused.err)
        self.trail("image", "push", self.id, reference, home=self.built, env=known, check=0)
        self.assertEqual(self.trail("image", "pull", reference, env=nobody).code, 1)
        self.assertEqual(self.trail("image", "pull", reference, env=known, check=0).out.strip(), self.id)
        self.assert_nowhere(PASSWORD)

    def assert_nowhere(self, secret):
        for home in (self.home, self.built):
            for path in [*home.glob("*.db*"), *(home / "store").glob("*.json"), *(home / "store/registries").glob("*"), *(home / "store/images").glob("*/*.json")]:
                self.assertNotIn(secret.encode(), path.read_bytes(), path)


if __name__ == "__main__":
    main()
