"""An HTTP proxy on 127.0.0.1 that plays a slow link: all connections together get so many bytes a second, and every
byte arrives later by the latency. CONNECT (for https) and absolute addresses (for http) are understood."""

import asyncio
import threading
from urllib.parse import urlsplit

CHUNK = 16 * 1024


class ThrottledProxy:
    def __init__(self, bytes_per_second, latency):
        self.rate, self.latency = bytes_per_second, latency
        self.passed = 0  # bytes that went to the clients
        self._free_at = 0.0  # when the link has sent everything it took on so far
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @property
    def environment(self):
        address = f"http://127.0.0.1:{self.port}"
        return {name: address for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")} | {"no_proxy": "", "NO_PROXY": ""}

    def _serve(self):
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._client, "127.0.0.1", 0, limit=64 * 1024))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()

    async def _client(self, reader, writer):
        upstream = None
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
            if method == "CONNECT":
                host, port = target.rsplit(":", 1)
                upstream_reader, upstream = await asyncio.open_connection(host, int(port))
                writer.write(b"HTTP/1.1 200 connected\r\n\r\n")
            else:
                parts = urlsplit(target)
                upstream_reader, upstream = await asyncio.open_connection(parts.hostname, parts.port or 80)
                path = parts.path + (f"?{parts.query}" if parts.query else "")
                # One request per connection: enough, and nothing has to be parsed further.
                lines = [line for line in head.split(b"\r\n")[1:-2] if not line.lower().startswith((b"connection:", b"proxy-connection:"))]
                upstream.write(b"\r\n".join([f"{method} {path} HTTP/1.1".encode("latin-1"), *lines, b"Connection: close", b"", b""]))
            await asyncio.gather(self._pump(reader, upstream, 0), self._pump(upstream_reader, writer, self.rate))
        except (OSError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            for end in (writer, upstream):
                if end is not None:
                    end.close()

    async def _pump(self, reader, writer, rate):
        """Bytes in order; each half of a round trip takes half of the latency."""
        sent = asyncio.Queue(maxsize=64)

        async def deliver():
            while True:
                due, data = await sent.get()
                await asyncio.sleep(max(0.0, due - self._loop.time()))
                if not data:
                    break
                writer.write(data)
                await writer.drain()
                if rate:
                    self.passed += len(data)
            if writer.can_write_eof():
                writer.write_eof()

        delivery = asyncio.ensure_future(deliver())
        try:
            while data := await reader.read(CHUNK):
                now = self._loop.time()
                if rate:
                    self._free_at = max(self._free_at, now) + len(data) / rate
                    await asyncio.sleep(self._free_at - now)
                await sent.put((self._loop.time() + self.latency / 2, data))
            await sent.put((self._loop.time() + self.latency / 2, b""))
            await delivery
        finally:
            delivery.cancel()
