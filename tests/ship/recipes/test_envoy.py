"""test_envoy.py - the real Envoy with examples/envoy: it asks before it forwards, and tells usage at the end."""

import shutil
import subprocess
import unittest

from kit import Process
from recipe_kit import EXAMPLES, app, folder_for, free_port, send, start, tool


class Envoy(unittest.TestCase):
    def test_the_example_limits_requests_and_tokens(self) -> None:
        folder = folder_for(self)
        for name in ("envoy.yaml", "ratelimit.yaml", "tollgate.yaml"):
            shutil.copy(EXAMPLES / "envoy" / name, folder)
        port, grpc_port, http_port, probe_port = (free_port() for _ in range(4))
        tollgate = folder / "tollgate.yaml"
        text = tollgate.read_text()
        for old, new in (("8080", http_port), ("50051", grpc_port), ("8081", probe_port)):
            self.assertIn(f"127.0.0.1:{old}", text)
            text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
        tollgate.write_text(text)
        rules = folder / "ratelimit.yaml"
        text = rules.read_text()
        for old, new_number in (("600", 4), ("1000000", 100)):
            self.assertIn(f"requests_per_unit: {old}\n", text)
            text = text.replace(f"requests_per_unit: {old}\n", f"requests_per_unit: {new_number}\n")
        rules.write_text(text)
        Process(self, "serve", "-c", str(tollgate)).wait_for("listening on")
        # Each call uses 60 tokens: of 100, two are admitted, because what is left is asked for before.
        with app(x_total_tokens="60") as (address, paths):
            config = folder / "envoy.yaml"
            text = config.read_text()
            app_host, app_port = address.split(":")
            for old, new_text in (
                ("address: 0.0.0.0, port_value: 10000", f"address: 127.0.0.1, port_value: {port}"),
                ("address: 127.0.0.1, port_value: 3000", f"address: {app_host}, port_value: {app_port}"),
                ("address: 127.0.0.1, port_value: 50051", f"address: 127.0.0.1, port_value: {grpc_port}"),
                ("timeout: 0.05s", "timeout: 20s"),
                ("failure_mode_deny: false", "failure_mode_deny: true"),
            ):
                self.assertIn(old, text)
                text = text.replace(old, new_text)
            config.write_text(text)
            command = [tool("envoy"), "-c", str(config), "--use-dynamic-base-id", "--concurrency", "1"]
            check = subprocess.run([*command, "--mode", "validate"], capture_output=True, text=True, check=False)
            self.assertEqual(check.returncode, 0, check.stderr)
            start(self, command, port)
            url = f"http://127.0.0.1:{port}/v1/chat"

            replies = [send(url, x_team="tokens") for _ in range(3)]
            self.assertEqual([reply.status for reply in replies], [200, 200, 429], replies[-1].headers)
            self.assertEqual(len(paths), 2, "the server does not hear of what was refused")

            # Another team has its own counts: four requests a minute, of which tokens refuse the third.
            other = [send(url, x_team="other") for _ in range(2)]
            self.assertEqual([reply.status for reply in other], [200, 200])
            self.assertIn("x-ratelimit-limit", other[0].headers)

    def test_the_example_is_valid_as_it_is(self) -> None:
        check = subprocess.run(
            [tool("envoy"), "-c", str(EXAMPLES / "envoy" / "envoy.yaml"), "--mode", "validate"],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(check.returncode, 0, "the example as it is: " + check.stderr)
