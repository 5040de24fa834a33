"""edge · pictures: the page on this machine's loopback address, made again when its content has changed.

It is the page that `animate` writes, not a second viewer: what one sees live is what one sends, time bar and plots that
follow it included, which a general scene viewer (viser) does not have.
"""

from __future__ import annotations

import contextlib
import html
import socket
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dalembert._results import DalembertError

HOST = "127.0.0.1"
PATIENCE = 10.0
"""Seconds in which a request must be complete, and its answer read."""
MOST = 32
"""Connections at a time; a browser needs a handful."""

_SORRY = """<!doctype html><html lang="en"><meta charset="utf-8"><title>dalembert</title><link rel="icon" href="data:,">
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46em; margin: 12vh auto; padding: 0 2em; color: #1d2733 }}
pre {{ white-space: pre-wrap; background: #f3f5f8; padding: 1em; border-radius: 8px }}</style>
<h1>Not yet</h1><pre>{text}</pre><p>Mend the file; this page reads it again by itself.</p>
<script>const asking = setInterval(async () => {{ try {{
if (await (await fetch("stamp")).text() !== "{stamp}") {{
clearInterval(asking); location.reload(); }} }} catch {{ }} }}, 1000);</script></html>"""


class Server:
    """Shows one page. `make(stamp)` gives it as text; `stamp()` is a text that changes when it should be made again.

    Bound to loopback only, and it answers only requests to a loopback name. Port 0 picks a free one; see `address`.
    """

    def __init__(self, make: Callable[[str], str], stamp: Callable[[], str] = lambda: "-", port: int = 0):
        self._make, self._stamp = make, stamp
        self._page: tuple[str, bytes] | None = None
        self._lock = threading.Lock()
        try:
            self._server = _Connections((HOST, port), _handler(self))
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise DalembertError(
                f"Cannot open port {port} on this machine: {reason}. Try another with --port."
            ) from None

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self._server.server_port}/"

    def run(self) -> None:
        """Serve until interrupted."""
        try:
            self._server.serve_forever()
        finally:
            self._server.server_close()

    def start(self) -> None:
        """Serve in the background."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def page(self) -> bytes:
        """The page of the present stamp, made once."""
        with self._lock:
            stamp = self._stamp()
            if self._page is None or self._page[0] != stamp:
                try:
                    text = self._make(stamp)
                except DalembertError as error:
                    text = _SORRY.format(text=html.escape(str(error)), stamp=stamp)
                self._page = (stamp, text.encode())
            return self._page[1]

    def stamp(self) -> bytes:
        return self._stamp().encode()


class _Connections(ThreadingHTTPServer):
    """A thread for each connection, of which there are few, and none that waits for ever."""

    daemon_threads = True

    def __init__(self, *arguments):
        self._room = threading.BoundedSemaphore(MOST)
        self._pending: dict[Any, float] = {}  # connections without a complete request, since when
        super().__init__(*arguments)

    def process_request(self, request, client_address):
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._pending[request] = time.monotonic()
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self.done(request)
            raise

    def process_request_thread(self, request, client_address):
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.done(request)

    def done(self, request) -> None:
        self.asked(request)
        self._room.release()

    def asked(self, request) -> None:
        self._pending.pop(request, None)

    def service_actions(self):
        """Every half second: drop connections without a complete request in time, even if bytes still arrive."""
        late = time.monotonic() - PATIENCE
        for request, since in list(self._pending.items()):
            if since < late:
                with contextlib.suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request, client_address):
        # a client that disconnected is not an error
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = PATIENCE

        def do_GET(self):
            assert isinstance(self.server, _Connections)
            self.server.asked(self.request)
            # another site's page cannot read this one under a name of its own
            if self.headers.get("Host", "").rsplit(":", 1)[0].lower() not in (HOST, "localhost"):
                self.send_error(HTTPStatus.FORBIDDEN)
                return
            answers = {"/": ("text/html; charset=utf-8", server.page), "/stamp": ("text/plain", server.stamp)}
            path = self.path.partition("?")[0]
            if path not in answers:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            kind, answer = answers[path]
            body = answer()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler
