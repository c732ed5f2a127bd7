"""Starts the facade: settings from the environment, one JSON log line for each thing that happens to it."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def log(message: str, **fields: object) -> None:
    """A line that cannot be written, as on a full disk, is lost and counted: no request waits for a log."""
    global lost
    try:
        if lost:
            write_line({"msg": f"{lost} lines before this one are lost"})
        lost = 0
        write_line({"msg": message, **fields})
    except OSError:
        lost += 1


def write_line(fields: dict[str, object]) -> None:
    os.write(sys.stdout.fileno(), (json.dumps({"name": "qdrant-facade", **fields}) + "\n").encode())


lost = 0


def refuse(reason: str) -> None:
    log(reason)
    sys.exit(1)


def main() -> None:
    host = os.environ.get("HOST") or "127.0.0.1"
    if host not in LOOPBACK:
        refuse(f"HOST: must be one of {', '.join(LOOPBACK)}: the facade is for this machine only")
    port = os.environ.get("PORT") or ""
    if not (port.isdecimal() and int(port) <= 65_535):
        refuse("PORT: must be a port number")
    tools, data = os.environ.get("TOOLS_DIR") or "", os.environ.get("DATA_DIR") or ""
    if not (Path(tools) / "qdrant_edge").is_dir():
        refuse("TOOLS_DIR: the package qdrant-edge-py is not in it")
    if data == "":
        refuse("DATA_DIR: must be a folder")

    # Only now is it known where the engine is.
    sys.path.append(tools)
    from collections_folder import CollectionsFolder
    from server import serve

    try:
        collections = CollectionsFolder(Path(data))
    except Exception as error:
        refuse(f"DATA_DIR: {error}")
    try:
        server = serve(host, int(port), LOOPBACK, collections, os.environ.get("API_KEY") or None, log)
    except OSError as error:
        refuse(f"PORT: {error}")

    log("This is the engine of Qdrant for development and small installations. Run the Qdrant server for anything else.")
    log("listening", url=f"http://{f'[{host}]' if ':' in host else host}:{server.server_address[1]}")
    stopping = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stopping.set())
    while not stopping.wait(FLUSH_INTERVAL_SECONDS):
        try:
            collections.flush()
        except Exception as error:
            # As on a full disk. Nothing is lost by it, and the next time may do better.
            log("not flushed", error=str(error))
    server.shutdown()
    collections.close()


# What was acknowledged is in the write-ahead log already; this keeps the log short.
FLUSH_INTERVAL_SECONDS = 5

if __name__ == "__main__":
    main()
