"""Routes HTTP requests and answers them in the shape of the Qdrant server."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

from collections_folder import CollectionsFolder
from problem import Problem

Json = dict[str, Any]
Log = Callable[..., None]
Handle = Callable[..., object]

# The Qdrant version whose API the facade follows: clients compare it with their own.
SERVER_VERSION = "1.19.0"
# The Qdrant server's default limit.
MAX_BODY_BYTES = 32 * 1024 * 1024
HEALTH = {"/healthz": "healthz check passed", "/livez": "livez check passed", "/readyz": "all shards are ready"}


def routes(collections: CollectionsFolder) -> list[tuple[str, re.Pattern[str], Handle]]:
    one = r"/collections/([^/]+)"

    def on(name: str) -> Handle:
        return lambda body, collection, *rest: getattr(collections.get(collection), name)(body, *rest)

    table: list[tuple[str, str, Handle]] = [
        ("GET", "/collections", lambda _: {"collections": [{"name": name} for name in collections.names()]}),
        ("GET", one, lambda _, name: collections.get(name).info()),
        ("GET", f"{one}/exists", lambda _, name: {"exists": name in collections.names()}),
        ("PUT", one, lambda body, name: collections.create(name, body)),
        ("PATCH", one, on("change")),
        ("DELETE", one, lambda _, name: collections.delete(name)),
        ("PUT", f"{one}/index", on("create_index")),
        ("PUT", f"{one}/points", on("upsert")),
        ("POST", f"{one}/points", on("retrieve")),
        ("POST", f"{one}/points/query", on("query")),
        ("POST", f"{one}/points/scroll", on("scroll")),
        ("POST", f"{one}/points/count", on("count")),
        ("POST", f"{one}/points/delete", on("delete")),
        ("POST", f"{one}/points/payload", on("set_payload")),
    ]
    return [(method, re.compile(pattern), handle) for method, pattern, handle in table]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), handler)

    def handle_error(self, *_: object) -> None:
        """Ignores client disconnects, the only errors that arrive here."""


def serve(
    host: str, port: int, names: Sequence[str], collections: CollectionsFolder, api_key: str | None, log: Log
) -> Server:
    """Starts the server in a thread. Requests whose `Host` is not in `names` are refused with 403."""
    table = routes(collections)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Seconds. Longer than clients keep idle connections, so that none is closed during a request.
        timeout = 75
        disable_nagle_algorithm = True

        def answer(self) -> None:
            began = time.perf_counter()
            path = urlsplit(self.path).path
            body = self.read_body()
            if path in HEALTH:
                return self.send(200, HEALTH[path].encode(), "text/plain")
            try:
                # Prevents DNS rebinding: a web page may have pointed its own host name to 127.0.0.1.
                if urlsplit(f"//{self.headers.get('host', '')}").hostname not in names:
                    raise Problem(403, "Forbidden: the Host header must name a loopback address")
                if api_key is not None and self.headers.get("api-key") != api_key:
                    raise Problem(401, "Must provide an API key or an Authorization bearer token")
                if body is None:
                    raise Problem(413, "Payload error: the body is too large")
                # Prevents cross-site requests: browsers send JSON to another origin only after a CORS preflight.
                if body and self.headers.get_content_type() != "application/json":
                    raise Problem(400, "Format error in JSON body: Content type error")
                result = self.result(path, body)
                if path == "/":
                    return self.send_json(200, {"title": "qdrant-facade", "version": SERVER_VERSION})
                answer: Json = {"result": result, "status": "ok"}
                status = 200
            except Problem as problem:
                status, answer = problem.status, {"status": {"error": str(problem)}}
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                status, answer = 400, {"status": {"error": f"Format error in JSON body: {error!r}"}}
            except Exception as error:
                log("request failed", method=self.command, path=path, error=str(error))
                status, answer = 500, {"status": {"error": f"Service internal error: {error}"}}
            self.send_json(status, {**answer, "time": time.perf_counter() - began})

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = answer

        def result(self, path: str, body: bytes) -> object:
            if path == "/":
                return None
            found = [(method, match, handle) for method, pattern, handle in table if (match := pattern.fullmatch(path))]
            for method, match, handle in found:
                if method == self.command:
                    return handle(json.loads(body) if body else {}, *map(unquote, match.groups()))
            raise Problem(405, "Method not allowed") if found else Problem(404, f"Not found: {path}")

        def read_body(self) -> bytes | None:
            """None if the body is too large. It is read anyway: a client cut off while it sends never sees the 413."""
            left = int(self.headers.get("content-length") or 0)
            if left <= MAX_BODY_BYTES:
                return self.rfile.read(left)
            while left > 0 and (part := self.rfile.read(min(left, 1 << 20))):
                left -= len(part)
            return None

        def send_json(self, status: int, answer: Json) -> None:
            self.send(status, json.dumps(answer).encode(), "application/json")

        def send(self, status: int, body: bytes, media_type: str) -> None:
            self.send_response(status)
            self.send_header("content-type", media_type)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Disables the access log: the application logs its requests."""

    server = Server(host, port, Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
