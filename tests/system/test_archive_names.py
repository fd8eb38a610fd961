"""The names that archives give their images: they may move a name, but never unseen, and never take the catalog's."""

import json

from plain_image import PlainImage
from registry_server import MANIFEST, digest_of
from trail_case import TrailCase, main


class ArchiveNames(TrailCase):
    def setUp(self):
        super().setUp()
        self.home = self.folder / "state"

    def layout(self, image, name):
        """An OCI layout with this image, which it calls `name`."""
        folder = self.folder / f"layout-{image.digest[7:19]}"
        blobs = folder / "blobs/sha256"
        blobs.mkdir(parents=True, exist_ok=True)
        for blob in [image.manifest, image.config, *image.layers]:
            (blobs / digest_of(blob)[7:]).write_bytes(blob)
        (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        entry = {**image.descriptor(MANIFEST, image.manifest), "annotations": {"org.opencontainers.image.ref.name": name}}
        (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
        return folder

    def load(self, image, name, *words):
        return self.trail("image", "load", self.layout(image, name), *words, "--json", check=0)

    def test_a_name_that_moves_is_told_and_one_that_stays_is_not(self):
        first, second = PlainImage((1000,), seed=1), PlainImage((1000,), seed=2)
        one = self.load(first, "lab/tool:1")
        self.assertEqual(one.json["names"], ["lab/tool:1"])
        self.assertNotIn("is now", one.err)
        self.assertNotIn("is now", self.load(first, "lab/tool:1").err)
        other = self.load(second, "lab/tool:1")
        short = [done.json["id"].removeprefix("sha256:")[:12] for done in (one, other)]
        self.assertIn(f"lab/tool:1 was {short[0]}, is now {short[1]}", other.err)

    def test_the_users_own_name_moves_without_a_word(self):
        self.load(PlainImage((1000,), seed=1), "lab/tool:1", "--name", "mine")
        self.assertNotIn("is now", self.load(PlainImage((1000,), seed=2), "lab/tool:1", "--name", "mine").err)

    def test_a_combinations_name_is_not_taken(self):
        self.assertEqual(self.load(PlainImage((1000,)), "pytorch:2.6").json["names"], [])


if __name__ == "__main__":
    main()
