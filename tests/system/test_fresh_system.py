"""The README's first command on a Debian 12 where nothing of ours is installed: as root, and as a user with sudo.

Makes a root filesystem with mmdebstrap, clones this repository into it, and runs `./dev demo` there in mount and
PID namespaces of its own. Takes many minutes; labelled `long`.
"""

import os
import shutil
import subprocess
import unittest
from pathlib import Path

from trail_case import SOURCE, TrailCase, main

ENTER = r"""
set -e
root=$1; shift
mount --bind "$root" "$root"
cd "$root"
mkdir -p old
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 tmp tmp
pivot_root . old
umount -l /old
exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 TERM=dumb "$@"
"""


def why_not():
    if os.geteuid() != 0:
        return "needs root to make the root filesystem"
    if not shutil.which("mmdebstrap"):
        return "mmdebstrap is not installed"
    return None


@unittest.skipIf(why_not(), why_not())
class FreshSystem(TrailCase):
    def setUp(self):
        super().setUp()
        self.root = self.folder / "root"
        subprocess.run(["mmdebstrap", "--variant=minbase", "--include=sudo,git,ca-certificates,adduser", "bookworm", self.root],
                       check=True, capture_output=True)
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        # Certificates that this machine trusts beside the usual ones (a site's proxy signs with its own).
        if Path("/usr/local/share/ca-certificates").is_dir():
            shutil.copytree("/usr/local/share/ca-certificates", self.root / "usr/local/share/ca-certificates", dirs_exist_ok=True)
            self.inside("update-ca-certificates")
        self.inside("useradd", "--create-home", "--shell", "/bin/bash", "newcomer")
        (self.root / "etc/gitconfig").write_text("[safe]\n\tdirectory = *\n")
        (self.root / "etc/sudoers.d/newcomer").write_text("newcomer ALL=(ALL) NOPASSWD: ALL\n")

    def inside(self, *command, user=None, timeout=3000):
        wrapped = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "env", f"HOME=/home/{user}", f"USER={user}"] if user else []
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--propagation", "private",
                               "sh", "-c", ENTER, "enter", str(self.root), *wrapped, *command],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}")
        return done

    def demo(self, place, user=None):
        bundle = self.root / "startrail.git"
        if not bundle.exists():
            subprocess.run(["git", "clone", "-q", "--bare", SOURCE, bundle], check=True)
        quoted = f"git clone -q /startrail.git {place} && cd {place} && ./dev demo"
        done = self.inside("bash", "-c", quoted, user=user)
        accuracy = float(done.stdout.rsplit("test accuracy:", 1)[1].split("%")[0])
        self.assertGreaterEqual(accuracy, 97.0)
        trail = f"{place}/build/release/trail"
        told = self.inside("bash", "-c", f"{trail} ps --all && {trail} inspect && {trail} rerun latest", user=user).stdout
        self.assertIn("succeeded", told)
        self.assertIn("test accuracy:", told)

    def test_a_user_with_sudo(self):
        self.demo("/home/newcomer/startrail", user="newcomer")

    def test_root(self):
        self.demo("/root/startrail")


if __name__ == "__main__":
    main()
