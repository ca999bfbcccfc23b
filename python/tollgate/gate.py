"""The gate in process: may this call start now?

    gate = Gate(limits={"tenant": [Limit(Gcra(limit=600, period_ms=60_000))]}, concurrency=Concurrency())

    with gate.admit({"tenant": "acme"}) as lease:          # raises Refused
        reply = serve()
        lease.actual = reply.tokens

    with await gate.admit_async({"tenant": "acme"}):       # the same, where an event loop runs
        ...

A gate may be used by any number of threads and event loops at once. It is a part of the process: a server
of several processes has as many gates, each with all of its limits; where they have to be shared, ask a
gateway by Client. A child of fork() must not use the gate of its parent.
"""

from __future__ import annotations

import asyncio
import math
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from tollgate import _native as native
from tollgate._native import INT64_MAX, NULL, ffi, lib
from tollgate.bell import Bell, LoopBell, ThreadBell, Waiter
from tollgate.decision import Answer, Decision, Outcome, Priority
from tollgate.errors import ClosedError, InvalidError, NativeError, Refused
from tollgate.limits import Concurrency, Limit, Memory, Peers, fill_gate, fill_limits

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

Name = str | bytes
_SCOPES_MAX = 16  # TG_SCOPES_MAX
_REASONS = {
    getattr(lib, f"TG_REASON_{name.upper()}"): name
    for name in ("memory_pressure", "peer_limit", "concurrency", "policy", "rate", "cost")
}
_AXES = {lib.TG_AXIS_CONCURRENCY: "concurrency", lib.TG_AXIS_RATE: "rate", lib.TG_AXIS_COST: "cost"}


class CallArgs(TypedDict, total=False):
    """What a call may say of itself, beside its keys; each as in struct tg_call of tollgate.h."""

    cost: int
    """Units on the cost axis: the most that the call is expected to use. Default 1."""
    priority: Priority
    peer: Name
    """The party that fairness counts."""
    tenant: Name
    """Waiting is fair between tenants. Default: the peer."""
    like: Name
    """Which calls of a tenant use alike, such as the model: estimates are learned by it."""
    root: Name
    """What all keys belong to, if not to the first of them."""
    weight: float
    work: int
    value: float
    hold_s: float
    size: int
    lease_ttl_ms: int
    timeout: float
    """Seconds that it waits at most, if that is less than its priority may; 0: not at all."""


class _Owned:
    """The store and the gate of a Gate: freed when the last function that uses them has returned."""

    def __init__(self) -> None:
        self.store: Any = NULL
        self.gate: Any = NULL

    def __del__(self) -> None:
        lib.tg_gate_free(self.gate)
        lib.tg_store_free(self.store)


@dataclass(frozen=True, slots=True)
class GateStats:
    """The numbers of a gate at one moment."""

    limit: int
    """The concurrency limit now; NUMBER_MAX if there is none."""
    in_flight: int
    queued: Mapping[str, int]
    peers: int
    leases: int
    admitted: int
    refused: Mapping[str, int]
    would_deny: Mapping[str, int]
    expired: int


class _Call:
    """A struct tg_call, and everything that it points to."""

    def __init__(self) -> None:
        self.c: Any = ffi.new("struct tg_call *")
        lib.tg_call_init_sized(self.c, ffi.sizeof("struct tg_call"))
        self._kept: list[Any] = []
        self.named: Any = NULL  # the scopes as a message names them
        self.n_scopes = 0

    def keep(self, raw: bytes) -> Any:
        buffer = ffi.new("char[]", raw)  # with a zero byte behind it
        self._kept.append(buffer)
        return buffer

    def put(self, field: str, name: str, value: Name | None) -> None:
        if value is None:
            return
        raw = native.named(name, value)
        setattr(self.c, field, self.keep(raw))
        setattr(self.c, f"{field}_bytes", len(raw))

    def put_scopes(self, keys: list[tuple[str, int, bytes]], root: bytes | None) -> None:
        """Every key belongs to the root, which is a part of what it is known by: "bob" of one tenant is not
        "bob" of another, and no key can come with two roots."""
        if not keys:
            return
        n = len(keys)
        if n > _SCOPES_MAX:
            raise InvalidError(f"there are {n} keys; a call has at most {_SCOPES_MAX}")
        array, named = ffi.new("struct tg_scope[]", n), ffi.new("struct tg_scope[]", n)
        self._kept += [array, named]
        whole = keys[0][2] if root is None else root
        suffix = f" of {keys[0][0]} ".encode() + keys[0][2]
        for i, (kind, limits, key) in enumerate(keys):
            full = key if i == 0 and root is None else len(whole).to_bytes(4, "big") + whole + key
            array[i].limits = named[i].limits = limits
            array[i].key, array[i].key_bytes = self.keep(full), len(full)
            named[i].key, named[i].key_bytes = self.keep(key), len(key)
            named[i].kind = self.keep(kind.encode())
            if i > 0:
                named[i].suffix = self.keep(suffix)
        self.c.debit.scopes, self.c.debit.n_scopes = array, n
        self.c.debit.root, self.c.debit.root_bytes = self.keep(whole), len(whole)
        self.named = named

    def describe(self, answer: Any) -> str:
        buffer = ffi.new("char[]", 640)
        scopes, self.c.debit.scopes = self.c.debit.scopes, self.named
        lib.tg_answer_describe(answer, self.c, buffer, len(buffer))
        self.c.debit.scopes = scopes
        return native.text(buffer)


def _decision(d: Any) -> Decision:
    return Decision(d.allowed, d.limit, d.remaining, d.reset_at, d.retry_after_ms)


def _reasons(bits: int) -> tuple[str, ...]:
    return tuple(name for value, name in _REASONS.items() if bits & 1 << value)


def _answer(answer: Any, call: _Call) -> Answer:
    d, axes = answer.decision, answer.axes
    binding = None
    if not d.allowed and not answer.policy_denied:
        binding = _AXES.get(lib.tg_axes_binding(ffi.addressof(axes)))
    return Answer(
        d.allowed,
        d.limit,
        d.remaining,
        d.reset_at,
        d.retry_after_ms,
        reason=_REASONS.get(answer.reason),
        message="" if d.allowed else call.describe(answer),
        binding_axis=binding,
        policy_denied=answer.policy_denied,
        client_wait_ms=answer.client_wait_ms,
        axes={name: _decision(axes.decision[i]) for i, name in _AXES.items() if axes.present & 1 << i},
        would_deny=_reasons(answer.would_deny),
        charge=answer.charge if d.allowed else None,
    )


class Lease:
    """What an admitted call holds. Give it back by `with`, or by release().

    Set `actual` to what the call used, in units of cost, before it ends; without it the estimate stands. If
    the block ends by an exception, the lease is `cancelled`, which tells the law nothing; set `outcome` to
    "dropped" if overload made the call fail.
    """

    def __init__(self, gate: Gate, owned: _Owned, lease: int, answer: Answer) -> None:
        self._gate = gate
        self._owned: _Owned | None = owned if lease else None
        self._lease = lease
        self.answer = answer
        self.actual: int | None = None
        self.outcome: Outcome | None = None
        self.sample_ms: float | None = None
        self.work: int | None = None

    @property
    def held(self) -> bool:
        """Whether there is something to give back: not if the gate has neither slots nor peers nor cost."""
        return self._owned is not None

    def _mine(self) -> _Owned:
        if self._owned is None:
            raise ClosedError("the lease has ended, or holds nothing")
        return self._owned

    def first_byte(self, after_ms: float | None = None) -> bool:
        """The first byte of the reply has come: from now on that is the law's sample. True the first time."""
        owned, now = self._mine(), self._gate.now()
        if after_ms is None:
            return bool(lib.tg_gate_first_byte(owned.gate, self._lease, now))
        return bool(lib.tg_gate_first_byte_after(owned.gate, self._lease, now, native.number("after_ms", after_ms)))

    def renew(self, ttl_ms: int = 0) -> bool:
        """Gives the lease so long from now (0: the gate's `lease_ttl_ms`). False: it has expired."""
        ttl = native.integer("ttl_ms", ttl_ms)
        return bool(lib.tg_gate_renew(self._mine().gate, self._lease, self._gate.now(), ttl))

    def release(self, outcome: Outcome | None = None, *, actual: int | None = None) -> bool:
        """Ends the lease. True to the first caller; False if it had ended or expired, or held nothing."""
        c = ffi.new("struct tg_release *")
        lib.tg_release_init_sized(c, ffi.sizeof("struct tg_release"))
        c.outcome = native.choice("outcome", outcome or self.outcome or "ok", native.OUTCOMES)
        actual = self.actual if actual is None else actual
        if actual is not None:
            c.actual = native.integer("actual", actual)
        if self.sample_ms is not None:
            c.sample_ms = native.number("sample_ms", self.sample_ms)
        if self.work is not None:
            c.work = native.integer("work", self.work)
        owned, self._owned = self._owned, None
        if owned is None:
            return False
        return bool(lib.tg_gate_release(owned.gate, self._lease, self._gate.now(), c))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release(self.outcome or ("ok" if kind is None else "cancelled"))

    def __del__(self) -> None:
        if getattr(self, "_owned", None) is not None and not sys.is_finalizing():
            self.actual = self.sample_ms = self.work = None
            self.release("cancelled")
            warnings.warn("a lease was forgotten, and was released as cancelled", ResourceWarning, stacklevel=2)


class Gate:
    """One decision over all stages: memory, peers, calls at once, rate, cost.

    `limits` has, by name, the limits of each kind of key; admit() says which keys a call has. The first key of
    a call is what the others belong to, as users do to a tenant: "bob" of one tenant is not "bob" of another.

    `clock` returns milliseconds since the epoch; by default a steady clock. `seed` is for hashing, `chance`
    for the law's randomness: with both given, the same events have the same decisions.
    """

    def __init__(
        self,
        limits: Mapping[str, list[Limit]] | None = None,
        *,
        memory: Memory | None = None,
        peers: Peers | None = None,
        concurrency: Concurrency | None = None,
        lease_ttl_ms: int = 600_000,
        store_bytes: int | None = None,
        unit: str = "units",
        name: str | None = None,
        seed: int | None = None,
        chance: int = 0,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._clock = clock or native.epoch_clock()
        self._unit = ffi.new("char[]", native.c_string("unit", unit))
        self._gate_name = ffi.new("char[]", native.c_string("name", name)) if name is not None else NULL
        self._gate_kind = ffi.new("char[]", b"gate") if name is not None else NULL
        self._seed = native.seed() if seed is None else native.integer("seed", seed, 0, 2**64 - 1)
        self._chance = native.integer("chance", chance, 0, 2**64 - 1)
        self._lease_ttl_ms = native.integer("lease_ttl_ms", lease_ttl_ms)
        self._sets: dict[str, int] = {}
        owned = _Owned()
        problem = ffi.new("struct tg_problem *")
        if limits:
            config = ffi.new("struct tg_store_config *")
            lib.tg_store_config_init_sized(config, ffi.sizeof("struct tg_store_config"))
            config.seed = self._seed
            if store_bytes is not None:
                config.memory_bytes = native.integer("store_bytes", store_bytes)
            out = ffi.new("struct tg_store **")
            native.check(lib.tg_store_new(config, out, problem), problem)
            owned.store = out[0]
            for kind, list_ in limits.items():
                self._sets[kind] = self._define(owned, kind, list_)
        config = self._config(owned, memory, peers, concurrency)
        out = ffi.new("struct tg_gate **")
        native.check(lib.tg_gate_new(config, out, problem), problem)
        owned.gate = out[0]
        self._owned: _Owned | None = owned

    @staticmethod
    def _define(owned: _Owned, kind: str, limits: list[Limit]) -> int:
        native.c_string("the name of limits", kind)
        number, problem = ffi.new("tg_limits *"), ffi.new("struct tg_problem *")
        array = fill_limits(limits)
        native.check(lib.tg_store_define(owned.store, array, len(limits), number, problem), problem)
        return int(number[0])

    def _config(
        self, owned: _Owned, memory: Memory | None, peers: Peers | None, concurrency: Concurrency | None
    ) -> Any:
        config = ffi.new("struct tg_gate_config *")
        lib.tg_gate_config_init_sized(config, ffi.sizeof("struct tg_gate_config"))
        fill_gate(config, memory, peers, concurrency)
        config.lease_ttl = self._lease_ttl_ms
        config.store = owned.store
        config.seed, config.chance = self._seed, self._chance
        config.wake = native.bells.bell_wake
        return config

    def _use(self) -> _Owned:
        owned = self._owned
        if owned is None:
            raise ClosedError("the gate is closed")
        return owned

    def now(self) -> int:
        """The gate's time, in milliseconds since the epoch."""
        return native.integer("what clock() returns", self._clock())

    def close(self) -> None:
        """Nothing is admitted any more. Leases that are open can be given back."""
        self._owned = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- Changes

    def reconfigure(
        self,
        *,
        memory: Memory | None = None,
        peers: Peers | None = None,
        concurrency: Concurrency | None = None,
        limits: Mapping[str, list[Limit]] | None = None,
    ) -> None:
        """Changes the stages, all of them: one that is not given is off. What runs, waits and was counted
        stays. `limits` changes those of the names that it has, and adds none; None: they stay."""
        owned, problem = self._use(), ffi.new("struct tg_problem *")
        now = self.now()
        config = self._config(owned, memory, peers, concurrency)
        lists = []
        changes = ffi.new("struct tg_redefinition[]", max(len(limits or {}), 1))
        for change, (kind, list_) in zip(changes, (limits or {}).items(), strict=False):
            lists.append(fill_limits(list_))
            change.set, change.limits, change.n = self._set(kind), lists[-1], len(list_)
        # The settings of the gate first: they are checked as a whole before anything changes.
        native.check(lib.tg_gate_reconfigure(owned.gate, config, now, problem), problem)
        if limits:
            native.check(lib.tg_store_redefine(owned.store, changes, len(limits), now, problem), problem)

    def set_memory(self, used: float) -> None:
        """The fraction of memory in use, from 0 to 1; NaN: unknown, and then memory refuses nothing."""
        value = native.number("used", used)
        if not (math.isnan(value) or 0 <= value <= 1):
            raise InvalidError(f"used is {used}; it must be from 0 to 1, or NaN")
        owned = self._use()
        self._see_time(owned)
        lib.tg_gate_set_memory(owned.gate, value)

    def _see_time(self, owned: _Owned) -> None:
        """For events that the gate takes without a time."""
        lib.tg_gate_release(owned.gate, 0, self.now(), NULL)

    # ---- Looking

    def stats(self) -> GateStats:
        c = ffi.new("struct tg_gate_stats *")
        lib.tg_gate_get_stats_sized(self._use().gate, c, ffi.sizeof("struct tg_gate_stats"))
        return GateStats(
            limit=c.limit,
            in_flight=c.in_flight,
            queued={name: c.queued[i] for name, i in native.PRIORITIES.items()},
            peers=c.peers,
            leases=c.leases,
            admitted=c.admitted,
            refused={name: c.refused[i] for i, name in _REASONS.items()},
            would_deny={name: c.would_deny[i] for i, name in _REASONS.items()},
            expired=c.expired,
        )

    def tick(self) -> None:
        """Ends waits and leases whose time has come. Admitting does that, too; a gate that is idle for long
        may call it, so that leases of lost calls end on time."""
        lib.tg_gate_tick(self._use().gate, self.now())

    def _tick(self, owned: _Owned) -> int:
        """Before a call is asked for: what ends at this very moment ends after it, as in `tollgate replay`."""
        now = self.now()
        if lib.tg_gate_next_deadline(owned.gate) < now:
            lib.tg_gate_tick(owned.gate, now)
        return now

    def next_deadline_ms(self) -> int | None:
        """When a wait or a lease ends next; None: nothing is due."""
        at = lib.tg_gate_next_deadline(self._use().gate)
        return None if at == INT64_MAX else int(at)

    # ---- Admitting

    def _set(self, kind: str) -> int:
        try:
            return self._sets[kind]
        except (KeyError, TypeError):
            known = ", ".join(self._sets) or "none"
            raise InvalidError(f"there are no limits named {kind!r}; there are {known}") from None

    def admit(self, keys: Mapping[str, Name] | None = None, **call: Unpack[CallArgs]) -> Lease:
        """Asks for admission; blocks this thread while the call waits for a slot.

        `keys` says which limits the call has to clear, by name: {"tenant": "acme", "user": "bob"}.

        Refused: it may not start now. InvalidError, ClosedError, FullError: there is no decision.
        """
        bell = ThreadBell.mine()
        asking = _Asking(self, self._use(), self._call(keys or {}, **call), bell)
        try:
            while (ms := asking.ask()) is not None:
                bell.wait(ms)
            return asking.lease()
        finally:
            asking.end()

    async def admit_async(self, keys: Mapping[str, Name] | None = None, **call: Unpack[CallArgs]) -> Lease:
        """The same in an event loop. A task that is cancelled while it waits leaves the queue."""
        bell = LoopBell.of(asyncio.get_running_loop())
        asking = _Asking(self, self._use(), self._call(keys or {}, **call), bell)
        try:
            while (ms := asking.ask()) is not None:
                await bell.wait(asking.waiter, ms)
            return asking.lease()
        finally:
            asking.end()

    def _call(
        self,
        keys: Mapping[str, Name],
        *,
        cost: int = 1,
        priority: Priority = "normal",
        peer: Name | None = None,
        tenant: Name | None = None,
        like: Name | None = None,
        root: Name | None = None,
        weight: float = 1.0,
        work: int = 0,
        value: float = 1.0,
        hold_s: float = 0.0,
        size: int = 0,
        lease_ttl_ms: int = 0,
        timeout: float | None = None,
    ) -> _Call:
        call = _Call()
        c = call.c
        call.put_scopes(
            [(kind, self._set(kind), native.named(kind, key)) for kind, key in keys.items()],
            None if root is None else native.named("root", root),
        )
        c.debit.cost = native.integer("cost", cost)
        c.priority = native.choice("priority", priority, native.PRIORITIES)
        call.put("peer", "peer", peer)
        call.put("tenant", "tenant", tenant)
        call.put("like", "like", like)
        c.weight = native.number("weight", weight)
        if not 1e-6 <= c.weight <= 1e6:
            raise InvalidError(f"weight is {weight}; it must be from 1e-6 to 1e6")
        c.work = native.integer("work", work)
        c.value = native.number("value", value)
        c.hold_s = native.number("hold_s", hold_s)
        c.size = native.integer("size", size)
        c.lease_ttl = native.integer("lease_ttl_ms", lease_ttl_ms)
        c.unit, c.gate_kind, c.gate_name = self._unit, self._gate_kind, self._gate_name
        if timeout is not None:
            seconds = native.number("timeout", timeout)
            if not 0 <= seconds <= 1e9:
                raise InvalidError(f"timeout is {timeout}; it must be from 0 to 1e9 seconds")
            c.deadline = max(1, self.now() + int(seconds * 1000))
        return call


class _Asking:
    """One call on its way through the gate. Whatever ends it, end() leaves nothing behind."""

    def __init__(self, gate: Gate, owned: _Owned, call: _Call, bell: Bell) -> None:
        self._gate, self._owned, self._call = gate, owned, call
        self.waiter = Waiter(bell)
        self._c: Any = ffi.new("struct tg_answer *")
        self._lease = 0  # of a call that waits, or that nobody has taken yet
        self._asked = False
        call.c.waiter = self.waiter.pointer

    def ask(self) -> int | None:
        """None: it is decided. Otherwise how many milliseconds to wait, if nobody wakes it, before the next."""
        now = self._gate._tick(self._owned)
        gate, call = self._owned.gate, self._call.c
        if self._asked:
            lease, self._lease = self._lease, 0
            native.check(lib.tg_gate_resume(gate, lease, call, now, self._c))
        else:
            self._asked = True
            native.check(lib.tg_gate_admit(gate, call, 0, now, self._c))
        self._lease = self._c.lease
        if self._c.step == lib.TG_DECIDED:
            return None
        if self._c.step != lib.TG_WAITING:
            raise NativeError("the gate asks for a store that this one does not have")
        next_at = lib.tg_gate_next_deadline(gate)
        return max(0, int(min(next_at + 1, self._c.deadline)) - now)

    def lease(self) -> Lease:
        answer = _answer(self._c, self._call)
        if not answer.allowed:
            raise Refused(answer)
        lease, self._lease = self._lease, 0
        return Lease(self._gate, self._owned, lease, answer)

    def end(self) -> None:
        if self._lease:
            c = ffi.new("struct tg_release *")
            lib.tg_release_init_sized(c, ffi.sizeof("struct tg_release"))
            c.outcome = lib.TG_OUTCOME_CANCELLED
            lib.tg_gate_release(self._owned.gate, self._lease, self._gate.now(), c)
        self.waiter.close()
