"""An image to and from a registry on loopback: pull beside `podman pull`, push beside `skopeo copy` and `buildah push`."""

import shutil
import sys
import tempfile
import time
from pathlib import Path

from measuring import alternate, end_background_work, print_comparison, run, seconds, timed

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests/system"))
from registry_server import RealRegistry  # noqa: E402


class Exchange:
    """One image, made and pushed once; every contestant begins with an empty store, or with an empty registry."""

    def __init__(self, bench, requirement):
        self.bench, self.requirement = bench, requirement
        self.folder = bench.project / "exchange"
        self.folder.mkdir()
        (self.folder / "requirements.txt").write_text(requirement + "\n")
        self.scratch = bench.home / "bench-exchange"
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.state = Path(tempfile.mkdtemp(prefix="pod.", dir="/tmp"))  # podman's place for sockets, which must be a short path
        self.registry = RealRegistry(self.scratch / "registry")
        self.image = run([bench.trail, "image", "build", "."], bench.environment, self.folder).out.strip()
        self.reference = f"{self.registry.host}/bench/image:1"
        self.trail_push(self.registry)

    def close(self):
        end_background_work(self.scratch / "trail")
        self.registry.close()
        for place in self.scratch.glob("podman*"):
            run(["podman", *self.storage(place), "system", "reset", "--force"], self.bench.environment)
        shutil.rmtree(self.scratch, ignore_errors=True)
        shutil.rmtree(self.state, ignore_errors=True)

    def environment(self, home):
        return {**self.bench.environment, "STARTRAIL_HOME": str(home)}

    def storage(self, place):
        return ["--root", place / "root", "--runroot", self.state / place.name, "--storage-driver", "overlay"]

    # ---- pull ----

    def trail_pull(self):
        home = self.scratch / "trail"
        end_background_work(home)
        shutil.rmtree(home, ignore_errors=True)
        self.settle()
        return timed([self.bench.trail, "image", "pull", self.reference], self.environment(home), self.folder)

    def podman_pull(self, name="podman"):
        place = self.scratch / name
        if place.exists():
            run(["podman", *self.storage(place), "system", "reset", "--force"], self.bench.environment)
            shutil.rmtree(place, ignore_errors=True)
        self.settle()
        return timed(["podman", *self.storage(place), "pull", "-q", "--tls-verify=false", self.reference], self.bench.environment)

    def settle(self):
        """What was removed or written before is done with: it costs nobody in the middle of a measurement."""
        run(["sync"], self.bench.environment)
        time.sleep(0.5)

    def pull(self, rounds):
        times = alternate({"trail image pull": self.trail_pull, "podman pull": self.podman_pull}, rounds, warm_up=0)
        print_comparison(f"pull into an empty store, `{self.requirement}`, zstd layers", times, seconds, "trail image pull")

    # ---- push ----

    def with_empty_registry(self, push):
        registry = RealRegistry(self.scratch / "empty")
        try:
            self.settle()
            return push(registry)
        finally:
            registry.close()
            shutil.rmtree(self.scratch / "empty", ignore_errors=True)

    def trail_push(self, registry, compression="zstd"):
        return timed([self.bench.trail, "image", "push", self.image, f"{registry.host}/bench/image:1", "--compression", compression],
                     self.bench.environment, self.folder)

    def skopeo_copy(self, registry, compression):
        place = self.scratch / "podman-source"
        source = f"containers-storage:[overlay@{place}/root+{self.state / place.name}]{self.reference}"
        return timed(["skopeo", "copy", "-q", "--dest-tls-verify=false", "--dest-compress-format", compression, source,
                      f"docker://{registry.host}/bench/image:1"], self.bench.environment)

    def buildah_push(self, registry, compression):
        return timed(["buildah", *self.storage(self.scratch / "podman-source"), "push", "-q", "--tls-verify=false", "--compression-format", compression,
                      self.reference, f"docker://{registry.host}/bench/image:1"], self.bench.environment)

    def push(self, rounds):
        self.podman_pull("podman-source")
        for compression in ("zstd", "gzip"):
            pushes = {"trail image push": self.trail_push, "skopeo copy": self.skopeo_copy}
            if shutil.which("buildah"):
                pushes["buildah push"] = self.buildah_push
            contestants = {name: lambda push=push: self.with_empty_registry(lambda registry: push(registry, compression))
                           for name, push in pushes.items()}
            times = alternate(contestants, rounds, warm_up=0)
            print_comparison(f"push to an empty registry, `{self.requirement}`, {compression}", times, seconds, "trail image push")


def measure(bench, requirement, rounds, rows):
    exchange = Exchange(bench, requirement)
    try:
        for row in rows:
            getattr(exchange, row)(rounds)
    finally:
        exchange.close()


ROWS = ["pull", "push"]
