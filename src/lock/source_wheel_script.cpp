#include "lock/source_wheel_script.hpp"

namespace startrail::lock {

// PEP 517 and PEP 660, with PEP 518's default for projects without a build-system table.
const std::string_view k_source_wheel_script = R"python(
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

TEMPORARY = pathlib.Path(os.environ["TMPDIR"])

CALL_HOOK = """
import importlib, json, sys
call = json.loads(sys.argv[1])
sys.argv = ["setup.py"]
sys.path[:0] = call["path"]
module, _, inner = call["backend"].partition(":")
backend = importlib.import_module(module)
for part in filter(None, inner.split(".")):
    backend = getattr(backend, part)
hook = getattr(backend, call["hook"], None)
if hook is None and call["optional"]:
    result = []
elif hook is None:
    sys.exit("the build backend " + call["backend"] + " has no " + call["hook"])
else:
    result = hook(*call["arguments"])
with open(call["result"], "w") as file:
    json.dump(result, file)
"""


def run(argv, **options):
    ended = subprocess.run([str(word) for word in argv], **options)
    if ended.returncode != 0:
        sys.exit(1)


def unpacked(archive):
    tree = TEMPORARY / "source"
    tree.mkdir()
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(tree)
    else:
        with tarfile.open(archive) as opened:
            opened.extractall(tree, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    entries = list(tree.iterdir())
    return entries[0] if len(entries) == 1 and entries[0].is_dir() else tree


class Build:
    def __init__(self, request):
        self.request = request
        self.python = TEMPORARY / "environment" / "bin" / "python"
        run([request["uv"], "venv", "--quiet", "--no-config", "--python", sys.executable, TEMPORARY / "environment"])

    def install(self, requirements, *options):
        if not requirements:
            return
        wanted = TEMPORARY / "requirements.txt"
        wanted.write_text("\n".join(requirements) + "\n")
        bounds = TEMPORARY / "constraints.txt"
        bounds.write_text("\n".join(self.request["constraints"]) + "\n")
        target = options or ("--python", self.python)
        run([self.request["uv"], "pip", "install", "--quiet", "--no-config", "--color", "never", *target,
             "--constraints", bounds, "--build-constraints", bounds, "--requirements", wanted])

    def pyproject(self, tree):
        file = tree / "pyproject.toml"
        if not file.exists():
            return {}
        try:
            import tomllib
        except ImportError:
            self.install(["tomli"], "--target", TEMPORARY / "tools", "--python", sys.executable)
            sys.path.insert(0, str(TEMPORARY / "tools"))
            import tomli as tomllib
        return tomllib.loads(file.read_text(encoding="utf-8"))

    def hook(self, tree, system, name, arguments, optional=False):
        result = TEMPORARY / "result.json"
        call = {"backend": system.get("build-backend", "setuptools.build_meta:__legacy__"), "hook": name,
                "arguments": arguments, "optional": optional, "result": str(result),
                "path": [str(tree / path) for path in system.get("backend-path", [])]}
        environment = dict(os.environ, VIRTUAL_ENV=str(self.python.parent.parent),
                           PATH=str(self.python.parent) + ":" + os.environ["PATH"])
        run([self.python, "-c", CALL_HOOK, json.dumps(call)], cwd=tree, env=environment, stdout=subprocess.DEVNULL)
        return json.loads(result.read_text())

    def build(self, tree):
        system = self.pyproject(tree).get("build-system", {"requires": ["setuptools>=40.8.0", "wheel"]})
        name = self.request["hook"]
        self.install(list(system.get("requires", [])) + self.request["requirements"])
        self.install(self.hook(tree, system, "get_requires_for_" + name, [], optional=True))
        self.hook(tree, system, name, [self.request["output"]])


def main():
    with open(sys.argv[1]) as file:
        request = json.load(file)
    source = pathlib.Path(request["source"])
    tree = (source if source.is_dir() else unpacked(source)) / request["subdirectory"]
    Build(request).build(tree)


main()
)python";

}  // namespace startrail::lock
