"""An extension with a CUDA kernel, compiled against the real torch 2.6 (CUDA 12.4), imported without a GPU.

3 GB of wheels and some minutes of compiling: labelled `long`."""

import re
import subprocess
from pathlib import Path

from trail_case import TrailCase, main

SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension

setup(name="twice", version="1.0", install_requires=["einops"],
      ext_modules=[CUDAExtension("twice", ["twice.cpp", "twice_kernel.cu"])], cmdclass={"build_ext": BuildExtension})
"""
BINDING = """
#include <torch/extension.h>
void launch(float* values, int count);
torch::Tensor twice(torch::Tensor values) {
  if (values.is_cuda()) {
    launch(values.data_ptr<float>(), values.numel());
  } else {
    values.mul_(2);
  }
  return values;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("twice", &twice); }
"""
KERNEL = """
#include <ATen/cuda/CUDAContext.h>
__global__ void twice_kernel(float* values, int count) {
  const int at = blockIdx.x * blockDim.x + threadIdx.x;
  if (at < count) values[at] *= 2.0f;
}
void launch(float* values, int count) {
  twice_kernel<<<(count + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(values, count);
}
"""


class CudaExtension(TrailCase):
    def test_an_extension_is_compiled_against_the_locked_torch_and_imported(self):
        folder = self.project(requirements__txt="torch==2.6.0\nnumpy\n./source\n", files={
            "source/setup.py": SETUP, "source/twice.cpp": f"// {self.folder.name}\n{BINDING}",
            "source/twice_kernel.cu": KERNEL,
            "use.py": "import shutil, torch, twice\nprint(twice.twice(torch.ones(3)).tolist())\n"
                      "shutil.copy(twice.__file__, 'twice.so')\n"})
        self.trail("lock", cwd=folder, timeout=3000, check=0)
        text = (folder / "pylock.trail.toml").read_text()
        self.assertIn('name = "einops"', text)
        self.assertEqual(self.trail("run", "--", "python", "use.py", cwd=folder, timeout=1200, check=0).out, "[2.0, 2.0, 2.0]\n")
        named = re.findall(r'"([\d.]+)"', re.search(r"build-architectures = (.*)", text).group(1))
        program = next(Path(self.home).glob("cache/cuda/12.4-*/bin/cuobjdump"))
        listed = subprocess.run([program, "--list-elf", folder / "twice.so"], capture_output=True, text=True, check=True)
        found = re.findall(r"\.sm_(\d+)\.cubin", listed.stdout)
        self.assertEqual(sorted(found), sorted(one.replace(".", "") for one in named))


if __name__ == "__main__":
    main()
