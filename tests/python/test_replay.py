"""test_replay.py - 100,000 decisions of the gate in process are those of `tollgate replay`, in every field.

The trace has calls of many tenants over all stages but the policy, with their releases, some late, some never,
with actual usage, with memory that comes and goes, and with a clock that sometimes steps back.
"""

import json
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

from kit import PROGRAM

from tollgate import (
    Concurrency,
    Decision,
    Gate,
    Gcra,
    Lease,
    Limit,
    Memory,
    Peers,
    Refused,
    SlidingWindow,
    TokenBucket,
)
from tollgate.decision import Answer

CALLS = int(os.environ.get("TOLLGATE_DECISIONS", "100000"))

CONFIG = """
gate:
  memory: {pressure: 0.85, critical: 0.95, limit: 0.98}
  concurrency: {law: LAW, initial: 40, min: 8, max: 60}
  queue: {wait: {high: 0ms, normal: 0ms, low: 0ms}}
  peers: {limit: 6}
  lease_ttl: 5s
  rate: {strategy: gcra, limit: 2, period: 1s, burst: 4}
  cost: {strategy: token_bucket, capacity: 6000, refill: 2000}
tenants:
  - name: big
    priority: high
    rate: {strategy: sliding_window, limit: 60, window: 10s}
"""


def events(seed: int, calls: int) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    t, made = 1_760_000_000_000, 0
    open_calls: list[int] = []
    lines: list[dict[str, Any]] = []
    while made < calls:
        t += draw.choice((0, 0, 1, 2, 3, 5, 8, 20))
        at = t - draw.choice((0,) * 50 + (1, 40))
        kind = draw.random()
        if kind < 0.01:
            lines.append({"t": at, "op": "memory", "used": draw.choice((0.5, 0.5, 0.9, 0.96, 0.99))})
        elif kind < 0.45 and open_calls:
            done = open_calls.pop(draw.randrange(len(open_calls)))
            line: dict[str, Any] = {"t": at, "op": "release", "id": done}
            line["outcome"] = draw.choice(("ok", "ok", "ok", "dropped", "cancelled"))
            if draw.random() < 0.7:
                line["actual"] = draw.randrange(600)
            if draw.random() < 0.3:
                line["sample"] = float(draw.randrange(1, 400))
            lines.append(line)
        else:
            tenant = draw.choice(("big", "big", *(f"t{i}" for i in range(20))))
            line = {"t": at, "id": made, "key": tenant, "cost": draw.choice((0, 1, 50, 400, 7000))}
            line["priority"] = draw.choice(("high", "normal", "low"))
            line["peer"] = draw.choice((tenant, "shared"))
            line["model"] = draw.choice(("m1", "m2"))
            lines.append(line)
            if draw.random() < 0.97:
                open_calls.append(made)
            made += 1
    return lines


def told(decision: Decision) -> dict[str, Any]:
    return {
        "allowed": decision.allowed,
        "limit": decision.limit,
        "remaining": decision.remaining,
        "reset_at": decision.reset_at_ms,
        "retry_after": decision.retry_after_ms,
    }


class Replay(unittest.TestCase):
    def decide(self, law: Any, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What the gate says, as `tollgate replay` prints it."""
        now = 0
        gate = Gate(
            {
                "tenant": [
                    Limit(Gcra(limit=2, period_ms=1000, burst=4)),
                    Limit(TokenBucket(capacity=6000, refill=2000), axis="cost"),
                ],
                "cost": [Limit(TokenBucket(capacity=6000, refill=2000), axis="cost")],
                "big": [Limit(SlidingWindow(limit=60, window_ms=10_000))],
            },
            memory=Memory(pressure=0.85, critical=0.95, limit=0.98),
            peers=Peers(limit=6),
            concurrency=Concurrency(law, initial=40, min=8, max=60, wait_ms={"high": 0, "normal": 0, "low": 0}),
            lease_ttl_ms=5000,
            seed=0,
            clock=lambda: now,
        )
        latest = 0

        def pass_until(t: int) -> None:
            """As replay does: what is due before t ends when it is due."""
            nonlocal now, latest
            while (due := gate.next_deadline_ms()) is not None and due < t:
                now = latest = max(latest, due)
                gate.tick()
            latest = max(latest, t)
            now = t

        leases: dict[int, Lease] = {}
        out = []
        for line in lines:
            pass_until(line["t"])
            if line.get("op") == "memory":
                gate.set_memory(line["used"])
            elif line.get("op") == "release":
                lease = leases.pop(line["id"], None)
                if lease is None:
                    gate._see_time(gate._use())
                else:
                    lease.sample_ms = line.get("sample")
                    lease.release(line["outcome"], actual=line.get("actual"))
            else:
                out.append(self.ask(gate, line, leases))
        self.assertGreater(gate.stats().expired, 0, "leases that nobody releases end")
        for lease in leases.values():
            lease.release()
        return out

    def ask(self, gate: Gate, line: dict[str, Any], leases: dict[int, Lease]) -> dict[str, Any]:
        tenant = line["key"]
        answer: Answer
        try:
            lease = gate.admit(
                {"cost": tenant, "big": tenant} if tenant == "big" else {"tenant": tenant},
                cost=line["cost"],
                priority=line["priority"],
                peer=line["peer"],
                tenant=tenant,
                like=line["model"],
            )
            answer = lease.answer
            leases[line["id"]] = lease
        except Refused as refused:
            answer = refused.answer
        said = {**told(answer), "t": line["t"], "id": line["id"]}
        if answer.reason:
            said["reason"] = answer.reason
        if answer.binding_axis:
            said["binding_axis"] = answer.binding_axis
        said["policy_denied"] = answer.policy_denied
        said["axes"] = {name: told(axis) for name, axis in answer.axes.items()}
        return said

    def compare(self, law: str, calls: int) -> None:
        seed = int(os.environ.get("TG_SEED", "20"))
        print(f"# TG_SEED={seed}")
        lines = events(seed, calls)
        with tempfile.TemporaryDirectory() as folder:
            config, trace = Path(folder) / "config.yaml", Path(folder) / "trace.jsonl"
            config.write_text(CONFIG.replace("LAW", law))
            trace.write_text("".join(json.dumps(line) + "\n" for line in lines))
            done = subprocess.run([PROGRAM, "replay", "-c", config, trace], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        want = [json.loads(line) for line in done.stdout.splitlines()]
        got = self.decide(law, lines)
        self.assertEqual(len(want), calls)
        for i, (w, g) in enumerate(zip(want, got, strict=True)):
            self.assertEqual(w, g, f"decision {i}")
        # A trace on which everything is admitted would prove little.
        for reason in (None, "memory_pressure", "peer_limit", "concurrency", "rate", "cost"):
            found = sum(w.get("reason") == reason for w in want)
            self.assertGreater(found, calls // 1000, f"reason {reason}")

    def test_decisions_are_those_of_replay(self) -> None:
        self.compare("vegas", CALLS)

    def test_with_the_law_that_learns_by_chance(self) -> None:
        self.compare("auto", CALLS // 10)
