#include "lock/source_wheel_script.hpp"

namespace startrail::lock {

// PEP 517 and PEP 660, with PEP 518's default for projects without a build-system table.
const std::string_view k_source_wheel_script = R"python(
import email
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import zipfile

# A build may need other releases of these than its image has.
ALWAYS_OWN = {"setuptools", "wheel", "packaging", "ninja"}
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
        self.image = request.get("image")
        run([request["uv"], "venv", "--quiet", "--no-config", "--python", sys.executable, TEMPORARY / "environment"])

        if self.image:
            own, = (TEMPORARY / "environment" / "lib").glob("python*/site-packages")
            (own / "image.pth").write_text(f"import site; site.addsitedir({self.image['site']!r})\n")

    def missing(self, requirements):
        """Those that the image doesn't have: torch above all, which must be the image's own."""
        have = set(self.image["provided"]) if self.image else set()
        name = lambda line: re.sub(r"[-_.]+", "-", re.match(r"[A-Za-z0-9._-]*", line.strip()).group()).lower()
        return [line for line in requirements if name(line) not in have - ALWAYS_OWN]

    def see_libraries(self, environment):
        """NVIDIA's wheels are no system's folders: compilers find their headers and libraries by variables only."""
        if not self.image:
            return
        parts = sorted(pathlib.Path(self.image["site"]).glob("nvidia/*"))
        links = TEMPORARY / "libraries"
        links.mkdir(exist_ok=True)
        for library in (file for part in parts for file in (part / "lib").glob("lib*.so.*")):
            link = links / (library.name.partition(".so.")[0] + ".so")
            if not link.exists():
                link.symlink_to(library)
        headers = ":".join(str(part / "include") for part in parts if (part / "include").is_dir())
        environment.update(C_INCLUDE_PATH=headers, CPLUS_INCLUDE_PATH=headers, LIBRARY_PATH=str(links))

    def note_requirements(self):
        wheel, = pathlib.Path(self.request["output"]).glob("*.whl")
        with zipfile.ZipFile(wheel) as opened:
            file, = (name for name in opened.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name))
            lines = email.message_from_bytes(opened.read(file)).get_all("Requires-Dist") or []
        kept = [line for line in lines if not re.search(r"\bextra\s*==", line)]
        (wheel.parent / "requires.txt").write_text("".join(line + "\n" for line in kept))

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
        self.see_libraries(environment)
        # Compilers that ninja runs complain on its standard output.
        output = sys.stderr if self.image else subprocess.DEVNULL
        run([self.python, "-c", CALL_HOOK, json.dumps(call)], cwd=tree, env=environment, stdout=output)
        return json.loads(result.read_text())

    def build(self, tree):
        system = self.pyproject(tree).get("build-system", {"requires": ["setuptools>=40.8.0", "wheel"]})
        name = self.request["hook"]
        self.install(self.missing(list(system.get("requires", [])) + self.request["requirements"]))
        self.install(self.missing(self.hook(tree, system, "get_requires_for_" + name, [], optional=True)))
        self.hook(tree, system, name, [self.request["output"]])
        if self.image:
            self.note_requirements()


def main():
    with open(sys.argv[1]) as file:
        request = json.load(file)
    source = pathlib.Path(request["source"])
    tree = (source if source.is_dir() else unpacked(source)) / request["subdirectory"]
    Build(request).build(tree)


main()
)python";

}  // namespace startrail::lock
