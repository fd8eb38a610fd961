"""What releases import and don't declare is locked with them: setuptools beside the triton of torch 2.6 and older."""

import re

from trail_case import TrailCase, index_is_reachable, main


class Undeclared(TrailCase):
    def locked(self, requirements, *options):
        if not index_is_reachable():
            self.skipTest("no package index: nothing can be resolved")
        folder = self.project(requirements__txt=requirements)
        self.trail("lock", *options, cwd=folder, check=0)
        return dict(re.findall(r'^name = "(.*)"\nversion = "(.*)"', (folder / "pylock.trail.toml").read_text(), re.MULTILINE))

    def test_torch_2_6_gets_the_setuptools_that_its_triton_imports(self):
        packages = self.locked("torch==2.6.0\n", "--python", "3.11")
        self.assertEqual(packages["triton"], "3.2.0")
        self.assertIn("setuptools", packages)

    def test_a_torch_that_another_requirement_brings_gets_it_too(self):
        packages = self.locked("torchvision==0.20.1\n", "--python", "3.11")
        self.assertEqual((packages["torch"], packages["triton"]), ("2.5.1", "3.1.0"))
        self.assertIn("setuptools", packages)

    def test_a_setuptools_that_the_project_pins_is_kept(self):
        self.assertEqual(self.locked("torch==2.6.0\nsetuptools==75.8.0\n", "--python", "3.11")["setuptools"], "75.8.0")

    def test_torch_2_2_gets_one_that_it_can_compile_with(self):
        packages = self.locked("torch==2.2.2\n", "--python", "3.11")
        self.assertLess(int(packages["setuptools"].partition(".")[0]), 70)


if __name__ == "__main__":
    main()
