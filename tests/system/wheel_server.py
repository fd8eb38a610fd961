"""A server of wheels on loopback that counts what it sends and misbehaves on demand, and locks that point to it."""

import hashlib
import json
import re
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Request:
    name: str  # of the file
    begin: int
    end: int
    number: int  # of this request, from 1, over all files
    sent: int = 0


@dataclass
class Behaviour:
    """What to do with one request; as it stands, what is right."""

    status: int = 0
    headers: dict = field(default_factory=dict)
    send_at_most: int = 1 << 60  # then the connection is cut
    then_silence: bool = False  # instead of the cut
    ignore_range: bool = False
    flip: bool = False  # one byte arrives damaged
    content: bytes = None  # another file instead


class WheelServer:
    """Serves `files`; `decide(request)` may return a Behaviour. `rate` limits all streams together, in bytes a second."""

    def __init__(self, files, decide=None, rate=None):
        self.files, self.decide, self.rate = files, decide or (lambda request: None), rate
        self.requests, self.lock, self.gone = [], threading.Lock(), threading.Event()
        self.free_from = 0.0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                try:
                    outer.answer(self)
                except OSError:
                    self.close_connection = True

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

            def handle_error(self, *_):
                pass  # clients are killed in these tests

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def close(self):
        self.gone.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def forget(self):
        with self.lock:
            self.requests = []

    def sent(self):
        with self.lock:
            return sum(request.sent for request in self.requests)

    def answer(self, handler):
        if handler.path.startswith("/simple/"):
            return self.answer_index(handler, handler.path.split("/")[2])
        name = handler.path.rpartition("/")[2]
        content = self.files.get(name) if "/gone/" not in handler.path else None
        begin, end = self.range_of(handler, len(content or b""))
        with self.lock:
            request = Request(name, begin, end, len(self.requests) + 1)
            self.requests.append(request)
        behaviour = self.decide(request) or Behaviour()
        if content is None or behaviour.status >= 400:
            return self.refuse(handler, 404 if content is None else behaviour.status, behaviour.headers)
        self.send(handler, request, behaviour, content if behaviour.content is None else behaviour.content)

    @staticmethod
    def range_of(handler, size):
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", handler.headers.get("Range", ""))
        return (int(match[1]), min(int(match[2]) + 1, size)) if match else (0, size)

    @staticmethod
    def refuse(handler, status, headers):
        handler.send_response(status)
        for key, value in {**headers, "Content-Length": "3"}.items():
            handler.send_header(key, value)
        handler.end_headers()
        handler.wfile.write(b"no\n")

    def answer_index(self, handler, project):
        files = [{"filename": name, "url": f"{self.address}/files/{name}", "size": len(content),
                  "hashes": {"sha256": hashlib.sha256(content).hexdigest()}}
                 for name, content in self.files.items() if name.split("-")[0].lower().replace("_", "-") == project]
        body = json.dumps({"meta": {"api-version": "1.1"}, "name": project, "files": files}).encode()
        handler.send_response(200)
        handler.send_header("Content-Type", "application/vnd.pypi.simple.v1+json")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def send(self, handler, request, behaviour, content):
        ranged = "Range" in handler.headers and not behaviour.ignore_range
        begin, end = (request.begin, min(request.end, len(content))) if ranged else (0, len(content))
        request.begin, request.end = begin, end
        handler.send_response(206 if ranged else 200)
        if ranged:
            handler.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(content)}")
        handler.send_header("Content-Length", str(end - begin))
        handler.end_headers()
        body = bytearray(content[begin:end][:behaviour.send_at_most])
        if behaviour.flip and body:
            body[len(body) // 2] ^= 1
        for start in range(0, len(body), 65536):
            piece = bytes(body[start:start + 65536])
            self.wait_for_turn(len(piece))
            handler.wfile.write(piece)
            request.sent += len(piece)
        if len(body) < end - begin:
            if behaviour.then_silence:
                self.gone.wait()
            handler.close_connection = True

    def wait_for_turn(self, size):
        if not self.rate:
            return
        with self.lock:
            now = time.monotonic()
            self.free_from = max(self.free_from, now) + size / self.rate
            pause = self.free_from - now
        time.sleep(pause)


def fetch_wheels(lock):
    """The wheels that a lock names, from where it says, as {file name: content}."""
    return {Path(address).name: urllib.request.urlopen(address, timeout=120).read()
            for address in re.findall(r'url = "([^"]+\.whl)"', lock)}


def lock_for(lock, server, folder="files"):
    """The same lock with every wheel at the server."""
    lock = re.sub(r'url = "[^"]+/([^/"]+\.whl)"', rf'url = "{server.address}/{folder}/\1"', lock)
    return re.sub(r"(?m)^index = .*\n", "", lock)
