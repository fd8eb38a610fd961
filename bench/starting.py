"""How long it takes from a command line to the first instruction, beside bare runc and podman on the same base."""

import json
import shutil
import subprocess
import time
from pathlib import Path

from measuring import alternate, anonymous_memory, milliseconds, print_comparison, timed

PODMAN_IMAGE = "localhost/startrail-bench:1"


def base_root(bench):
    timed([bench.trail, "run", "--", "true"], bench.environment, bench.project)
    return next((bench.home / "store/bases").glob("*/root"))


def bare_runc(bench, base):
    bundle = bench.project / "bundle"
    (bundle / "rootfs").mkdir(parents=True)
    subprocess.run(["runc", "spec"], cwd=bundle, check=True)
    spec = json.loads((bundle / "config.json").read_text())
    spec["process"].update({"terminal": False, "args": ["true"]})
    spec["process"].pop("rlimits", None)
    spec["root"] = {"path": str(base), "readonly": True}
    spec["linux"]["namespaces"] = [entry for entry in spec["linux"]["namespaces"] if entry["type"] != "network"]
    spec["mounts"] = [mount for mount in spec["mounts"] if mount["destination"] not in ("/sys", "/sys/fs/cgroup")]
    (bundle / "config.json").write_text(json.dumps(spec))
    state = bench.project / "runc-state"
    return lambda: timed(["runc", "--root", state, "run", "-b", bundle, "bench"], bench.environment)


def podman(bench, base):
    present = subprocess.run(["podman", "image", "exists", PODMAN_IMAGE], check=False).returncode == 0
    if not present:
        archive = subprocess.Popen(["tar", "-C", base, "-cf", "-", "."], stdout=subprocess.PIPE)
        subprocess.run(["podman", "import", "-q", "-", PODMAN_IMAGE], stdin=archive.stdout, check=True, capture_output=True)
        archive.wait()
    # Ulimits are given because podman's defaults need CAP_SYS_RESOURCE, which not every root has; runc for both.
    command = ["podman", "--runtime", shutil.which("runc") or "/usr/sbin/runc", "run", "--rm", "--network", "host",
               "--ulimit=nofile=1024:1024", "--ulimit=nproc=1000:1000", PODMAN_IMAGE, "true"]
    return lambda: timed(command, bench.environment)


def warm_start(bench):
    base = base_root(bench)
    contestants = {"trail run": lambda: timed([bench.trail, "run", "--", "true"], bench.environment, bench.project),
                   "bare runc run": bare_runc(bench, base)}
    if shutil.which("podman"):
        contestants["podman run --rm"] = podman(bench, base)
    print_comparison("warm start of `true`", alternate(contestants, bench.rounds, pause=0.05), milliseconds, "trail run")
    print("\nphases of one start (`trail run --timings -- true`):\n")
    done = subprocess.run([bench.trail, "run", "--timings", "--", "true"], env=bench.environment, cwd=bench.project,
                          capture_output=True, text=True, check=False)
    print("\n".join("    " + line for line in done.stderr.splitlines()))


def small_commands(bench):
    print("\n| command | median (min – max) |\n|---|---|")
    for arguments in (["ps"], ["ps", "--all"], ["--help"], ["--version"], ["run", "--help"]):
        values = alternate({"it": lambda a=arguments: timed([bench.trail, *a], bench.environment)}, max(bench.rounds, 15))["it"]
        print(f"| `trail {' '.join(arguments)}` | {milliseconds(values)} |")


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def supervisor(bench, watched=20):
    run = subprocess.run([bench.trail, "run", "-d", "--", "sleep", "600"], env=bench.environment, cwd=bench.project,
                         capture_output=True, text=True, check=True).stdout.strip()
    try:
        time.sleep(1)
        pid = json.loads((bench.home / "runs" / run / "state.json").read_text())["supervisor"]["pid"]
        before = cpu_seconds(pid)
        time.sleep(watched)
        used = (cpu_seconds(pid) - before) / watched
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        print("\n| a supervisor at work | |\n|---|---|")
        print(f"| resident, shared pages included | {int(status['VmRSS'].split()[0]) / 1000:.1f} MB |")
        print(f"| anonymous | {anonymous_memory(pid) / 1e6:.1f} MB |")
        print(f"| of one core, over {watched} s | {used * 100:.2f} % |")
    finally:
        subprocess.run([bench.trail, "stop", "--now", run], env=bench.environment, capture_output=True, check=False)
