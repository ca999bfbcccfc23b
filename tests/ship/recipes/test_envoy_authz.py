"""test_envoy_authz.py - the real Envoy with examples/envoy/ext_authz.yaml, over gRPC and over HTTP."""

import hashlib
import json
import subprocess
import unittest
from pathlib import Path

from kit import Process
from recipe_kit import EXAMPLES, app, folder_for, free_port, send, start, tool

KEY = "tg-key-of-team-a"
FILE = EXAMPLES / "envoy" / "ext_authz.yaml"


def over_http(text: str) -> str:
    """The example as its comments say: the service that is spoken to over HTTP, in place of gRPC."""
    lines = text.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.strip() == "grpc_service:")
    comment = next(i for i, line in enumerate(lines) if line.strip() == "# http_service:")
    end = next(i for i in range(comment, len(lines)) if not lines[i].strip().startswith("#"))
    http = [line.replace("# ", "", 1) for line in lines[comment:end]]
    return "\n".join(lines[:begin] + http + lines[end:]) + "\n"


class ExternalAuthorization(unittest.TestCase):
    def served(self, http: bool) -> None:
        port, gateway_port, grpc_port, probe_port = (free_port() for _ in range(4))
        folder = folder_for(self)
        tollgate = folder / "tollgate.yaml"
        listen = {"gateway": gateway_port, "grpc": grpc_port, "probe": probe_port}
        tollgate.write_text(
            json.dumps(
                {
                    "listen": {name: f"127.0.0.1:{number}" for name, number in listen.items()},
                    "ext_authz": {},
                    "tenants": [
                        {
                            "name": "team-a",
                            "keys": [{"name": "k", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}],
                            "cost": {"strategy": "token_bucket", "capacity": 22, "refill": 0.02},
                        }
                    ],
                }
            )
        )
        Process(self, "serve", "-c", str(tollgate)).wait_for("listening on")
        with app() as (address, paths):
            text = over_http(FILE.read_text()) if http else FILE.read_text()
            host, app_port = address.split(":")
            for old, new in (
                ("address: 0.0.0.0, port_value: 10000", f"address: 127.0.0.1, port_value: {port}"),
                ("address: 127.0.0.1, port_value: 3000", f"address: {host}, port_value: {app_port}"),
                ("port_value: 50051", f"port_value: {grpc_port}"),
                ("port_value: 8080", f"port_value: {gateway_port}"),
                ("timeout: 0.25s", "timeout: 20s"),
            ):
                self.assertIn(old, text)
                text = text.replace(old, new)
            config = folder / "envoy.yaml"
            config.write_text(text)
            command = [tool("envoy"), "-c", str(config), "--use-dynamic-base-id", "--concurrency", "1"]
            start(self, command, port)
            url = f"http://127.0.0.1:{port}"
            mine = {"authorization": f"Bearer {KEY}"}

            self.assertEqual(send(f"{url}/x").status, 401, "nobody")
            self.assertEqual(
                send(f"{url}/x?tenant=team-a", x_tollgate_tenant="team-a").status, 401, "nobody who says so"
            )
            # The query is the client's, and no parameter of ours.
            first = send(f"{url}/x?page=2&cost=9&user=u", **mine)
            self.assertEqual(first.status, 200, first.body)
            self.assertIn("x-ratelimit-remaining-tokens", first.headers)
            self.assertEqual(paths, ["/x?page=2&cost=9&user=u"])
            if not http:
                # What the route says goes before: 20 units, of which 21 are left; then one.
                self.assertEqual(send(f"{url}/reports", **mine).status, 200)
                self.assertEqual(send(f"{url}/reports", **mine).status, 429)
                self.assertEqual(send(f"{url}/y", **mine).status, 200)
            else:
                self.assertEqual([send(f"{url}/y", **mine).status for _ in range(21)], [200] * 21)
            refused = send(f"{url}/z", **mine)
            self.assertEqual(refused.status, 429, refused.headers)
            self.assertEqual(refused.headers["x-tollgate-reason"], "cost")
            self.assertGreater(int(refused.headers["retry-after"]), 0)
            self.assertNotIn("/z", paths)

    def test_over_grpc(self) -> None:
        self.served(http=False)

    def test_over_http(self) -> None:
        self.served(http=True)

    def test_the_example_is_valid_as_it_is(self) -> None:
        for text in (FILE.read_text(), over_http(FILE.read_text())):
            file = Path(folder_for(self)) / "envoy.yaml"
            file.write_text(text)
            command = [tool("envoy"), "-c", str(file), "--mode", "validate"]
            check = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(check.returncode, 0, "the example as it is: " + check.stderr)
