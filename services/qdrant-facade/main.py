"""Starts the Qdrant facade with settings from the environment; logs are JSON lines."""

import json
import os
import signal
import sys
import threading
from pathlib import Path

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def log(message: str, **fields: object) -> None:
    """Logs a line. One that cannot be written, as on a full disk, is dropped and counted; requests do not fail."""
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
        refuse(f"HOST: must be one of {', '.join(LOOPBACK)}: the Qdrant facade is reachable from this machine only")
    port = os.environ.get("PORT") or ""
    if not (port.isdecimal() and int(port) <= 65_535):
        refuse("PORT: must be a port number")
    tools, data = os.environ.get("TOOLS_DIR") or "", os.environ.get("DATA_DIR") or ""
    if not (Path(tools) / "qdrant_edge").is_dir():
        refuse("TOOLS_DIR: does not contain the Python package qdrant-edge-py")
    if data == "":
        refuse("DATA_DIR: must be a folder")

    # Imported late, because qdrant_edge is found through TOOLS_DIR.
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

    log("This Qdrant facade is for development and small installations; run the Qdrant server for anything else.")
    log("listening", url=f"http://{f'[{host}]' if ':' in host else host}:{server.server_address[1]}")
    stopping = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stopping.set())
    while not stopping.wait(FLUSH_INTERVAL_SECONDS):
        try:
            collections.flush()
        except Exception as error:
            # For instance on a full disk. No data is lost, and the next flush tries again.
            log("collections could not be flushed", error=str(error))
    server.shutdown()
    collections.close()


# Acknowledged points are in the write-ahead log already; flushing keeps that log short.
FLUSH_INTERVAL_SECONDS = 5

if __name__ == "__main__":
    main()
