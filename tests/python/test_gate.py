"""test_gate.py - the gate in process: leases end once, calls wait without blocking others, misuse is an exception."""

import asyncio
import contextlib
import gc
import threading
import unittest
import warnings
from collections.abc import Callable
from typing import Any, Literal

from tollgate import (
    ClosedError,
    Concurrency,
    Gate,
    Gcra,
    InvalidError,
    Lease,
    Limit,
    Memory,
    Peers,
    Refused,
    TokenBucket,
    TokenBudget,
    TollgateError,
)

NOBODY_WAITS: dict[Literal["high", "normal", "low"], int | Literal["auto"]] = {"high": 0, "normal": 0, "low": 0}
LONG: dict[Literal["high", "normal", "low"], int | Literal["auto"]] = {
    "high": 600_000,
    "normal": 600_000,
    "low": 600_000,
}


def slots(n: int, *, wait: bool = False, **more: Any) -> Gate:
    return Gate(concurrency=Concurrency("fixed", initial=n, wait_ms=LONG if wait else NOBODY_WAITS), **more)


def queued(gate: Gate) -> int:
    return sum(gate.stats().queued.values())


class Leases(unittest.TestCase):
    def test_a_lease_ends_once(self) -> None:
        gate = slots(1)
        lease = gate.admit()
        with self.assertRaises(Refused) as refused:
            gate.admit()
        self.assertEqual(refused.exception.reason, "concurrency")
        self.assertTrue(lease.release())
        self.assertFalse(lease.release())
        self.assertEqual(gate.stats().in_flight, 0)
        with gate.admit():
            self.assertEqual(gate.stats().in_flight, 1)
        self.assertEqual(gate.stats().leases, 0)

    def test_a_block_that_raises_gives_back(self) -> None:
        gate = slots(1)
        with self.assertRaises(KeyError), gate.admit():
            raise KeyError
        self.assertEqual(gate.stats().in_flight, 0)

    def test_what_was_used_is_settled(self) -> None:
        now = 1_760_000_000_000
        gate = Gate({"tenant": [Limit(TokenBucket(1000, refill=1), axis="cost")]}, clock=lambda: now)
        for _ in range(9):
            with gate.admit({"tenant": "a"}, cost=400) as lease:
                lease.actual = 10
        with gate.admit({"tenant": "a"}, cost=0) as free:
            self.assertEqual(free.answer.remaining, 910)
        with self.assertRaises(Refused) as refused:
            gate.admit({"tenant": "a"}, cost=1001)
        self.assertIsNone(refused.exception.retry_after_ms)

    def test_a_forgotten_lease_is_given_back_and_said(self) -> None:
        gate = slots(1)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            gate.admit()
            gc.collect()
        self.assertEqual([w.category for w in said], [ResourceWarning])
        self.assertEqual(gate.stats().in_flight, 0)

    def test_a_lease_expires_and_can_be_renewed(self) -> None:
        now = 1_760_000_000_000
        gate = slots(2, lease_ttl_ms=1000, clock=lambda: now)
        lost, kept = gate.admit(), gate.admit()
        now += 900
        self.assertTrue(kept.renew())
        now += 200
        gate.tick()
        self.assertEqual(gate.stats().expired, 1)
        self.assertFalse(lost.release())
        self.assertTrue(kept.release())

    def test_leases_outlive_their_gate(self) -> None:
        gate = slots(1)
        lease = gate.admit()
        gate.close()
        with self.assertRaises(ClosedError):
            gate.admit()
        with self.assertRaises(ClosedError):
            gate.stats()
        del gate
        gc.collect()
        self.assertTrue(lease.release())

    def test_no_byte_twice(self) -> None:
        gate = slots(1)
        with gate.admit() as lease:
            self.assertTrue(lease.first_byte(after_ms=3.5))
            self.assertFalse(lease.first_byte())
        with self.assertRaises(ClosedError):
            lease.first_byte()


class Limits(unittest.TestCase):
    def test_a_refusal_names_the_limit_and_whose_it_is(self) -> None:
        gate = Gate({"tenant": [Limit(Gcra(6, 60_000))], "user": [Limit(Gcra(1, 60_000))]})
        gate.admit({"tenant": "dept", "user": "bob"})
        with self.assertRaises(Refused) as refused:
            gate.admit({"tenant": "dept", "user": "bob"})
        said = str(refused.exception)
        self.assertRegex(said, r"^rate limit of user bob of tenant dept: 1 call a minute, 0 left, next in ")
        self.assertEqual(refused.exception.answer.binding_axis, "rate")
        self.assertGreater(refused.exception.retry_after_ms or 0, 0)

    def test_a_user_of_one_tenant_is_not_that_of_another(self) -> None:
        gate = Gate({"tenant": [Limit(Gcra(6, 60_000))], "user": [Limit(Gcra(1, 60_000))]})
        gate.admit({"tenant": "a", "user": "bob"})
        gate.admit({"tenant": "b", "user": "bob"})
        gate.admit({"tenant": "a", "user": b"\0\xff"})
        with self.assertRaises(Refused):
            gate.admit({"tenant": "a", "user": "bob"})

    def test_a_limit_is_changed_and_goes_on(self) -> None:
        now = 1_760_000_000_000
        gate = Gate({"t": [Limit(Gcra(2, 60_000))]}, clock=lambda: now)
        gate.admit({"t": "a"})
        gate.reconfigure(limits={"t": [Limit(Gcra(4, 60_000))]})
        self.assertEqual(gate.admit({"t": "a"}).answer.remaining, 2)

    def test_shadow_only_counts(self) -> None:
        gate = Gate({"t": [Limit("gcra:limit=1,period=60000", mode="shadow")]})
        for _ in range(3):
            answer = gate.admit({"t": "a"}).answer
        self.assertEqual(answer.would_deny, ("rate",))

    def test_memory_and_peers(self) -> None:
        gate = Gate(memory=Memory(), peers=Peers(limit=1))
        lease = gate.admit(peer="x")
        with self.assertRaisesRegex(Refused, "peer x exceeded per-peer limit"):
            gate.admit(peer="x")
        gate.admit(peer="y").release()
        gate.set_memory(0.99)
        with self.assertRaisesRegex(Refused, "memory pressure: 99.0% used"):
            gate.admit(priority="high")
        gate.set_memory(float("nan"))
        gate.admit().release()
        lease.release()


class Waiting(unittest.TestCase):
    def test_threads_wait_and_are_woken(self) -> None:
        gate = slots(2, wait=True)
        most, now, lock = 0, 0, threading.Lock()

        def work() -> None:
            nonlocal most, now
            for _ in range(25):
                with gate.admit():
                    with lock:
                        now += 1
                        most = max(most, now)
                    with lock:
                        now -= 1

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertLessEqual(most, 2)
        stats = gate.stats()
        self.assertEqual((stats.admitted, stats.leases, sum(stats.refused.values())), (200, 0, 0))

    def test_tasks_wait_and_are_woken(self) -> None:
        async def main() -> None:
            gate = slots(1, wait=True)
            first = gate.admit()
            order: list[int] = []

            async def work(i: int) -> None:
                with await gate.admit_async():
                    order.append(i)
                    await asyncio.sleep(0)

            tasks = [asyncio.create_task(work(i)) for i in range(50)]
            while queued(gate) < 50:
                await asyncio.sleep(0)
            first.release()
            await asyncio.gather(*tasks)
            self.assertEqual(sorted(order), list(range(50)))
            self.assertEqual(gate.stats().leases, 0)

        asyncio.run(main())

    def test_threads_and_loops_share_a_gate(self) -> None:
        gate = slots(3, wait=True)

        def thread() -> None:
            for _ in range(50):
                gate.admit().release()

        async def task() -> None:
            for _ in range(10):
                with await gate.admit_async():
                    await asyncio.sleep(0)

        async def loop() -> None:
            await asyncio.gather(*(task() for _ in range(10)))

        threads = [threading.Thread(target=thread) for _ in range(3)]
        threads += [threading.Thread(target=lambda: asyncio.run(loop())) for _ in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual((gate.stats().admitted, gate.stats().leases), (350, 0))

    def test_a_cancelled_task_leaves_the_queue(self) -> None:
        async def main() -> None:
            gate = slots(1, wait=True)
            with gate.admit():
                tasks = [asyncio.create_task(gate.admit_async()) for _ in range(3)]
                while queued(gate) < 3:
                    await asyncio.sleep(0)
                tasks[1].cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await tasks[1]
                self.assertEqual(queued(gate), 2)
            (await tasks[0]).release()
            (await tasks[2]).release()
            self.assertEqual(gate.stats().leases, 0)

        asyncio.run(main())

    def test_a_timeout_ends_a_wait(self) -> None:
        gate = slots(1, wait=True)
        with gate.admit():
            with self.assertRaises(Refused) as refused:
                gate.admit(timeout=0.02)
            self.assertEqual(refused.exception.reason, "concurrency")
            with self.assertRaises(Refused):
                gate.admit(timeout=0)
            with self.assertRaises(Refused):
                asyncio.run(gate.admit_async(timeout=0.02))
        self.assertEqual(gate.stats().leases, 0)

    def test_who_waits_gets_the_slot_of_a_lease_that_expires(self) -> None:
        gate = slots(1, wait=True)
        lost = gate.admit(lease_ttl_ms=30)
        gate.admit().release()
        self.assertFalse(lost.release())

    def test_a_gate_that_is_closed_still_decides_who_waits(self) -> None:
        gate = slots(1, wait=True)
        lease = gate.admit()
        got: list[Lease] = []
        thread = threading.Thread(target=lambda: got.append(gate.admit()))
        thread.start()
        stats = gate.stats
        while sum(stats().queued.values()) < 1:
            pass
        gate.close()
        lease.release()
        thread.join()
        self.assertTrue(got[0].release())


class Misuse(unittest.TestCase):
    def test_wrong_arguments_are_exceptions_that_say_what_is_allowed(self) -> None:
        gate = Gate({"t": [Limit(Gcra(1, 1000))]}, concurrency=Concurrency())
        anything: Any = object()
        lease = gate.admit()
        wrong: list[tuple[Callable[[], object], str]] = [
            (lambda: gate.admit({"u": "x"}), "there are no limits named 'u'; there are t"),
            (lambda: gate.admit({anything: "x"}), "no limits named"),
            (lambda: gate.admit({"t": anything}), "must be a str or bytes"),
            (lambda: gate.admit(cost=-1), "cost is -1; it must be from 0 to 9007199254740991"),
            (lambda: gate.admit(cost=2**63), "it must be from 0"),
            (lambda: gate.admit(cost=anything), "it must be a whole number"),
            (lambda: gate.admit(cost=True), "it must be a whole number"),
            (lambda: gate.admit(priority=anything), "one of high, normal, low"),
            (lambda: gate.admit(weight=0), "weight is 0"),
            (lambda: gate.admit(weight=float("nan")), "weight is nan"),
            (lambda: gate.admit(peer=anything), "peer is"),
            (lambda: gate.admit(timeout=-1), "timeout is -1"),
            (lambda: gate.set_memory(1.5), "used is 1.5"),
            (lambda: lease.release(anything), "outcome is"),
            (lambda: lease.release(actual=-5), "actual is -5"),
            (lambda: gate.reconfigure(limits={"x": []}), "no limits named 'x'"),
            (lambda: Gate({"t": []}), "a set of 0 limits; it must have from 1 to 8"),
            (lambda: Gate({"t": [Limit(Gcra(1, 1))] * 9}), "a set of 9 limits"),
            (lambda: Gate({"t": anything}), "must be a list of Limit"),
            (lambda: Gate({"t\0": [Limit(Gcra(1, 1))]}), "must not have a zero byte"),
            (lambda: Gate({"t": [Limit(Gcra(0, 1000))]}), "gcra: limit is 0; it must be"),
            (lambda: Gate({"t": [Limit(Gcra(2**70, 1000))]}), "Gcra.limit is"),
            (lambda: Gate({"t": [Limit(TokenBucket(5, float("inf")))]}), "refill is inf"),
            (lambda: Gate({"t": [Limit(TokenBudget(5, 1000))]}), "token_budget meters a cost"),
            (lambda: Gate({"t": [Limit("gcra:lim=3")]}), 'gcra has no setting "lim"'),
            (lambda: Gate({"t": [Limit(anything)]}), "it must be a spec or one of Gcra"),
            (lambda: Gate(concurrency=Concurrency("fixed", initial=0)), "it must be"),
            (lambda: Gate(concurrency=anything), "it must be Concurrency"),
            (lambda: Gate(memory=Memory(pressure=2)), "pressure, critical and limit are 2"),
            (lambda: Gate(concurrency=Concurrency(wait_ms=anything)), ""),
            (lambda: Gate(clock=anything).admit(), ""),
            (lambda: Gate(clock=lambda: -1).admit(), "what clock() returns is -1"),
            (lambda: Gate(lease_ttl_ms=0), "lease_ttl"),
        ]
        for function, words in wrong:
            with self.assertRaises((InvalidError, TypeError, AttributeError)) as said:
                function()
            self.assertIn(words, str(said.exception))
        self.assertTrue(lease.release(), "what was wrong has not ended it")
        self.assertEqual(gate.stats().leases, 0)

    def test_too_many_keys(self) -> None:
        gate = Gate({f"k{i}": [Limit(Gcra(1, 1000))] for i in range(17)})
        with self.assertRaisesRegex(InvalidError, "at most 16"):
            gate.admit({f"k{i}": "x" for i in range(17)})

    def test_a_clock_that_fails_while_a_call_waits_leaves_nothing(self) -> None:
        broken = False

        def clock() -> int:
            if broken:
                raise RuntimeError("no clock")
            return 1_760_000_000_000

        gate = slots(1, clock=clock)
        lease = gate.admit()
        broken = True
        with self.assertRaises(RuntimeError):
            gate.admit()
        broken = False
        lease.release()
        self.assertEqual(gate.stats().leases, 0)

    def test_every_error_is_a_tollgate_error(self) -> None:
        for kind in (InvalidError, ClosedError, Refused):
            self.assertTrue(issubclass(kind, TollgateError))
