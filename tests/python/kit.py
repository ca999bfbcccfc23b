"""kit.py - a gateway and a mock for the tests, as processes of their own on free ports."""

import hashlib
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import unittest
import urllib.request
from pathlib import Path
from typing import Any

PROGRAM = os.environ.get("TOLLGATE", "build/tollgate")
TOKEN = "token-of-the-caller"


class Process:
    """The program, and what it has said."""

    def __init__(self, test: unittest.TestCase, *args: str) -> None:
        self.child = subprocess.Popen(
            [PROGRAM, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
        )
        self.said = ""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        test.addCleanup(self.stop)

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            with self._changed:
                self.said += line
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, pattern: str) -> re.Match[str]:
        with self._changed:
            found = None
            ok = self._changed.wait_for(
                lambda: bool(re.search(pattern, self.said)) or not self._reader.is_alive(), timeout=60
            )
            found = re.search(pattern, self.said)
            if not ok or found is None:
                raise AssertionError(f"the program has not said {pattern!r}: {self.said}")
            return found

    def stop(self) -> None:
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(30)
            except subprocess.TimeoutExpired:
                self.child.kill()
        self.child.wait()
        self._reader.join(10)
        if self.child.stdout is not None:
            self.child.stdout.close()


class Gateway:
    """A gateway with one caller, who may state everything."""

    def __init__(self, test: unittest.TestCase, **config: Any) -> None:
        folder = tempfile.TemporaryDirectory()
        test.addCleanup(folder.cleanup)
        token = hashlib.sha256(TOKEN.encode()).hexdigest()
        whole = {
            "listen": {"gateway": "127.0.0.1:0", "probe": "127.0.0.1:0", "grpc": "127.0.0.1:0"},
            "callers": [
                {"name": "test", "token_sha256": token, "may": ["tenant", "peer", "priority", "value"]},
            ],
            **config,
        }
        file = Path(folder.name) / "tollgate.yaml"
        file.write_text(json.dumps(whole))
        self.process = Process(test, "serve", "-c", str(file))
        found = self.process.wait_for(r"listening on (.*)")
        ports = {what: port for port, what in re.findall(r"127\.0\.0\.1:(\d+) \((\w+)\)", found[1])}
        self.http = f"http://127.0.0.1:{ports['gateway']}"
        self.grpc = f"grpc://127.0.0.1:{ports['grpc']}"
        self.probe = f"http://127.0.0.1:{ports['probe']}"

    def metric(self, name: str) -> float:
        """The sum over all its lines."""
        with urllib.request.urlopen(f"{self.probe}/metrics") as reply:
            text = reply.read().decode()
        return sum(float(value) for value in re.findall(rf"^tollgate_{name}(?:\{{.*\}})? (\S+)$", text, re.M))


def start_mock(test: unittest.TestCase, *args: str) -> str:
    """Its address."""
    mock = Process(test, "mock", "--port", "0", *args)
    return f"http://127.0.0.1:{mock.wait_for(r'listening on 127.0.0.1:([0-9]+)')[1]}"
