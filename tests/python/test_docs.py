"""test_docs.py - the code of docs/python.md runs as it is written, against a gateway."""

import contextlib
import io
import os
import re
import unittest
import unittest.mock
from pathlib import Path

from kit import TOKEN, Gateway


class Docs(unittest.TestCase):
    def test_its_code_runs(self) -> None:
        gateway = Gateway(self, gate={"concurrency": {"law": "fixed", "initial": 2}})
        page = Path("docs/python.md").read_text()
        blocks = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
        self.assertGreaterEqual(len(blocks), 5)
        names: dict[str, object] = {}
        said = io.StringIO()
        with (
            unittest.mock.patch.dict(os.environ, {"TOLLGATE_TOKEN": TOKEN}),
            contextlib.redirect_stdout(said),
        ):
            for block in blocks:
                exec(compile(block.replace("http://127.0.0.1:8080", gateway.http), "docs/python.md", "exec"), names)
            exec("answer = handle('acme', 'bob', 500)", names)
            # A user may make 20 calls a minute.
            exec("refused = [handle('acme', 'eve', 500) for _ in range(25)][-1]", names)
        self.assertEqual(said.getvalue(), "hello\n")
        self.assertEqual(names["answer"], "hello")
        self.assertRegex(str(names["refused"]), r"^429, retry after \d+ ms: rate limit of user eve of tenant acme")
        while gateway.metric("concurrency_in_flight") != 0:
            pass
