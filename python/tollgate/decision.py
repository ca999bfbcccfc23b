"""Decisions, as the gate in process and a gateway give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

NUMBER_MAX = 2**53 - 1
"""The largest number in a decision, and the `retry_after_ms` of a call that can never be admitted."""

Priority = Literal["high", "normal", "low"]
Outcome = Literal["ok", "dropped", "cancelled", "refused"]
Mode = Literal["enforce", "shadow"]
Axis = Literal["rate", "cost"]


@dataclass(frozen=True, slots=True)
class Decision:
    """What one axis says, or all together. Points in time are milliseconds since the epoch."""

    allowed: bool
    limit: int
    remaining: int
    reset_at_ms: int
    retry_after_ms: int

    @property
    def never(self) -> bool:
        """Whether the call can never be admitted: it is larger than a limit."""
        return self.retry_after_ms >= NUMBER_MAX


@dataclass(frozen=True, slots=True)
class BindingLimit:
    """The one limit that refused, with its own numbers."""

    of: str
    rule: str
    limit: int
    remaining: int
    reset_at_ms: int
    retry_after_ms: int


@dataclass(frozen=True, slots=True)
class Answer(Decision):
    """The decision about a call, combined of all axes, and why."""

    reason: str | None = None
    """None if it is admitted; else memory_pressure, peer_limit, concurrency, policy, rate, cost, or, from a
    gateway, request_exceeds_limit."""
    message: str = ""
    """The reason for people, with the limit that refused, whose it is, and when the call may pass."""
    binding_axis: str | None = None
    policy_denied: bool = False
    client_wait_ms: int = 0
    """Without a slot: how long to stay away, so that a slot is found in 95 of 100 cases; else 0."""
    axes: Mapping[str, Decision] = field(default_factory=dict)
    would_deny: tuple[str, ...] = ()
    charge: int | None = None
    """What the call was charged on the cost axis; None if a gateway decided, which does not say."""
    binding_limit: BindingLimit | None = None
    """From a gateway, if a limit refused."""
