"""On a slow link a build takes as long as its downloads: everything else happens while they arrive."""

import concurrent.futures
import time
import tomllib
import unittest
import urllib.request

from throttled_proxy import ThrottledProxy
from trail_case import SHARED_HOME, TrailCase, index_is_reachable, main

RATE = 10e6  # bytes a second
LATENCY = 0.05
BEYOND_THE_DOWNLOAD = 1.0  # seconds


def download(address, proxy):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": proxy, "https": proxy}))
    size = 0
    with opener.open(address, timeout=60) as answer:
        while chunk := answer.read(1 << 20):
            size += len(chunk)
    return size


def download_alone(addresses):
    """Seconds and bytes of fetching them side by side over the same link, into nowhere."""
    with ThrottledProxy(RATE, LATENCY) as link, concurrent.futures.ThreadPoolExecutor(16) as pool:
        began = time.monotonic()
        sizes = list(pool.map(lambda address: download(address, link.environment["https_proxy"]), addresses))
        return time.monotonic() - began, sum(sizes)


@unittest.skipUnless(index_is_reachable(), "the package index can't be reached")
class SlowLink(TrailCase):
    def home_with_a_base(self):
        home = self.folder / "home"
        (home / "store").mkdir(parents=True)
        for name in ("store/bases", "tools"):
            (home / name).symlink_to(SHARED_HOME / name)
        return home

    def test_a_build_takes_no_longer_than_its_downloads_and_a_second(self):
        folder = self.project(requirements__txt="numpy==2.2.6\nscipy==1.15.3\npillow==11.2.1\nsix\n")
        self.trail("run", "--", "true", cwd=self.project("warm", {"requirements.txt": "six\n"}), check=0)  # makes the base
        self.trail("lock", ".", cwd=folder, check=0)
        lock = folder / "pylock.trail.toml"
        packages = tomllib.loads(lock.read_text())["packages"]
        addresses = [wheel["url"] for package in packages for wheel in package["wheels"]]

        alone, size = download_alone(addresses)
        self.assertGreater(size, 40e6)
        self.assertGreater(alone, size / RATE)  # the link is as slow as it says

        home = self.home_with_a_base()
        with ThrottledProxy(RATE, LATENCY) as link:
            began = time.monotonic()
            self.trail("image", "build", "--lock", lock, home=home, cwd=folder, env=link.environment, check=0)
            took = time.monotonic() - began
            self.assertLess(link.passed, size * 1.02, "bytes were fetched twice")
        print(f"\n{size / 1e6:.0f} MB: download alone {alone:.2f} s, build {took:.2f} s")
        self.assertLess(took, alone + BEYOND_THE_DOWNLOAD)


if __name__ == "__main__":
    main()
