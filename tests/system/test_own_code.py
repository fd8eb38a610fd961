"""The project's own packages in runs: found wherever the project keeps them, without `-e .`."""

import unittest

from trail_case import TrailCase, main

BUILD_SYSTEM = "[build-system]\nrequires = ['setuptools>=61']\nbuild-backend = 'setuptools.build_meta'\n"
PROJECT = "[project]\nname = 'mine'\nversion = '1.5'\ndependencies = ['six']\n"
FILES = {"src/mine/__init__.py": "", "src/mine/__main__.py": "import six\nprint('mine runs')\n",
         "src/mine/tool.py": "def main():\n    print('the tool runs')\n"}


class OwnCode(TrailCase):
    def run_in(self, folder, *command):
        return self.trail("run", "--", *command, cwd=folder, check=0)

    def test_a_package_under_src_is_installed_with_its_scripts_and_metadata(self):
        folder = self.project(pyproject__toml=PROJECT + "scripts = {mine-tool = 'mine.tool:main'}\n" + BUILD_SYSTEM, files=FILES)
        self.assertEqual(self.run_in(folder, "python", "-m", "mine").out, "mine runs\n")
        self.assertEqual(self.run_in(folder, "mine-tool").out, "the tool runs\n")
        version = "import importlib.metadata as m; print(m.version('mine'))"
        self.assertEqual(self.run_in(folder, "python", "-c", version).out, "1.5\n")
        (folder / "src/mine/__main__.py").write_text("print('edited')\n")
        self.assertEqual(self.run_in(folder, "python", "-m", "mine").out, "edited\n")

    def test_a_package_under_src_without_a_build_system_is_found(self):
        folder = self.project(pyproject__toml=PROJECT, files=FILES)
        self.assertEqual(self.run_in(folder, "python", "-m", "mine").out, "mine runs\n")
        self.assertIn('import-root = "src"', (folder / "pylock.trail.toml").read_text())

    def test_a_package_beside_setup_py_is_found_by_scripts_in_subfolders_and_hides_nothing(self):
        folder = self.project(requirements__txt="six\n", setup__py="raise SystemExit('never run')\n", files={
            "mine/__init__.py": "VALUE = 7\n", "six/__init__.py": "raise ImportError('the wrong one')\n",
            "scripts/train.py": "import mine, six\nprint(mine.VALUE, six.__version__[:2])\n"})
        self.assertEqual(self.run_in(folder, "python", "scripts/train.py").out, "7 1.\n")

    def test_a_package_that_does_not_build_is_found_and_the_reason_is_told(self):
        broken = PROJECT + "[build-system]\nrequires = ['setuptools>=61']\nbuild-backend = 'nowhere'\n"
        folder = self.project(pyproject__toml=broken, files=FILES)
        done = self.run_in(folder, "python", "-m", "mine")
        self.assertEqual(done.out, "mine runs\n")
        self.assertIn("isn't installed", done.err)


if __name__ == "__main__":
    main()
