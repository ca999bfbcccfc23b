"""test_retry.py - retries come when the server says, never before, and never behind the deadline."""

import asyncio
import unittest
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from email.utils import format_datetime
from typing import Any

from kit import start_mock

from tollgate import Answer, Hint, InvalidError, Refused, Retry, UnavailableError, hint_of


class Reply:
    def __init__(self, status: int, **headers: str) -> None:
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Failure(Exception):  # noqa: N818
    """As those of openai and anthropic are."""

    def __init__(self, reply: Reply) -> None:
        self.response = reply


class RpcFailure(Exception):  # noqa: N818
    """As gRPC's are."""

    def __init__(self, code: str, **trailers: str) -> None:
        self._code, self._trailers = code, trailers

    def code(self) -> Any:
        return type("Code", (), {"name": self._code})

    def trailing_metadata(self) -> tuple[tuple[str, str], ...]:
        return tuple((name.replace("_", "-"), value) for name, value in self._trailers.items())


class World:
    """A clock that only sleeping moves, and a function that fails as told."""

    def __init__(self, *results: object) -> None:
        self.results = list(results)
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)

    def retry(self, attempts: int = 3, **settings: Any) -> Retry:
        settings = {"draw": lambda: 0.0, **settings}
        return Retry(attempts, clock=lambda: self.now, sleep=self.sleep, sleep_async=self.sleep_async, **settings)

    def function(self) -> object:
        result = self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        return result

    async def coroutine(self) -> object:
        return self.function()


def refused(after: int, *, policy: bool = False) -> Refused:
    return Refused(Answer(False, 5, 0, 0, after, reason="policy" if policy else "rate", policy_denied=policy))


class Hints(unittest.TestCase):
    def test_what_is_a_hint(self) -> None:
        cases: list[tuple[object, Hint | None]] = [
            (Reply(200), None),
            (Reply(200, retry_after="5"), None),
            (Reply(429), Hint(True)),
            (Reply(429, retry_after_ms="1500"), Hint(True, 1.5)),
            (Reply(429, retry_after="7"), Hint(True, 7.0)),
            (Reply(429, retry_after_ms="1500", retry_after="7"), Hint(True, 1.5)),
            (Reply(503, retry_after="soon"), Hint(True)),
            (Reply(503, retry_after="-5"), Hint(True)),
            (Reply(503, retry_after="inf"), Hint(True)),
            (Reply(529, Retry_After="2"), Hint(True, 2.0)),
            (Reply(402), Hint(False)),
            (Reply(400), Hint(False)),
            (Reply(429, x_should_retry="false", retry_after="1"), Hint(False)),
            (Reply(400, x_should_retry="true"), Hint(True)),
            (Failure(Reply(429, retry_after_ms="20")), Hint(True, 0.02)),
            (Failure(Reply(404)), Hint(False)),
            (refused(250), Hint(True, 0.25)),
            (refused(2**53 - 1), Hint(False)),
            (refused(250, policy=True), Hint(False)),
            (UnavailableError(503, "shutting_down", "x"), Hint(True)),
            (RpcFailure("RESOURCE_EXHAUSTED", grpc_retry_after_ms="40"), Hint(True, 0.04)),
            (RpcFailure("RESOURCE_EXHAUSTED", x_tollgate_reason="policy"), Hint(False)),
            (RpcFailure("UNAVAILABLE"), Hint(True)),
            (RpcFailure("INVALID_ARGUMENT"), Hint(False)),
            (ConnectionError(), None),
            ("text", None),
            (None, None),
        ]
        for thing, want in cases:
            with self.subTest(thing=thing):
                self.assertEqual(hint_of(thing), want)

    def test_a_date_is_a_hint(self) -> None:
        import datetime  # noqa: PLC0415

        at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
        hint = hint_of(Reply(503, retry_after=format_datetime(at, usegmt=True)))
        assert hint is not None
        self.assertTrue(3000 < (hint.wait_s or 0) <= 3600)
        past = hint_of(Reply(503, retry_after="Wed, 21 Oct 2015 07:28:00 GMT"))
        self.assertEqual(past, Hint(True, 0.0))

    def test_errors_of_urllib(self) -> None:
        headers = Message()
        headers["Retry-After-Ms"] = "30"
        with urllib.error.HTTPError("http://x", 429, "no", headers, None) as error:
            self.assertEqual(hint_of(error), Hint(True, 0.03))


class Retries(unittest.TestCase):
    def both(self, check: Callable[[Callable[..., object]], None]) -> None:
        """The same for functions and for coroutines."""

        def call(world: World, retry: Retry) -> object:
            return retry.call(world.function)

        def call_async(world: World, retry: Retry) -> object:
            return asyncio.run(retry.call_async(world.coroutine))

        check(call)
        check(call_async)

    def test_a_hint_is_obeyed(self) -> None:
        def check(call: Callable[..., object]) -> None:
            world = World(Failure(Reply(429, retry_after_ms="2500")), refused(900), "done")
            self.assertEqual(call(world, world.retry()), "done")
            self.assertEqual(world.slept, [2.5, 0.9])

        self.both(check)

    def test_no_means_no(self) -> None:
        def check(call: Callable[..., object]) -> None:
            world = World(Failure(Reply(429, x_should_retry="false")), "never")
            with self.assertRaises(Failure):
                call(world, world.retry())
            self.assertEqual(world.slept, [])

        self.both(check)

    def test_attempts_end_and_the_last_result_stands(self) -> None:
        def check(call: Callable[..., object]) -> None:
            last = Reply(503)
            world = World(Reply(503), Reply(503), last)
            self.assertIs(call(world, world.retry()), last)
            self.assertEqual(world.slept, [0.1, 0.2])

        self.both(check)

    def test_a_wait_beyond_the_deadline_is_not_begun(self) -> None:
        def check(call: Callable[..., object]) -> None:
            world = World(refused(3000), refused(3000), "never")
            with self.assertRaises(Refused):
                call(world, world.retry(9, deadline=5.0))
            self.assertEqual(world.slept, [3.0])

        self.both(check)

    def test_jitter_never_undercuts_a_hint_nor_passes_the_deadline(self) -> None:
        world = World(refused(1000), "done")
        world.retry(draw=lambda: 1.0, jitter=0.5).call(world.function)
        self.assertEqual(world.slept, [1.5])
        world = World(refused(1000), "done")
        world.retry(draw=lambda: 1.0, jitter=0.5, deadline=1.25).call(world.function)
        self.assertEqual(world.slept, [1.25])

    def test_a_hint_of_very_long_is_not_waited_for(self) -> None:
        world = World(Reply(429, retry_after="3600"), "never")
        result = world.retry().call(world.function)
        self.assertIsInstance(result, Reply)

    def test_other_exceptions_are_retried_only_if_named(self) -> None:
        world = World(ConnectionError(), "done")
        with self.assertRaises(ConnectionError):
            world.retry().call(world.function)
        world = World(ConnectionError(), "done")
        self.assertEqual(world.retry(retry_on=(ConnectionError,)).call(world.function), "done")
        world = World(KeyboardInterrupt(), "done")
        with self.assertRaises(KeyboardInterrupt):
            world.retry(retry_on=(BaseException,)).call(world.function)

    def test_wrong_settings(self) -> None:
        several: list[dict[str, Any]] = [{"attempts": 0}, {"base_s": -1.0}, {"jitter": float("nan")}]
        for wrong in several:
            with self.assertRaises(InvalidError):
                Retry(**wrong)

    def test_against_a_provider_that_says_when(self) -> None:
        """The scripted provider refuses the second call in a minute, and says how long to wait."""
        url = start_mock(self, "--rpm", "1")
        body = b'{"model": "m", "messages": [{"role": "user", "content": "hello"}]}'
        headers = {"authorization": "Bearer sk-x", "content-type": "application/json"}

        def ask() -> int:
            request = urllib.request.Request(f"{url}/v1/chat/completions", body, headers)
            with urllib.request.urlopen(request) as reply:
                return int(reply.status)

        world = World()
        self.assertEqual(world.retry(1).call(ask), 200)
        with self.assertRaises(urllib.error.HTTPError) as error:
            world.retry(2, longest_s=90.0).call(ask)
        error.exception.close()
        said = float(error.exception.headers["retry-after-ms"]) / 1000
        self.assertEqual(len(world.slept), 1)
        self.assertTrue(said - 1 <= world.slept[0] <= 60, (said, world.slept))
