"""Registries on loopback for the tests: Debian's docker-registry with a folder of its own, and one that misbehaves."""

import hashlib
import json
import os
import re
import subprocess
import threading
import time
import urllib.parse
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROGRAM = "/usr/bin/docker-registry"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def digest_of(content):
    return "sha256:" + hashlib.sha256(content).hexdigest()


class RealRegistry:
    """docker-registry on a free port; with `users` (an htpasswd file) behind basic authentication."""

    def __init__(self, folder, users=None):
        folder.mkdir(parents=True, exist_ok=True)
        access = f"auth:\n  htpasswd:\n    realm: test\n    path: {users}\n" if users else ""
        (folder / "config.yml").write_text(
            f"version: 0.1\nlog:\n  level: info\nstorage:\n  filesystem:\n    rootdirectory: {folder / 'data'}\n"
            f"  delete:\n    enabled: true\nhttp:\n  addr: 127.0.0.1:0\n{access}")
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([PROGRAM, "serve", folder / "config.yml"], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                            env={**os.environ, "OTEL_TRACES_EXPORTER": "none"})
        self.host = f"127.0.0.1:{self.wait_for_port()}"

    def wait_for_port(self):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self.process.poll() is None:
            found = re.search(r"listening on 127\.0\.0\.1:(\d+)", self.log.read_text(errors="replace"))
            if found:
                return int(found[1])
            time.sleep(0.05)
        raise RuntimeError(f"docker-registry did not start:\n{self.log.read_text(errors='replace')}")

    def requests(self, method):
        """Addresses that were asked for with this method, as its log has them."""
        return re.findall(rf'"{method} (\S+) HTTP', self.log.read_text(errors="replace"))

    def close(self):
        self.process.kill()
        self.process.wait()


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str  # without the query
    query: dict
    headers: dict
    body: bytes = b""
    number: int = 0  # of this method and path, from 1


@dataclass
class Answer:
    """What to answer instead of what is right; `cut_after` bytes of a right answer's body, the connection is cut."""

    status: int = 0
    headers: dict = field(default_factory=dict)
    body: bytes = b""
    cut_after: int = None
    flip: bool = False  # one byte of the body arrives damaged
    ignore_range: bool = False


class OddRegistry:
    """A registry in memory. `decide(asked)` may return an Answer; `referrers` says whether it has that API.

    `read_at_most(asked)` may return how many bytes of an upload are read before the connection is cut.
    """

    def __init__(self, decide=None, referrers=False, read_at_most=None, address="127.0.0.1"):
        self.decide, self.referrers = decide or (lambda asked: None), referrers
        self.read_at_most = read_at_most or (lambda asked: None)
        self.blobs, self.manifests, self.tags, self.uploads, self.asked = {}, {}, {}, {}, []
        self.lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self):
                owner.handle(self)

            do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = handle_any

            def log_message(self, *arguments):
                pass

        class Server(ThreadingHTTPServer):
            def handle_error(self, request, client_address):
                pass  # cut connections are what some tests are about

        self.server = Server((address, 0), Handler)
        self.server.daemon_threads = True
        self.host = f"{address}:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def count(self, method, end=""):
        with self.lock:
            return sum(asked.method == method and asked.path.endswith(end) for asked in self.asked)

    # ---- one request ----

    def handle(self, handler):
        parts = urllib.parse.urlsplit(handler.path)
        asked = Asked(handler.command, parts.path, dict(urllib.parse.parse_qsl(parts.query)), dict(handler.headers))
        with self.lock:
            asked.number = 1 + sum((other.method, other.path) == (asked.method, asked.path) for other in self.asked)
            self.asked.append(asked)
        if not self.read_body(handler, asked):
            return
        answer = self.decide(asked)
        if answer is not None and answer.status:
            self.reply(handler, answer.status, answer.headers, answer.body)
            return
        self.serve(handler, asked, answer or Answer())

    def read_body(self, handler, asked):
        length = int(handler.headers.get("Content-Length") or 0)
        most = self.read_at_most(asked)
        asked.body = handler.rfile.read(length if most is None else min(length, most))
        if len(asked.body) == length:
            return True
        # What came before the break is kept, as registries do.
        upload = asked.path.rsplit("/", 1)[-1]
        if upload in self.uploads:
            self.uploads[upload] += asked.body
        handler.close_connection = True
        return False

    def serve(self, handler, asked, answer):
        match = re.fullmatch(r"/v2/(?P<name>.+)/(?P<kind>blobs/uploads|blobs|manifests|referrers)/(?P<what>[^/]*)", asked.path)
        if asked.path == "/v2/":
            self.reply(handler, 200, {}, b"{}")
        elif not match:
            self.reply(handler, 404, {}, b"")
        elif match["kind"] == "blobs/uploads":
            self.upload(handler, asked, match["name"], match["what"])
        elif match["kind"] == "manifests" and asked.method == "PUT":
            self.take_manifest(handler, asked, match["what"])
        elif match["kind"] == "manifests":
            self.give_manifest(handler, asked, answer, match["what"])
        elif match["kind"] == "blobs" and match["what"] in self.blobs:
            self.send(handler, asked, answer, self.blobs[match["what"]], {"Content-Type": "application/octet-stream"})
        else:
            self.error(handler, 404, "BLOB_UNKNOWN")

    def upload(self, handler, asked, name, what):
        here = f"/v2/{name}/blobs/uploads/"
        if asked.method == "POST":
            what = f"u{len(self.uploads)}"
            self.uploads[what] = b""
            self.reply(handler, 202, {"Location": here + what}, b"")
        elif what not in self.uploads:
            self.error(handler, 404, "BLOB_UPLOAD_UNKNOWN")
        elif asked.method == "GET":
            self.reply(handler, 204, {"Location": here + what, "Range": f"0-{max(0, len(self.uploads[what]) - 1)}"}, b"")
        elif asked.method == "PATCH":
            self.uploads[what] += asked.body
            self.reply(handler, 202, {"Location": here + what, "Range": f"0-{len(self.uploads[what]) - 1}"}, b"")
        else:
            content = self.uploads.pop(what) + asked.body
            if digest_of(content) != asked.query["digest"]:
                self.error(handler, 400, "DIGEST_INVALID")
                return
            self.blobs[digest_of(content)] = content
            self.reply(handler, 201, {"Location": f"/v2/{name}/blobs/{digest_of(content)}"}, b"")

    def take_manifest(self, handler, asked, name):
        digest = digest_of(asked.body)
        self.manifests[digest] = (asked.headers["Content-Type"], asked.body)
        if not name.startswith("sha256:"):
            self.tags[name] = digest
        headers = {"Docker-Content-Digest": digest}
        subject = json.loads(asked.body).get("subject")
        if subject and self.referrers:
            headers["OCI-Subject"] = subject["digest"]
        self.reply(handler, 201, headers, b"")

    def give_manifest(self, handler, asked, answer, name):
        digest = self.tags.get(name, name)
        if digest not in self.manifests:
            self.error(handler, 404, "MANIFEST_UNKNOWN")
            return
        kind, content = self.manifests[digest]
        self.send(handler, asked, answer, content, {"Content-Type": kind, "Docker-Content-Digest": digest})

    # ---- answers ----

    def send(self, handler, asked, answer, content, headers):
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", asked.headers.get("Range", ""))
        begin, end, status = 0, len(content), 200
        if match and not answer.ignore_range:
            begin, end, status = int(match[1]), min(int(match[2]) + 1, len(content)), 206
            headers = {**headers, "Content-Range": f"bytes {begin}-{end - 1}/{len(content)}"}
        body = bytearray(content[begin:end])
        if answer.flip and body:
            body[len(body) // 2] ^= 1
        self.reply(handler, status, headers, bytes(body), answer.cut_after)

    def error(self, handler, status, code):
        self.reply(handler, status, {}, json.dumps({"errors": [{"code": code, "message": "so it is"}]}).encode())

    @staticmethod
    def reply(handler, status, headers, body, cut_after=None):
        handler.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(body))}.items():
            if status != 204 or key != "Content-Length":
                handler.send_header(key, value)
        handler.end_headers()
        if handler.command == "HEAD":
            return
        handler.wfile.write(body if cut_after is None else body[:cut_after])
        if cut_after is not None and cut_after < len(body):
            handler.close_connection = True
