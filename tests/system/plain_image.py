"""Small images by the OCI image specification, made on the spot: a few layers with one file each."""

import hashlib
import io
import json
import random
import tarfile

from registry_server import INDEX, MANIFEST, digest_of

LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"


def layer_with(files):
    """A plain tar of {name: content}."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


class PlainImage:
    """`sizes` are those of the layers' files, whose bytes come from `seed`."""

    def __init__(self, sizes=(5_000_000, 300_000, 2_000), seed=1, architecture="amd64"):
        chance = random.Random(seed)
        self.files = {f"data-{seed}-{index}": chance.randbytes(size) for index, size in enumerate(sizes)}
        self.layers = [layer_with({name: content}) for name, content in self.files.items()]
        self.config = json.dumps({
            "architecture": architecture, "os": "linux", "config": {"Env": ["PATH=/usr/bin:/bin"]},
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in self.layers]}}).encode()
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": MANIFEST, "config": self.descriptor(CONFIG, self.config),
            "layers": [self.descriptor(LAYER, layer) for layer in self.layers]}).encode()
        self.digest = digest_of(self.manifest)
        self.architecture = architecture

    @staticmethod
    def descriptor(kind, content):
        return {"mediaType": kind, "digest": digest_of(content), "size": len(content)}

    @property
    def size(self):
        return sum(map(len, self.layers))

    @property
    def biggest(self):
        return digest_of(max(self.layers, key=len))

    def put_into(self, registry, tag="1"):
        """Into an OddRegistry, as if it had been pushed."""
        for content in [*self.layers, self.config]:
            registry.blobs[digest_of(content)] = content
        registry.manifests[self.digest] = (MANIFEST, self.manifest)
        registry.tags[tag] = self.digest
        return self

    def write_layout(self, folder, name="it"):
        """As an OCI layout, for skopeo."""
        blobs = folder / "blobs/sha256"
        blobs.mkdir(parents=True)
        for content in [*self.layers, self.config, self.manifest]:
            (blobs / hashlib.sha256(content).hexdigest()).write_bytes(content)
        (folder / "oci-layout").write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
        entry = {**self.descriptor(MANIFEST, self.manifest), "annotations": {"org.opencontainers.image.ref.name": name}}
        (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [entry]}))
        return folder


def put_index(registry, images, tag="1"):
    """An index of images for several architectures."""
    entries = [{**image.descriptor(MANIFEST, image.manifest), "platform": {"os": "linux", "architecture": image.architecture}}
               for image in images]
    text = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()
    registry.manifests[digest_of(text)] = (INDEX, text)
    registry.tags[tag] = digest_of(text)
