"""What a gate is made of: limits per time, calls at once, memory, peers. None means the library's default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tollgate import _native as native
from tollgate._native import ffi, lib
from tollgate.decision import Axis, Mode, Priority
from tollgate.errors import InvalidError

Law = Literal["vegas", "gradient2", "aimd", "fixed", "none", "auto"]


@dataclass(frozen=True, slots=True)
class Gcra:
    """`limit` units every `period_ms`, at most `burst` at once (0: the same as limit)."""

    limit: int
    period_ms: int
    burst: int = 0


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """At most `capacity` units, and `refill` more a second."""

    capacity: int
    refill: float


@dataclass(frozen=True, slots=True)
class FixedWindow:
    """`limit` units in each window, aligned to the epoch."""

    limit: int
    window_ms: int


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """`limit` units in the last `window_ms`, counted in `buckets` parts (0: 10)."""

    limit: int
    window_ms: int
    buckets: int = 0


@dataclass(frozen=True, slots=True)
class SlidingLog:
    """`limit` units in the last `window_ms`, each call recorded."""

    limit: int
    window_ms: int


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """`budget` units in each window; the call that crosses it is admitted in full. For cost only."""

    budget: int
    window_ms: int


Limiter = Gcra | TokenBucket | FixedWindow | SlidingWindow | SlidingLog | TokenBudget


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a key.

    The limiter may be a spec, such as "gcra:limit=10,period=1000,burst=5". `overdraft` is how much calls in
    flight may be charged less than they ask for: see tg_limit in tollgate.h.
    """

    limiter: Limiter | str
    axis: Axis = "rate"
    mode: Mode = "enforce"
    overdraft: int = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """Refuses calls while memory is short; tell it by Gate.set_memory()."""

    pressure: float | None = None
    critical: float | None = None
    limit: float | None = None
    mode: Mode = "enforce"


@dataclass(frozen=True, slots=True)
class Peers:
    """Calls of one peer at once, waiting or running."""

    limit: int | None = None
    max_peers: int | None = None
    mode: Mode = "enforce"


@dataclass(frozen=True, slots=True)
class Concurrency:
    """Calls at once. `law` moves the limit; with "fixed" it is `initial`.

    `initial`, `min` and `max` default to the law's, and make room for what is given. `wait_ms` says how long
    calls of a priority wait for a slot; "auto" derives it from how long slots are held. With queue_size 0
    nobody waits.
    """

    law: Law = "auto"
    initial: int | None = None
    min: int | None = None
    max: int | None = None
    window_ms: int | None = None
    queue_size: int | None = None
    wait_ms: Mapping[Priority, int | Literal["auto"]] = field(default_factory=dict)
    share: Mapping[Priority, float] = field(default_factory=dict)
    low_ratio: float | None = None
    mode: Mode = "enforce"


_STRATEGIES: dict[type, tuple[int, dict[str, str]]] = {
    Gcra: (lib.TG_GCRA, {"limit": "limit", "period_ms": "period", "burst": "burst"}),
    TokenBucket: (lib.TG_TOKEN_BUCKET, {"capacity": "limit", "refill": "refill"}),
    FixedWindow: (lib.TG_FIXED_WINDOW, {"limit": "limit", "window_ms": "period"}),
    SlidingWindow: (lib.TG_SLIDING_WINDOW, {"limit": "limit", "window_ms": "period", "buckets": "buckets"}),
    SlidingLog: (lib.TG_SLIDING_LOG, {"limit": "limit", "window_ms": "period"}),
    TokenBudget: (lib.TG_TOKEN_BUDGET, {"budget": "limit", "window_ms": "period"}),
}
_LAWS: dict[str, int] = {
    "vegas": lib.TG_LAW_VEGAS,
    "gradient2": lib.TG_LAW_GRADIENT2,
    "aimd": lib.TG_LAW_AIMD,
    "fixed": lib.TG_LAW_FIXED,
    "none": lib.TG_LAW_NONE,
    "auto": lib.TG_LAW_AUTO,
}


def _fill_limiter(config: Any, limiter: object) -> None:
    if isinstance(limiter, str):
        problem = ffi.new("struct tg_problem *")
        spec = native.c_string("limiter", limiter)
        native.check(lib.tg_limiter_config_parse(config, spec, problem), problem)
        return
    if type(limiter) not in _STRATEGIES:
        names = ", ".join(strategy.__name__ for strategy in _STRATEGIES)
        raise InvalidError(f"limiter is {limiter!r}; it must be a spec or one of {names}")
    strategy, fields = _STRATEGIES[type(limiter)]
    lib.tg_limiter_config_init(config, strategy)
    for name, c_name in fields.items():
        value = getattr(limiter, name)
        what = f"{type(limiter).__name__}.{name}"
        if c_name == "refill":
            config.refill = native.number(what, value)
        else:
            setattr(config, c_name, native.integer(what, value, -(2**53), 2**63 - 1))


def fill_limits(limits: object) -> Any:
    """An array of struct tg_limit."""
    if not isinstance(limits, list | tuple) or not all(isinstance(limit, Limit) for limit in limits):
        raise InvalidError(f"limits are {limits!r}; they must be a list of Limit")
    array = ffi.new("struct tg_limit[]", max(len(limits), 1))
    for place, limit in zip(array, limits, strict=False):
        config = ffi.new("struct tg_limiter_config *")
        problem = ffi.new("struct tg_problem *")
        _fill_limiter(config, limit.limiter)
        native.check(lib.tg_limiter_init(ffi.addressof(place, "limiter"), config, problem), problem)
        place.axis = native.choice("axis", limit.axis, native.AXES)
        place.mode = native.choice("mode", limit.mode, native.MODES)
        place.overdraft = native.integer("overdraft", limit.overdraft, -(2**53))
    return array


def _set(config: Any, of: object, **fields: str) -> None:
    """Copies what is not None, as a whole number or as a number."""
    for name, kind in fields.items():
        value = getattr(of, name)
        if value is None:
            continue
        what = f"{type(of).__name__}.{name}"
        setattr(config, name, native.number(what, value) if kind == "number" else native.integer(what, value))


def _fill_law(law: Any, concurrency: Concurrency) -> None:
    lib.tg_law_config_init(ffi.addressof(law))
    lib.tg_law_config_choose(ffi.addressof(law), native.choice("law", concurrency.law, _LAWS))
    # What is not given makes room for what is: Concurrency("fixed", initial=4) needs no min.
    initial, low, high = concurrency.initial, concurrency.min, concurrency.max
    for name, value in (("initial", initial), ("min", low), ("max", high)):
        if value is not None:
            setattr(law, name, native.integer(f"Concurrency.{name}", value))
    if low is None:
        law.min = min(law.min, *(value for value in (initial, high) if value is not None), law.min)
    if high is None:
        law.max = max(law.max, *(value for value in (initial, low) if value is not None), law.max)
    if initial is None and law.min <= law.max:
        law.initial = max(law.min, min(law.initial, law.max))
    if concurrency.window_ms is not None:
        law.window = native.integer("Concurrency.window_ms", concurrency.window_ms)


def _fill_concurrency(config: Any, concurrency: Concurrency) -> None:
    config.on = True
    config.mode = native.choice("Concurrency.mode", concurrency.mode, native.MODES)
    _fill_law(config.law, concurrency)
    _set(config, concurrency, queue_size="integer", low_ratio="number")
    for priority, wait in concurrency.wait_ms.items():
        index = native.choice("Concurrency.wait_ms", priority, native.PRIORITIES)
        config.wait[index] = -1 if wait == "auto" else native.integer("Concurrency.wait_ms", wait)
    for priority, share in concurrency.share.items():
        index = native.choice("Concurrency.share", priority, native.PRIORITIES)
        config.share[index] = native.number("Concurrency.share", share)


def fill_gate(config: Any, memory: Memory | None, peers: Peers | None, concurrency: Concurrency | None) -> None:
    """The stages of a struct tg_gate_config that was initialized."""
    for name, value, kind in (
        ("memory", memory, Memory),
        ("peers", peers, Peers),
        ("concurrency", concurrency, Concurrency),
    ):
        if value is not None and not isinstance(value, kind):
            raise InvalidError(f"{name} is {value!r}; it must be {kind.__name__}(...) or None")
    if memory is not None:
        config.memory.on = True
        config.memory.mode = native.choice("Memory.mode", memory.mode, native.MODES)
        _set(config.memory, memory, pressure="number", critical="number", limit="number")
    if peers is not None:
        config.peers.on = True
        config.peers.mode = native.choice("Peers.mode", peers.mode, native.MODES)
        _set(config.peers, peers, limit="integer", max_peers="integer")
    if concurrency is not None:
        _fill_concurrency(config.concurrency, concurrency)
