"""A provider's keys as capacity: which of them serves the next call, within its limits and its health.

ring = Keyring([Pool("openai", "gpt-4o", [Key("k1", secret, rpm=500), Key("k2", other)])])
with ring.acquire("openai", "gpt-4o", tokens=1200) as key:              # raises NoKey
    reply = ask_provider(key.secret)
    key.tokens = reply.tokens
    if reply.status == 429:
        key.outcome = "limited"
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from tollgate import _native as native
from tollgate._native import NULL, ffi, lib
from tollgate.decision import NUMBER_MAX
from tollgate.errors import ClosedError, InvalidError, TollgateError

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

KeyOutcome = Literal["ok", "limited", "failed", "refused", "rejected", "cancelled"]
_OUTCOMES = {
    name: getattr(lib, f"TG_KEY_{name.upper()}")
    for name in ("ok", "limited", "failed", "refused", "rejected", "cancelled")
}


class NoKey(TollgateError):  # noqa: N818 - a decision, not an error
    """No key can serve the call. `retry_after_ms`: when one can; None: never, or not by waiting."""

    def __init__(self, retry_after_ms: int | None, all_cooling: bool, too_large: bool) -> None:
        why = "the call is larger than every key" if too_large else "no key can serve the call now"
        super().__init__(why)
        self.retry_after_ms, self.all_cooling, self.too_large = retry_after_ms, all_cooling, too_large


@dataclass(frozen=True, slots=True)
class Key:
    """One key. Limits of 0 are none: calls and tokens in 60 s, calls in flight."""

    name: str
    secret: str = ""
    rpm: int = 0
    tpm: int = 0
    concurrency: int = 0

    def __repr__(self) -> str:
        return f"Key({self.name!r})"


@dataclass(frozen=True, slots=True)
class Pool:
    """The keys of one provider and model, and their circuit breaker."""

    provider: str
    model: str
    keys: Sequence[Key]
    breaker_failures: int | None = None
    breaker_open_ms: int | None = None


class KeyLease:
    """A key in use. Give it back by `with`, or by release().

    outcome       ok; limited (a 429), failed (5xx, network), refused (401, 403), rejected (another 4xx),
                  cancelled. If the block ends by an exception: failed, unless you say otherwise
    tokens        what the call used; without it the estimate stands
    cool_until_ms what the provider asked for with a 429
    sent          False: no byte went to the provider, so nothing is counted
    """

    def __init__(self, ring: Keyring, owned: _Owned, number: int, key: Key) -> None:
        self._ring = ring
        self._owned: _Owned | None = owned
        self._number = number
        self.key = key
        self.secret = key.secret
        self.outcome: KeyOutcome | None = None
        self.tokens: int | None = None
        self.latency_ms: float | None = None
        self.cool_until_ms: int = 0
        self.sent = True

    def release(self, outcome: KeyOutcome | None = None) -> bool:
        """Gives the key back. False: that was done before."""
        c = ffi.new("struct tg_key_report *")
        lib.tg_key_report_init_sized(c, ffi.sizeof("struct tg_key_report"))
        c.outcome = native.choice("outcome", outcome or self.outcome or "ok", _OUTCOMES)
        c.sent = bool(self.sent)
        if self.tokens is not None:
            c.tokens = native.integer("tokens", self.tokens)
        if self.latency_ms is not None:
            c.latency_ms = native.number("latency_ms", self.latency_ms)
        c.cool_until = native.integer("cool_until_ms", self.cool_until_ms)
        owned, self._owned = self._owned, None
        return owned is not None and bool(lib.tg_keyring_release(owned.c, self._number, self._ring.now(), c))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release(self.outcome or ("ok" if kind is None else "failed"))


class _Owned:
    def __init__(self, pointer: Any) -> None:
        self.c = pointer

    def __del__(self) -> None:
        lib.tg_keyring_free(self.c)


class Keyring:
    """All keys. By any number of threads. Keys of one provider and name are one key, with one window."""

    def __init__(self, pools: Sequence[Pool], *, clock: Callable[[], int] | None = None) -> None:
        self._clock = clock or native.epoch_clock()
        self._keys: list[Key] = []  # by the number that the library knows as their owner, less 1
        self._pools: dict[tuple[str, str], Any] = {}
        kept: list[Any] = []

        def c_text(what: str, value: str) -> Any:
            kept.append(ffi.new("char[]", native.c_string(what, value)))
            return kept[-1]

        specs = ffi.new("struct tg_pool_spec[]", max(len(pools), 1))
        for spec, pool in zip(specs, pools, strict=False):
            if not isinstance(pool, Pool) or not all(isinstance(key, Key) for key in pool.keys):
                raise InvalidError(f"pools has {pool!r}; it must be a list of Pool, and its keys of Key")
            lib.tg_pool_spec_init_sized(ffi.addressof(spec), ffi.sizeof("struct tg_pool_spec"))
            spec.provider, spec.model = c_text("provider", pool.provider), c_text("model", pool.model)
            array = ffi.new("struct tg_key_spec[]", max(len(pool.keys), 1))
            kept.append(array)
            for place, key in zip(array, pool.keys, strict=False):
                place.name = c_text("Key.name", key.name)
                for limit in ("rpm", "tpm", "concurrency"):
                    setattr(place.limits, limit, native.integer(f"Key.{limit}", getattr(key, limit)))
                self._keys.append(key)
                place.owner = ffi.cast("void *", len(self._keys))
            spec.keys, spec.n_keys = array, len(pool.keys)
            if pool.breaker_failures is not None:
                spec.breaker_failures = native.integer("breaker_failures", pool.breaker_failures)
            if pool.breaker_open_ms is not None:
                spec.breaker_open = native.integer("breaker_open_ms", pool.breaker_open_ms)
        ring = ffi.new("struct tg_keyring_spec *")
        lib.tg_keyring_spec_init_sized(ring, ffi.sizeof("struct tg_keyring_spec"))
        ring.pools, ring.n_pools, ring.seed = specs, len(pools), native.seed()
        out, problem = ffi.new("struct tg_keyring **"), ffi.new("struct tg_problem *")
        native.check(lib.tg_keyring_new(ring, out, problem), problem)
        self._owned: _Owned | None = _Owned(out[0])
        for pool in pools:
            names = native.c_string("provider", pool.provider), native.c_string("model", pool.model)
            self._pools[pool.provider, pool.model] = lib.tg_keyring_pool(out[0], *names)

    def now(self) -> int:
        return native.integer("what clock() returns", self._clock())

    def _use(self) -> _Owned:
        if self._owned is None:
            raise ClosedError("the keyring is closed")
        return self._owned

    def acquire(self, provider: str, model: str, *, tokens: int = 0, affinity: str | bytes | None = None) -> KeyLease:
        """Leases a key for a call of about so many tokens; related calls of one `affinity` get the same one."""
        owned = self._use()
        pool = self._pools.get((provider, model), NULL)
        if pool == NULL:
            raise InvalidError(f"there is no pool for {model!r} of {provider!r}")
        call, answer = ffi.new("struct tg_key_call *"), ffi.new("struct tg_key_answer *")
        lib.tg_key_call_init_sized(call, ffi.sizeof("struct tg_key_call"))
        call.tokens = native.integer("tokens", tokens)
        if affinity is not None:
            raw = native.named("affinity", affinity)
            buffer = ffi.new("char[]", raw)
            call.affinity, call.affinity_bytes = buffer, len(raw)
        lib.tg_pool_acquire(pool, call, self.now(), answer)
        if answer.lease == 0:
            after = None if answer.retry_after_ms >= NUMBER_MAX else answer.retry_after_ms
            raise NoKey(after, answer.all_cooling, answer.too_large)
        key = self._keys[int(ffi.cast("uintptr_t", answer.owner)) - 1]
        return KeyLease(self, owned, answer.lease, key)

    def close(self) -> None:
        """No key is leased any more; keys that are in use can be given back."""
        self._owned = None
