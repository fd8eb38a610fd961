"""A wheel with everything that the format allows and that public packages seldom use at once."""

import base64
import hashlib
import zipfile

FILES = {
    "unusual/__init__.py": "",
    "unusual/cli.py": "class Tool:\n    @staticmethod\n    def start():\n        print('started')\n\n\ndef main():\n    Tool.start()\n",
    "unusual/übung/Ελληνικά 数据.txt": "names in three scripts\n",
    "unusual/comma, and \"quote\".txt": "RECORD must quote these\n",
    "unusual/ leading space.txt": "kept\n",
    "unusual_namespace/part/__init__.py": "",
    "unusual.pth": "import unusual\n",
    "unusual-1.0.data/purelib/unusual/from_purelib.py": "VALUE = 1\n",
    "unusual-1.0.data/platlib/unusual/from_platlib.py": "VALUE = 2\n",
    "unusual-1.0.data/headers/unusual.h": "#define UNUSUAL 1\n",
    "unusual-1.0.data/headers/inner/more.h": "#define MORE 1\n",
    "unusual-1.0.data/data/share/unusual/größe.txt": "data\n",
    "unusual-1.0.data/data/etc/unusual.conf": "data\n",
    "unusual-1.0.data/scripts/unusual-python": "#!python\nprint('python')\n",
    "unusual-1.0.data/scripts/unusual-windowed": "#!pythonw\nprint('windowed')\n",
    "unusual-1.0.data/scripts/unusual-shell": "#!/bin/sh\necho shell\n",
    "unusual-1.0.data/scripts/unusual-fixed": "#!/usr/bin/python3\nprint('fixed')\n",
    "unusual-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: unusual\nVersion: 1.0\nSummary: Prüfung\n",
    "unusual-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: by hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "unusual-1.0.dist-info/licenses/LICENSE": "none\n",
    "unusual-1.0.dist-info/entry_points.txt": (
        "# a comment\n[console_scripts]\nunusual = unusual.cli:main\nunusual-nested=unusual.cli:Tool.start\n"
        "unusual.dotted = unusual.cli:main [extra]\n\n[gui_scripts]\nunusual-gui = unusual.cli:main\n\n[unusual.plugins]\nany = not checked here\n"),
}
EXECUTABLE = {"unusual/cli.py", "unusual-1.0.data/data/etc/unusual.conf"}


def write_wheel(folder):
    """Writes it and returns its path."""
    folder.mkdir(exist_ok=True)
    path = folder / "unusual-1.0-py3-none-any.whl"
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in FILES.items():
            content = text.encode()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            quoted = '"' + name.replace('"', '""') + '"' if '"' in name or "," in name else name
            record.append(f"{quoted},sha256={digest},{len(content)}\n")
            add(archive, name, content, 0o755 if name in EXECUTABLE else 0o644)
        record.append("unusual-1.0.dist-info/RECORD,,\n")
        add(archive, "unusual-1.0.dist-info/RECORD", "".join(record).encode(), 0o644)
    return path


def add(archive, name, content, mode):
    entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
    entry.external_attr = (0o100000 | mode) << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, content)
