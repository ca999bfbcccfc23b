"""test_grpc_go.py - grpc-go's own client: reflection, health, push-backs, RetryInfo and gzip."""

import json
import os
import subprocess
import unittest
from pathlib import Path

from kit import TOKEN, Gateway

CLIENT = os.environ.get("GRPC_GO", "build/recipes/grpc_go")


@unittest.skipUnless(Path(CLIENT).exists(), "no client of grpc-go here; make ship-test builds it")
class GrpcGo(unittest.TestCase):
    def test_it_knows_the_contract_from_reflection_and_obeys_the_push_back(self) -> None:
        gateway = Gateway(
            self,
            gate={
                "rate": {"strategy": "gcra", "limit": 1, "period": "3s", "burst": 1},
                "cost": {"strategy": "token_bucket", "capacity": 100, "refill": 0.001},
            },
        )
        address = gateway.grpc.removeprefix("grpc://")
        said = subprocess.run([CLIENT, address, TOKEN], check=False, capture_output=True, text=True, timeout=120)
        self.assertEqual(said.returncode, 0, said.stderr)
        seen = json.loads(said.stdout)
        self.assertIn("tollgate.v1.Admission", seen["services"])
        self.assertIn("grpc.health.v1.Health", seen["services"])
        self.assertEqual(seen["health"]["tollgate.v1.Admission"], "SERVING")
        self.assertEqual(seen["go_package"], "tollgate/v1;tollgatev1")
        self.assertEqual((seen["first"]["code"], seen["first"]["allowed"]), ("OK", True))
        # Three seconds, and up to a tenth more, told twice.
        refused = seen["refused"]
        self.assertEqual(refused["code"], "ResourceExhausted")
        self.assertTrue(0 < refused["hint_ms"] <= 3300, refused)
        self.assertEqual(refused["push_back"], str(refused["hint_ms"]))
        # With its own back-off of 1 ms and three attempts it would fail; it keeps to what it is told.
        self.assertEqual((seen["repeated"]["code"], seen["repeated"]["allowed"]), ("OK", True))
        # What can never pass is asked once.
        self.assertEqual((seen["never"]["code"], seen["never"]["push_back"]), ("InvalidArgument", "-1"))
        self.assertIn(gateway.metric("requests_total"), (4, 5), "on a slow machine nothing has to be repeated")
