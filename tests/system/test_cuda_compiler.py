"""The CUDA compiler that sources built against torch get: put together from packages, and compiling for real.

Compiling against the real torch takes 3 GB of wheels and minutes: test_cuda_extension.py does that. Here a wheel of
torch's name and version stands for what the build never looks into; compiler, headers and image are the real ones."""

import base64
import hashlib
import re
import subprocess
import zipfile
from pathlib import Path

from trail_case import TrailCase, main

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


def write_torch(folder):
    """A wheel that has torch's name and the version that the catalog has CUDA 12.4 for, and nothing else."""
    files = {"torch/__init__.py": "",
             "torch-2.6.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.6.0\n",
             "torch-2.6.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = "".join(f"{name},sha256={digest_of(text)},{len(text)}\n" for name, text in files.items())
    with zipfile.ZipFile(folder / "torch-2.6.0-py3-none-any.whl", "w") as wheel:
        for name, text in {**files, "torch-2.6.0.dist-info/RECORD": record + "torch-2.6.0.dist-info/RECORD,,\n"}.items():
            wheel.writestr(zipfile.ZipInfo(name), text)  # without a time: the same bytes in every project


class CudaCompiler(TrailCase):
    def kernels(self, name="project", kernel=KERNEL):
        # Its own bytes, so that no other test's build, nor an earlier run's, is found in the shared state folder.
        own = f"// {self.folder.name}\n"
        folder = self.project(name, requirements__txt="./torch-2.6.0-py3-none-any.whl\n./source\n", files={
            "source/setup.py": SETUP, "source/kernels/__init__.py": "", "source/kernels/twice.cu": own + kernel})
        write_torch(folder)
        return folder

    def cuobjdump(self, *arguments):
        program = next(Path(self.home).glob("cache/cuda/12.4-*/bin/cuobjdump"))
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=True).stdout

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
