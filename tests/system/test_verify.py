"""`trail image verify`: combinations of three frameworks in all levels, and what it says about images that are not right."""

import base64
import hashlib
import json
import shutil
import subprocess
import unittest
import zipfile

from trail_case import SHARED_HOME, TrailCase, index_is_reachable

COMPILER = shutil.which("gcc") or shutil.which("gcc-12")

# The CPU builds of the two whose default wheel is one, so that a test machine needn't fetch CUDA three times.
COMBINATIONS = {"pytorch:2.15": (), "tensorflow:2.21": ("--cpu",), "tensorflow:2.20": ("--cpu",), "jax:0.10": ("--cpu",)}


def write_wheel(folder, name, files):
    """A wheel of these files; returns its path."""
    info = f"{name}-1.0.dist-info"
    files = {**files, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
             f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    path = folder / f"{name}-1.0-py3-none-any.whl"
    record = ""
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            record += f"{file},sha256={digest},{len(content)}\n"
            archive.writestr(file, content)
        archive.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return path


class Combinations(TrailCase):
    def verified(self, name):
        if not index_is_reachable():
            self.skipTest("no package index: frameworks can't be fetched")
        options = COMBINATIONS[name]
        image = self.trail("image", "build", name, *options, check=0, timeout=1800).out.strip()
        done = self.trail("image", "verify", image, "--json", timeout=2400)
        statement = done.json
        self.assertEqual(done.code, 0, json.dumps(statement["predicate"], indent=1)[:4000])
        self.assertEqual(statement["subject"][0]["digest"]["sha256"], image.removeprefix("sha256:"))
        levels = {level["level"]: level for level in statement["predicate"]["startrail"]["levels"]}
        for level in ("files", "imports", "selftest", "training", "speed"):
            self.assertEqual(levels[level]["outcome"], "passed", levels[level])
        # Warned: plug-ins that nothing imports; processes of a busy machine that met at the second try.
        for level in ("linkage", "collectives"):
            self.assertIn(levels[level]["outcome"], ("passed", "warned"), levels[level])
        self.assertGreaterEqual(levels["training"]["figures"]["accuracy"], 0.97)
        self.assertLess(levels["training"]["figures"]["text_loss"], levels["training"]["figures"]["text_loss_needed"])
        self.assertEqual(self.trail("image", "inspect", image, "--json", check=0).json["verification"], statement)
        framework, series = name.replace("pytorch", "torch").split(":")
        shown = self.trail("catalog", "show", name, "--json", check=0).out
        self.assertIn('"verified"', shown, f"{framework} {series} is verified by a stored verification")

    def test_pytorch_newest(self):
        self.verified("pytorch:2.15")

    def test_tensorflow_2_20(self):
        self.verified("tensorflow:2.20")

    def test_tensorflow(self):
        self.verified("tensorflow:2.21")

    def test_jax(self):
        self.verified("jax:0.10")


class Faults(TrailCase):
    def image(self, **files):
        folder = self.project(requirements__txt="six\n")
        return folder, self.trail("image", "build", cwd=folder, home=self.own_home(), check=0).out.strip()

    def own_home(self):
        """A state folder of this test's own, with the shared base as hard links: it will be damaged."""
        home = self.folder / "home"
        if not home.exists():
            # What another suite is just making can't be copied: it is made anew here then.
            for name, how in ((name, how) for name in ("store/bases", "tools") for how in ("-al", "-a")):
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                if (home / name).exists() or not (SHARED_HOME / name).is_dir():
                    continue
                if subprocess.run(["cp", how, SHARED_HOME / name, home / name], capture_output=True, check=False).returncode != 0:
                    shutil.rmtree(home / name, ignore_errors=True)
        return home

    def levels(self, image, *names):
        done = self.trail("image", "verify", image, "--level", ",".join(names), "--json", home=self.own_home())
        return done.code, {level["level"]: level for level in done.json["predicate"]["startrail"]["levels"]}

    def test_a_flipped_byte_is_found_and_named(self):
        _, image = self.image()
        self.assertEqual(self.levels(image, "files")[0], 0)
        victim = next((self.own_home() / "store/wheels").glob("*/site/six.py"))
        text = bytearray(victim.read_bytes())
        text[100] ^= 1
        mode = victim.stat().st_mode
        victim.chmod(0o644)
        victim.write_bytes(text)
        victim.chmod(mode)
        code, levels = self.levels(image, "files")
        self.assertEqual(code, 1)
        self.assertIn("six.py", str(levels["files"]["findings"]))

    @unittest.skipUnless(COMPILER, "no compiler for a library that lacks something")
    def test_a_library_that_lacks_another_is_found_before_anybody_imports_it(self):
        (self.folder / "x.c").write_text("extern int there(void); int PyInit_lacking(void) { return there(); }\n")
        (self.folder / "y.c").write_text("int there(void) { return 1; }\n")
        library, module = self.folder / "libnowhere.so.7", self.folder / "lacking.so"
        subprocess.run([COMPILER, "-shared", "-fPIC", "-Wl,-soname,libnowhere.so.7", "-o", library, self.folder / "y.c"], check=True)
        subprocess.run([COMPILER, "-shared", "-fPIC", "-o", module, self.folder / "x.c", library], check=True)
        wheel = write_wheel(self.folder, "lacking", {"lacking.abi3.so": (self.folder / "lacking.so").read_bytes()})
        folder = self.project(requirements__txt=f"lacking @ file://{wheel}\n")
        image = self.trail("image", "build", cwd=folder, home=self.own_home(), check=0).out.strip()
        code, levels = self.levels(image, "linkage", "imports")
        self.assertEqual(code, 1)
        self.assertEqual(levels["linkage"]["outcome"], "failed")
        self.assertIn("lacking.abi3.so needs libnowhere.so.7", str(levels["linkage"]["findings"]))
        self.assertEqual(levels["imports"]["outcome"], "failed")
        self.assertIn("libnowhere.so.7", str(levels["imports"]["findings"]))

    def test_levels_that_no_script_knows_are_not_called_passed(self):
        _, image = self.image()
        code, levels = self.levels(image, "imports", "training")
        self.assertEqual(code, 0)
        self.assertEqual((levels["imports"]["outcome"], levels["training"]["outcome"]), ("passed", "not tried"))

    def test_a_verification_of_some_levels_is_not_kept_and_a_wrong_level_is_named(self):
        _, image = self.image()
        self.levels(image, "files")
        self.assertIsNone(self.trail("image", "inspect", image, "--json", home=self.own_home(), check=0).json["verification"])
        wrong = self.trail("image", "verify", image, "--level", "filez", home=self.own_home(), check=2)
        self.assertIn("there is no level `filez`", wrong.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
