"""Tollgate for Python: the gate in process, a client of a gateway's decisions, and retries that obey hints.

    Gate             may this call start now? Decided here, by libtollgate
    Client           the same question to a gateway, by HTTP or gRPC; AsyncClient for event loops
    Retry            calls again when, and only when, it is told to

docs/python.md has examples.
"""

from __future__ import annotations

from tollgate._native import version
from tollgate._version import VERSION
from tollgate.client import AsyncClient, AsyncRemoteLease, Client, RemoteLease
from tollgate.decision import NUMBER_MAX, Answer, BindingLimit, Decision
from tollgate.errors import (
    ApiError,
    ClosedError,
    FullError,
    InvalidError,
    NativeError,
    Refused,
    StaleError,
    TollgateError,
    UnavailableError,
)
from tollgate.gate import Gate, GateStats, Lease
from tollgate.keys import Key, KeyLease, Keyring, NoKey, Pool
from tollgate.limits import (
    Concurrency,
    FixedWindow,
    Gcra,
    Limit,
    Memory,
    Peers,
    SlidingLog,
    SlidingWindow,
    TokenBucket,
    TokenBudget,
)
from tollgate.money import Account, Bank, Budget, OverBudget, Price, Reservation, micro_usd
from tollgate.retry import Hint, Retry, hint_of

__version__ = VERSION

__all__ = [
    "NUMBER_MAX",
    "Account",
    "Answer",
    "ApiError",
    "AsyncClient",
    "AsyncRemoteLease",
    "Bank",
    "BindingLimit",
    "Budget",
    "Client",
    "ClosedError",
    "Concurrency",
    "Decision",
    "FixedWindow",
    "FullError",
    "Gate",
    "GateStats",
    "Gcra",
    "Hint",
    "InvalidError",
    "Key",
    "KeyLease",
    "Keyring",
    "Lease",
    "Limit",
    "Memory",
    "NativeError",
    "NoKey",
    "OverBudget",
    "Peers",
    "Pool",
    "Price",
    "Refused",
    "RemoteLease",
    "Reservation",
    "Retry",
    "SlidingLog",
    "SlidingWindow",
    "StaleError",
    "TokenBucket",
    "TokenBudget",
    "TollgateError",
    "UnavailableError",
    "__version__",
    "hint_of",
    "micro_usd",
    "version",
]
