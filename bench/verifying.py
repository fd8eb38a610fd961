"""`trail image verify --level files` beside OpenSSL's SHA-256 of the same files, on all cores."""

import json
import os

from measuring import alternate, print_comparison, run, seconds, timed


def verify_files(bench, requirement, rounds):
    folder = bench.project / "verifying"
    folder.mkdir()
    (folder / "requirements.txt").write_text(requirement + "\n")
    image = run([bench.trail, "image", "build", "."], bench.environment, folder).out.strip()
    layers = json.loads(run([bench.trail, "image", "inspect", "--json", image], bench.environment).out)["layers"]
    # The environment's tree and the base: what the level reads. Bytecode isn't part of an image.
    trees = " ".join(f"'{layer}'" for layer in layers if not layer.endswith("/bytecode"))
    hashing = f"find {trees} -type f -print0 | xargs -0 -n 64 -P {os.cpu_count()} openssl dgst -sha256 > /dev/null"
    times = alternate({"trail image verify --level files": lambda: timed([bench.trail, "image", "verify", image, "--level", "files"], bench.environment),
                       "openssl dgst -sha256": lambda: timed(["sh", "-c", hashing], bench.environment)}, rounds, warm_up=1)
    print_comparison(f"every file of an image, `{requirement}`, files in memory", times, seconds, "trail image verify --level files")


def measure(bench, requirement, rounds, rows):
    for _ in rows:
        verify_files(bench, requirement, rounds)


ROWS = ["verify_files"]
