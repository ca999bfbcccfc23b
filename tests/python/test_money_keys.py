"""test_money_keys.py - budgets and provider keys in process."""

import unittest
from typing import Any
from zoneinfo import ZoneInfo

from tollgate import (
    Bank,
    Budget,
    ClosedError,
    InvalidError,
    Key,
    Keyring,
    NoKey,
    OverBudget,
    Pool,
    Price,
    micro_usd,
)

NOW = 1_760_000_000_000
ANYTHING: Any = object()


class Money(unittest.TestCase):
    def test_dollars_are_exact(self) -> None:
        self.assertEqual(micro_usd("0.25"), 250_000)
        self.assertEqual(micro_usd("0.0000001"), 1)
        several: list[Any] = [0.1, "x", "-1", "NaN", True, "inf"]
        for wrong in several:
            with self.assertRaises(InvalidError):
                micro_usd(wrong)

    def test_a_reservation_counts_in_all_accounts_and_settles_once(self) -> None:
        bank = Bank(clock=lambda: NOW)
        acme = bank.account("acme", [Budget(micro_usd(1), "day")])
        bob = acme.account("bob", [Budget(micro_usd("0.4"), "month")])
        with bob.reserve(300_000) as money:
            self.assertEqual((bob.left(), acme.left()), (100_000, 700_000))
            with self.assertRaises(OverBudget) as over:
                bob.reserve(200_000)
            self.assertTrue(over.exception.contended)
            money.spent = 100_000
        self.assertEqual((bob.left(), acme.left()), (300_000, 900_000))
        self.assertFalse(money.settle(5))
        with self.assertRaises(OverBudget) as over:
            bob.reserve(400_001)
        self.assertEqual((over.exception.per, over.exception.used, over.exception.contended), ("month", 100_000, False))
        with self.assertRaises(KeyError), bob.reserve(1000):
            raise KeyError
        self.assertEqual(bob.left(), 300_000)
        bob.restore(0, 390_000)
        self.assertEqual(bob.left(), 10_000)

    def test_windows_begin_at_midnight_of_their_zone(self) -> None:
        # 26 October 2025: clocks in Berlin go back at 01:00 UTC, so its day ends at 23:00 UTC and not at 22:00.
        now = 1_761_516_000_000 - 3_600_001
        bank = Bank(clock=lambda: now)
        account = bank.account("a", [Budget(100, "day", tz=ZoneInfo("Europe/Berlin"))])
        account.reserve(60).settle()
        self.assertEqual(account.left(), 40)
        now += 3_600_000
        self.assertEqual(account.left(), 40)
        now += 3_600_000 * 2
        self.assertEqual(account.left(), 100)

    def test_prices(self) -> None:
        price = Price(input=150_000, output=600_000)
        self.assertEqual(price.cost(input=1000, output=100), 210)
        self.assertEqual(price.cost(cached_input=1000), 150)
        self.assertGreaterEqual(price.bound(input=1000, output=100), 210)
        for wrong in ({"inptu": 1}, {"input": -2}, {"input": 2**60}):
            with self.assertRaises(InvalidError):
                Price(**wrong)
        with self.assertRaises(InvalidError):
            price.cost(words=5)

    def test_misuse(self) -> None:
        bank = Bank()
        for wrong in (
            lambda: bank.account("a", [Budget(-1, "day")]),
            lambda: bank.account("a", [Budget(1, ANYTHING)]),
            lambda: bank.account("a", [ANYTHING]),
            lambda: bank.account("a", [Budget(1, "day")] * 9),
            lambda: bank.account(ANYTHING),
            lambda: bank.account("b").reserve(-1),
            lambda: bank.account("b").reserve(2**70),
            lambda: bank.account("b").restore(0, 5),
            lambda: Bank(max_accounts=0),
        ):
            with self.assertRaises(InvalidError):
                wrong()
        money = bank.account("b").reserve(5)
        bank.close()
        with self.assertRaises(ClosedError):
            bank.account("a")
        self.assertTrue(money.settle(1))


class Keys(unittest.TestCase):
    def test_keys_serve_within_their_limits(self) -> None:
        now = NOW
        ring = Keyring([Pool("openai", "m", [Key("k1", "s1", rpm=1), Key("k2", "s2", rpm=1)])], clock=lambda: now)
        used = set()
        for _ in range(2):
            with ring.acquire("openai", "m", tokens=5) as key:
                used.add(key.secret)
        self.assertEqual(used, {"s1", "s2"})
        with self.assertRaises(NoKey) as none:
            ring.acquire("openai", "m")
        now += none.exception.retry_after_ms or 0
        self.assertTrue(ring.acquire("openai", "m").release())

    def test_a_429_cools_down(self) -> None:
        now = NOW
        ring = Keyring([Pool("openai", "m", [Key("k1", "s1")])], clock=lambda: now)
        with ring.acquire("openai", "m") as key:
            key.outcome, key.cool_until_ms = "limited", now + 5000
        self.assertFalse(key.release())
        with self.assertRaises(NoKey) as none:
            ring.acquire("openai", "m")
        self.assertEqual((none.exception.retry_after_ms, none.exception.all_cooling), (5000, True))
        now += 5000
        ring.acquire("openai", "m").release()

    def test_misuse(self) -> None:
        ring = Keyring([Pool("openai", "m", [Key("k1", "a-secret")])])
        self.assertNotIn("a-secret", repr(ring._keys))
        for wrong in (
            lambda: ring.acquire("openai", "x"),
            lambda: ring.acquire("openai", "m", tokens=-1),
            lambda: Keyring([ANYTHING]),
            lambda: Keyring([Pool("p", "m", [ANYTHING])]),
            lambda: Keyring([Pool("p", "m", [Key("a\0b")])]),
            lambda: Keyring([Pool("p", "m", [Key("a", rpm=-1)])]),
            lambda: Keyring([Pool("p", "m", [Key("a"), Key("a", rpm=5)])]),
        ):
            with self.assertRaises(InvalidError):
                wrong()
        lease = ring.acquire("openai", "m")
        ring.close()
        with self.assertRaises(ClosedError):
            ring.acquire("openai", "m")
        self.assertTrue(lease.release())
