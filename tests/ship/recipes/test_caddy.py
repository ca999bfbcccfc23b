"""test_caddy.py - the real Caddy with examples/caddy: it asks Tollgate before it serves."""

import os
import unittest
from pathlib import Path

from kit import TOKEN, Gateway
from recipe_kit import EXAMPLES, app, folder_for, free_port, send, start

CADDY = os.environ.get("CADDY", "build/recipes/caddy")


@unittest.skipUnless(Path(CADDY).exists(), "no Caddy here; make ship-test builds it")
class Caddy(unittest.TestCase):
    def test_it_serves_what_tollgate_allows_and_refuses_the_rest(self) -> None:
        gateway = Gateway(self, gate={"rate": {"strategy": "gcra", "limit": 3, "period": "3m"}})
        port = free_port()
        with app() as (address, paths):
            text = (EXAMPLES / "caddy" / "Caddyfile").read_text()
            for old, new in (
                ("127.0.0.1:8088", f"127.0.0.1:{port}"),
                ("127.0.0.1:8080", gateway.http.removeprefix("http://")),
                ("127.0.0.1:3000", address),
                ("TOKEN-OF-THE-CALLER", TOKEN),
            ):
                self.assertIn(old, text)
                text = text.replace(old, new)
            file = folder_for(self) / "Caddyfile"
            file.write_text(text)
            start(self, [str(Path(CADDY).resolve()), "run", "--adapter", "caddyfile", "--config", str(file)], port)
            url = f"http://127.0.0.1:{port}"
            # A client cannot say whose limits are his: not by headers, nor by the query.
            tries = [
                send(f"{url}/a"),
                send(f"{url}/b?tenant=x", x_tollgate_tenant="y", authorization="Bearer other"),
                send(f"{url}/c", x_tollgate_priority="high"),
                send(f"{url}/d?tenant=z", x_tollgate_tenant="z"),
            ]
            self.assertEqual([reply.status for reply in tries], [200, 200, 200, 429], tries[-1].headers)
            self.assertEqual(paths, ["/a", "/b?tenant=x", "/c"])
            self.assertEqual(tries[0].body, b"hello")
            self.assertEqual(tries[3].headers["x-tollgate-reason"], "rate")
            self.assertGreater(int(tries[3].headers["retry-after"]), 0)
            gateway.process.stop()
            self.assertGreaterEqual(send(f"{url}/e").status, 500)
            self.assertEqual(len(paths), 3, "without a decision nothing is served")
