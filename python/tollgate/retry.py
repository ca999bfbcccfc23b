"""Retries that obey hints and deadlines.

    retry = Retry(attempts=4, deadline=20)
    reply = retry.call(client.chat.completions.create, model="small", messages=[...])
    reply = await retry.call_async(async_client.chat.completions.create, ...)

A hint is what the server says about coming back: `retry-after-ms`, `retry-after`, `x-should-retry` of a reply
or of an exception that has one (those of openai, anthropic, httpx, requests, urllib), `grpc-retry-after-ms` of
gRPC's trailers, and `retry_after_ms` of a decision. It is never undercut. If a wait would end behind the
deadline, there is no point in sleeping: the last result stands, at once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, ParamSpec, TypeVar

from tollgate.errors import InvalidError, Refused, UnavailableError

P = ParamSpec("P")
T = TypeVar("T")

STATUSES = frozenset({408, 429, 500, 502, 503, 504, 529})
"""Replies that may be different the next time, if the server does not say so itself."""
_GRPC = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED"})


@dataclass(frozen=True, slots=True)
class Hint:
    """What is known about coming back. `wait_s` is the least wait; None: it was not said."""

    retry: bool
    wait_s: float | None = None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < float("inf") else None


def _wait_of(headers: Mapping[str, str]) -> float | None:
    ms = _number(headers.get("retry-after-ms"))
    if ms is not None:
        return ms / 1000
    said = headers.get("retry-after")
    seconds = _number(said)
    if seconds is None and said:
        try:
            seconds = max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
        except ValueError:
            return None
    return seconds


def _of_reply(status: object, raw: Any) -> Hint | None:
    """By HTTP's status and headers; None: it is nothing to retry."""
    try:
        headers = {str(name).lower(): str(value) for name, value in dict(raw or {}).items()}
    except (TypeError, ValueError):
        headers = {}
    should = headers.get("x-should-retry", "").lower()
    if should == "false":
        return Hint(False)
    if should == "true" or (isinstance(status, int) and status in STATUSES):
        return Hint(True, _wait_of(headers))
    return Hint(False) if isinstance(status, int) and status >= 400 else None


def _of_grpc(thing: Any) -> Hint | None:
    code = getattr(thing.code(), "name", "")
    trailers = thing.trailing_metadata() or ()
    said = {str(name).lower(): str(value) for name, value in trailers}
    ms = _number(said.get("grpc-retry-after-ms"))
    if ms is not None:
        return Hint(True, ms / 1000)
    # A refusal by Tollgate that does not say when to come back is one that waiting does not help.
    return Hint(code in _GRPC and "x-tollgate-reason" not in said)


def hint_of(thing: object) -> Hint | None:
    """What a result or an exception says about coming back; None: nothing, it is no failure that is known."""
    if isinstance(thing, Refused):
        ms = thing.retry_after_ms
        return Hint(False) if ms is None or thing.answer.policy_denied else Hint(True, ms / 1000)
    if isinstance(thing, UnavailableError):
        return Hint(True)
    if callable(getattr(thing, "code", None)) and callable(getattr(thing, "trailing_metadata", None)):
        return _of_grpc(thing)
    reply = getattr(thing, "response", None)
    for source in (reply, thing):
        headers = getattr(source, "headers", None)
        status = getattr(source, "status_code", None)
        if status is None:
            status = getattr(source, "status", None)
        if headers is not None and isinstance(status, int):
            return _of_reply(status, headers)
    return None


class Retry:
    """When to call again.

    attempts     calls in all
    deadline     seconds from the first call, after which no other begins; None: as long as the attempts last
    base_s       the own back-off, doubled after each attempt; the longer of it and the hint counts
    longest_s    a hint of more than that is not waited for
    retry_on     exceptions without a hint after which to call again, such as ConnectionError: only if a second
                 call does no harm when the first one was served
    jitter       is added to every wait, at most this fraction of it: never less than the hint
    """

    def __init__(
        self,
        attempts: int = 3,
        *,
        deadline: float | None = None,
        base_s: float = 0.1,
        longest_s: float = 60.0,
        jitter: float = 0.1,
        retry_on: tuple[type[BaseException], ...] = (),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        sleep_async: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        if attempts < 1:
            raise InvalidError(f"attempts is {attempts}; it must be 1 or more")
        for name, value in (("base_s", base_s), ("longest_s", longest_s), ("jitter", jitter)):
            if not 0 <= value < float("inf"):
                raise InvalidError(f"{name} is {value}; it must be 0 or more")
        self.attempts = attempts
        self.deadline = deadline
        self.base_s = base_s
        self.longest_s = longest_s
        self.jitter = jitter
        self.retry_on = retry_on
        self._clock, self._sleep, self._sleep_async, self._draw = clock, sleep, sleep_async, draw

    def wait_before(self, attempt: int, result: object, since: float) -> float | None:
        """Seconds to wait before the attempt of that number (from 1) after such a result; None: do not try.

        `since` is when the first call began, by the clock.
        """
        hint = hint_of(result)
        if hint is None and isinstance(result, self.retry_on):
            hint = Hint(True)
        if hint is None or not hint.retry or attempt >= self.attempts:
            return None
        if hint.wait_s is not None and hint.wait_s > self.longest_s:
            return None
        own = min(self.base_s * 2 ** (attempt - 1), self.longest_s)
        least = max(hint.wait_s or 0.0, own)
        wait: float = least * (1 + self.jitter * self._draw())
        if self.deadline is None:
            return wait
        left = since + self.deadline - self._clock()
        return min(wait, left) if least <= left else None

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls until there is a result that need not be retried. What the last call gave is returned or raised."""
        since = self._clock()
        attempt = 1
        while True:
            try:
                result = function(*args, **kwargs)
            except Exception as error:
                wait = self.wait_before(attempt, error, since)
                if wait is None:
                    raise
            else:
                wait = self.wait_before(attempt, result, since)
                if wait is None:
                    return result
            self._sleep(wait)
            attempt += 1

    async def call_async(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """The same for a coroutine function."""
        since = self._clock()
        attempt = 1
        while True:
            try:
                result = await function(*args, **kwargs)
            except Exception as error:
                wait = self.wait_before(attempt, error, since)
                if wait is None:
                    raise
            else:
                wait = self.wait_before(attempt, result, since)
                if wait is None:
                    return result
            await self._sleep_async(wait)
            attempt += 1
