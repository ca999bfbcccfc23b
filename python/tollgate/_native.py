"""The library beside this file, its errors, and the small things that every use of it needs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tollgate import _abi
from tollgate.errors import FullError, InvalidError, NativeError, StaleError, TollgateError

ffi = _abi.ffi
_here = Path(__file__).parent
lib: Any = ffi.dlopen(str(next(_here.glob("libtollgate.so*"))))
bells: Any = ffi.dlopen(str(_here / "wake.so"))

NULL = ffi.NULL
INT64_MAX = 2**63 - 1

_errors: dict[int, type[TollgateError]] = {
    lib.TG_ERR_INVALID: InvalidError,
    lib.TG_ERR_UNKNOWN: InvalidError,
    lib.TG_ERR_FULL: FullError,
    lib.TG_ERR_STALE: StaleError,
}


def text(pointer: Any) -> str:
    """A text of the library; "" for null."""
    return "" if pointer == NULL else ffi.string(pointer).decode("utf-8", "replace")


def version() -> str:
    """The version of the library."""
    return text(lib.tg_version())


def check(err: int, problem: Any = None) -> None:
    """Raises what an error code means; a problem says more."""
    if err == lib.TG_OK:
        return
    said = text(problem.text) if problem is not None else ""
    raise _errors.get(err, NativeError)(said or text(lib.tg_strerror(err)))


def integer(name: str, value: object, low: int = 0, high: int = 2**53 - 1) -> int:
    """A whole number in a range: what C would cut or wrap is refused here."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidError(f"{name} is {value!r}; it must be a whole number")
    if not low <= value <= high:
        raise InvalidError(f"{name} is {value}; it must be from {low} to {high}")
    return value


def number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidError(f"{name} is {value!r}; it must be a number")
    return float(value)


def choice(name: str, value: object, table: dict[str, int]) -> int:
    if not isinstance(value, str) or value not in table:
        raise InvalidError(f"{name} is {value!r}; it must be one of {', '.join(table)}")
    return table[value]


def named(name: str, value: object) -> bytes:
    """The bytes of a name."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    raise InvalidError(f"{name} is {value!r}; it must be a str or bytes")


def c_string(name: str, value: object) -> bytes:
    """The bytes of a name that C takes up to its first zero byte, so there must be none."""
    raw = named(name, value)
    if b"\0" in raw:
        raise InvalidError(f"{name} is {value!r}; it must not have a zero byte")
    return raw


def seed() -> int:
    return int.from_bytes(os.urandom(8), "little")


def epoch_clock() -> Callable[[], int]:
    """A steady clock, moved to the epoch once: milliseconds."""
    offset = time.time_ns() - time.monotonic_ns()

    def now() -> int:
        return (time.monotonic_ns() + offset) // 1_000_000

    return now


PRIORITIES = {"high": lib.TG_PRIORITY_HIGH, "normal": lib.TG_PRIORITY_NORMAL, "low": lib.TG_PRIORITY_LOW}
OUTCOMES = {
    "ok": lib.TG_OUTCOME_OK,
    "dropped": lib.TG_OUTCOME_DROPPED,
    "cancelled": lib.TG_OUTCOME_CANCELLED,
    "refused": lib.TG_OUTCOME_REFUSED,
}
MODES = {"enforce": lib.TG_ENFORCE, "shadow": lib.TG_SHADOW}
AXES = {"rate": lib.TG_AXIS_RATE, "cost": lib.TG_AXIS_COST}
