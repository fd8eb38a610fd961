"""What many images take of the disk together, beside the sum of what each would take by itself."""

import json
import sys
import tomllib

from measuring import end_background_work, run

ROWS = ["catalog_disk", "catalog_wheels"]
TARGET = 0.5


def combinations_of(bench):
    rows = json.loads(run([bench.trail, "catalog", "list", "--json"], bench.environment).out)["combinations"]
    return list(dict.fromkeys(f"{row['framework']}:{row['series']}" for row in rows))


def build(bench, environment, name):
    """A row of the catalog by its name ("pytorch:2.6"), or a requirement ("six==1.17.0")."""
    folder = bench.project / "".join(letter if letter.isalnum() else "-" for letter in name)
    folder.mkdir(exist_ok=True)
    if ":" in name:
        return run([bench.trail, "image", "build", name], environment, folder).out.strip()
    (folder / "requirements.txt").write_text(name + "\n")
    return run([bench.trail, "image", "build", "."], environment, folder).out.strip()


def megabytes(count):
    return f"{count / 1e6:,.0f} MB"


def catalog_disk(bench, names):
    """Images that are there already are not made again: a call that was interrupted goes on."""
    home = bench.home / "catalog-disk"
    environment = {**bench.environment, "STARTRAIL_HOME": str(home)}
    made = {}
    for name in names or combinations_of(bench):
        try:
            made[build(bench, environment, name)] = name
        except Exception as problem:  # a row that can't be made here (no wheels for this machine): told, and left out
            print(f"- {name}: not made: {str(problem).splitlines()[0]}", file=sys.stderr)
    end_background_work(home)  # bytecode is measured as far as it has come
    usage = json.loads(run([bench.trail, "image", "du", "--json"], environment).out)
    images = [image for image in usage["images"] if image["id"] in made]
    alone = sum(image["size_bytes"] for image in images)
    print("\n### Disk of the built catalog\n\n| image | alone | its own |\n|---|---|---|")
    for image in images:
        print(f"| {made[image['id']]} | {megabytes(image['size_bytes'])} | {megabytes(image['own_bytes'])} |")
    print(f"\n| | disk |\n|---|---|\n| the sum of {len(images)} images alone | {megabytes(alone)} |\n| the store that has all | {megabytes(usage['total_bytes'])} |")
    print(f"| ratio (target ≤ {TARGET}) | {usage['total_bytes'] / max(alone, 1):.2f} |")


def catalog_wheels(bench, names):
    """The same question asked of the locks alone, for machines whose disk doesn't hold the catalog: bytes of wheels as they are fetched,
    each once, beside their sum over the images. Bases and what inflating adds are left out."""
    sizes, alone, locked = {}, 0, 0
    for name in names or combinations_of(bench):
        folder = bench.project / ("wheels-" + "".join(letter if letter.isalnum() else "-" for letter in name))
        folder.mkdir(exist_ok=True)
        (folder / "trail.toml").write_text(f'[environment]\nimage = "{name}"\n')
        try:
            run([bench.trail, "lock", "."], bench.environment, folder)
        except Exception as problem:  # no wheels on this index, or none for this machine: told, and left out
            print(f"- {name}: not locked: {str(problem).splitlines()[0]}", file=sys.stderr)
            continue
        wheels = {}
        for package in tomllib.loads((folder / "pylock.trail.toml").read_text())["packages"]:
            for wheel in package.get("wheels", []):
                wheels[wheel["hashes"]["sha256"]] = wheel.get("size", 0)
        alone += sum(wheels.values())
        sizes.update(wheels)
        locked += 1
    together = sum(sizes.values())
    print(f"\n### Wheels of the whole catalog\n\n| | bytes to fetch |\n|---|---|\n| the sum of {locked} images alone | {megabytes(alone)} |")
    print(f"| each wheel once | {megabytes(together)} |\n| ratio | {together / max(alone, 1):.2f} |")


def measure(bench, names, chosen):
    if "catalog_wheels" in chosen:
        catalog_wheels(bench, names)
    if "catalog_disk" in chosen:
        catalog_disk(bench, names)
