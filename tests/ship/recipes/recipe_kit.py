"""recipe_kit.py - other people's proxies as processes, and requests to them."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "python"))
EXAMPLES = Path("examples")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def folder_for(test: unittest.TestCase) -> Path:
    folder = tempfile.TemporaryDirectory()
    test.addCleanup(folder.cleanup)
    return Path(folder.name)


def start(test: unittest.TestCase, command: list[str], port: int, **more: Any) -> Path:
    """A process that listens on a port; what it says goes to a file."""
    log = folder_for(test) / "log"
    with log.open("w") as out:
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **more)

    def stop() -> None:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    test.addCleanup(stop)
    while True:
        if child.poll() is not None:
            raise AssertionError(f"{command[0]} has ended: {log.read_text()[-3000:]}")
        try:
            socket.create_connection(("127.0.0.1", port), 5).close()
            return log
        except OSError:
            time.sleep(0.2)


class Reply:
    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status = status
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.body = body


def send(url: str, body: object = None, **headers: str) -> Reply:
    raw = None if body is None else json.dumps(body).encode()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if raw is not None:
        sent["content-type"] = "application/json"
    request = urllib.request.Request(url, raw, sent)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=120) as reply:
            return Reply(reply.status, reply.headers, reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, error.headers, error.read())


@contextmanager
def app(**headers: str) -> Iterator[tuple[str, list[str]]]:
    """A server that says hello: its address, and the paths it was asked for."""
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_response(200)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("content-length", "5")
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", paths
    finally:
        server.shutdown()
        server.server_close()


def tool(name: str) -> str:
    """A program of the folder with what comes from PyPI, or of the path."""
    here = Path(sys.executable).parent / name
    return str(here) if here.exists() else os.environ.get(name.upper(), name)


def until(name: str, function: Any) -> None:
    for _ in range(600):
        if function():
            return
        time.sleep(0.1)
    raise AssertionError(f"this has not come: {name}")
