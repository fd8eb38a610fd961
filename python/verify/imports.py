"""Imports what each package brings, a process for each package, as many side by side as there are cores."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata

from answers import answer

PATIENCE = 300  # seconds; the first import of a framework compiles its bytecode where there is none
# Top-level names that packages leave by accident, or that are only for those who develop them.
LEFT_OUT = {"test", "tests", "testing", "docs", "doc", "examples", "example", "benchmarks", "scripts", "tools", "conftest", "setup"}


def modules_of(distribution):
    """Names at the top of site-packages that this distribution's RECORD holds and that can be imported."""
    names = set()
    for file in distribution.files or []:
        parts = file.parts
        if len(parts) == 2 and parts[1] == "__init__.py":
            names.add(parts[0])
        elif len(parts) == 1 and parts[0].endswith((".py", ".so")):
            names.add(parts[0].split(".")[0])
    return sorted(name for name in names if name.isidentifier() and not name.startswith("_") and name not in LEFT_OUT)


def trouble(item):
    package, modules = item
    code = "\n".join(f"import {module}" for module in modules)
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE,
                              env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}, check=False)
    except subprocess.TimeoutExpired:
        return f"{package}: still importing after {PATIENCE} s"
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    return f"{package}: {lines[-1][:300] if lines else 'exit code ' + str(done.returncode)}"


def main():
    wanted = {}
    for distribution in metadata.distributions():
        if modules := modules_of(distribution):
            wanted[f"{distribution.metadata['Name']} {distribution.version}"] = modules
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [text for text in pool.map(trouble, sorted(wanted.items())) if text]
    modules = sum(map(len, wanted.values()))
    summary = f"{modules} modules of {len(wanted)} packages" if not found else f"{len(found)} of {len(wanted)} packages can't be imported: {found[0]}"
    answer(not found, summary, modules=modules, packages=len(wanted), failed=found)


if __name__ == "__main__":
    main()
