"""The CUDA compiler that sources built against torch get: put together from packages, and compiling for real.

Compiling against the real torch takes 3 GB of wheels and minutes: test_cuda_extension.py does that. Here a wheel of
torch's name and version stands for what the build never looks into; compiler, headers and image are the real ones."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import unittest
import zipfile
from pathlib import Path

from trail_case import TrailCase, index_is_reachable, main

SETUP = """
import os
import pathlib
import subprocess

import torch
from setuptools import setup
from setuptools.command.build_py import build_py


class Compile(build_py):
    def run(self):
        super().run()
        flags = []
        for wanted in os.environ["TORCH_CUDA_ARCH_LIST"].split(";"):
            number = wanted.partition("+")[0].replace(".", "")
            flags.append(f"-gencode=arch=compute_{number},code=sm_{number}")
            if wanted.endswith("+PTX"):
                flags.append(f"-gencode=arch=compute_{number},code=compute_{number}")
        nvcc = os.path.join(os.environ["CUDA_HOME"], "bin", "nvcc")
        target = pathlib.Path(self.build_lib) / "kernels" / "twice.o"
        subprocess.run([nvcc, *flags, "-c", "kernels/twice.cu", "-o", str(target)], check=True)


setup(name="kernels", version="1.0", packages=["kernels"], install_requires=["six"], cmdclass={"build_py": Compile})
"""
KERNEL = """
#include <cub/block/block_reduce.cuh>
#include <cuda_runtime.h>
__global__ void twice(float* x, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2.0f;
}
"""
COPY = "import kernels, pathlib, shutil, six; shutil.copy(pathlib.Path(kernels.__file__).with_name('twice.o'), 'twice.o')"


def digest_of(text):
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def write_torch(folder, version="2.6.0"):
    """A wheel that has torch's name and a version whose CUDA the catalog knows, and nothing else."""
    info = f"torch-{version}.dist-info"
    files = {"torch/__init__.py": "",
             f"{info}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join(f"{name},sha256={digest_of(text)},{len(text)}\n" for name, text in files.items())
    path = folder / f"torch-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
            wheel.writestr(zipfile.ZipInfo(name), text)  # without a time: the same bytes in every project
    return path.name


class CudaCompiler(TrailCase):
    def kernels(self, name="project", kernel=KERNEL, requirements="./torch-2.6.0-py3-none-any.whl\n./source\n"):
        # Its own bytes, so that no other test's build, nor an earlier run's, is found in the shared state folder.
        own = f"// {self.folder.name}\n"
        folder = self.project(name, requirements__txt=requirements, files={
            "source/setup.py": SETUP, "source/kernels/__init__.py": "", "source/kernels/twice.cu": own + kernel})
        write_torch(folder)
        return folder

    def cuobjdump(self, *arguments, cuda="12.4"):
        """Debian's compilers have this reader beside them; of CUDA 13 it is a wheel of its own, which no build needs."""
        program = next(Path(self.home).glob(f"cache/cuda/{cuda}-*/bin/cuobjdump"), None)
        if program is None:
            target = self.folder / "reader"
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target,
                            f"nvidia-cuda-cuobjdump=={cuda.partition('.')[0]}.*"], check=True, capture_output=True)
            program = next(target.glob("nvidia/*/bin/cuobjdump"))
            program.chmod(0o755)
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout

    def compiled_for(self, torch, cuda, architectures):
        """The architectures in the object that the compiler of `cuda`, taken for this torch, made."""
        folder = self.kernels(requirements=f"./torch-{torch}-py3-none-any.whl\n./source\n")
        write_torch(folder, torch)
        (folder / "trail.toml").write_text(f"[environment]\nbuild-architectures = {json.dumps(architectures)}\n")
        self.trail("lock", "--python", "3.11", cwd=folder, check=0, timeout=1200)
        text = (folder / "pylock.trail.toml").read_text()
        self.assertIn(f"build-architectures = {json.dumps(architectures)}", text)
        self.trail("run", "--", "python", "-c", COPY, cwd=folder, check=0)
        return sorted(re.findall(r"\.sm_(\d+)\.cubin", self.cuobjdump("--list-elf", folder / "twice.o", cuda=cuda)))

    @unittest.skipUnless(index_is_reachable(), "no package index: compilers can't be fetched")
    def test_the_compiler_of_cuda_13_2_that_wheels_alone_give_makes_code_for_hopper_and_blackwell(self):
        self.assertEqual(self.compiled_for("2.15.0", "13.2", ["9.0", "12.0"]), ["120", "90"])

    @unittest.skipUnless(index_is_reachable(), "no package index: compilers can't be fetched")
    def test_the_compiler_of_cuda_13_0_that_wheels_alone_give_makes_code_for_hopper_and_blackwell(self):
        self.assertEqual(self.compiled_for("2.13.0", "13.0", ["9.0", "12.0"]), ["120", "90"])

    @unittest.skipUnless(index_is_reachable(), "no package index: compilers can't be fetched")
    def test_the_compiler_of_cuda_11_8_out_of_debian_makes_code_for_volta_and_hopper(self):
        self.assertEqual(self.compiled_for("2.0.1", "11.8", ["7.0", "9.0"]), ["70", "90"])

    def test_a_kernel_is_compiled_for_the_architectures_that_the_lock_names_and_a_second_project_finds_it(self):
        folder = self.kernels()
        first = self.trail("lock", cwd=folder, check=0)
        self.assertIn("compiling kernels for GPUs of compute capability", first.err)
        text = (folder / "pylock.trail.toml").read_text()
        self.assertIn('built-with-torch = ["kernels"]', text)
        self.assertIn('name = "six"', text, "what only the built wheel says that it needs is locked")
        named = re.findall(r'"([\d.]+)"', re.search(r"build-architectures = (.*)", text).group(1))
        self.trail("run", "--", "python", "-c", COPY, cwd=folder, check=0)
        found = re.findall(r"\.sm_(\d+)\.cubin", self.cuobjdump("--list-elf", folder / "twice.o"))
        self.assertEqual(sorted(found), sorted(one.replace(".", "") for one in named))
        second = self.trail("lock", cwd=self.kernels("second"), check=0)
        self.assertNotIn("compiling", second.err)

    def test_sources_whose_metadata_is_static_and_whose_build_misses_torch_are_built_with_it_at_the_second_try(self):
        """Nothing tells that these import torch until their build fails: no catalog, no setting, no question to them."""
        folder = self.kernels(name="static", requirements="./torch-2.6.0-py3-none-any.whl\n./kernels-1.0.tar.gz\n")
        shutil.move(folder / "source", folder / "kernels-1.0")
        (folder / "kernels-1.0/PKG-INFO").write_text("Metadata-Version: 2.2\nName: kernels\nVersion: 1.0\nRequires-Dist: six\n")
        (folder / "kernels-1.0/pyproject.toml").write_text(
            '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
            '[project]\nname = "kernels"\nversion = "1.0"\ndependencies = ["six"]\n')
        with tarfile.open(folder / "kernels-1.0.tar.gz", "w:gz") as archive:
            archive.add(folder / "kernels-1.0", "kernels-1.0")
        shutil.rmtree(folder / "kernels-1.0")
        done = self.trail("lock", cwd=folder, check=0)
        self.assertIn("kernels is built against the torch of this project, which its build imports", done.err)
        text = (folder / "pylock.trail.toml").read_text()
        self.assertIn('built-with-torch = ["kernels"]', text)
        self.assertIn('name = "six"', text, "what its own metadata says that it needs is locked")
        self.trail("run", "--", "python", "-c", COPY, cwd=folder, check=0)
        self.assertIn(".cubin", self.cuobjdump("--list-elf", folder / "twice.o"))

    def test_a_kernel_that_does_not_compile_is_refused_with_file_line_and_the_place_of_the_log(self):
        folder = self.kernels(kernel=KERNEL.replace("2.0f", "factor"))
        done = self.trail("lock", cwd=folder)
        self.assertNotEqual(done.code, 0)
        self.assertRegex(done.err, r'kernels can\'t be compiled: kernels/twice\.cu, line 7: identifier "factor" is undefined')
        log = re.search(r"what the build said is in (\S+)", done.err)
        self.assertTrue(log, done)
        self.assertIn('identifier "factor" is undefined', Path(log.group(1)).read_text())
        self.assertFalse((folder / "pylock.trail.toml").exists())


if __name__ == "__main__":
    main()
