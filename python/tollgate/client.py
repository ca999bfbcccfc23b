"""A client of a gateway's decisions (Admit), by HTTP or gRPC.

    client = Client("http://127.0.0.1:8080", token)            or  Client("grpc://127.0.0.1:50051", token)
    with client.admit(tenant="acme", model="small", cost=1200, keep_alive=True) as lease:    # raises Refused
        reply = serve()
        lease.actual = reply.tokens

    async with AsyncClient("http://127.0.0.1:8080", token) as client:       # HTTP needs httpx
        async with await client.admit(tenant="acme") as lease:
            ...

What the fields mean is in docs/api.md. Every error that is not a refusal means that there is no decision:
UnavailableError if the gateway cannot be reached or cannot decide, which is when the caller chooses whether calls
pass; ApiError if it was asked wrongly.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from tollgate.decision import Answer, BindingLimit, Decision, Outcome, Priority
from tollgate.errors import ApiError, ClosedError, InvalidError, Refused, TollgateError
from tollgate.transport import AsyncTransport, Transport, open_async_transport, open_transport

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Self

HEARTBEAT_MAX = 1024
"""Leases in one heartbeat."""
_TTL_MS = 30_000
_OUTCOMES = ("ok", "dropped", "cancelled")


class AdmitArgs(TypedDict, total=False):
    """What a call says of itself: see the table in docs/api.md."""

    tenant: str
    model: str
    user: str
    peer: str
    priority: Priority
    cost: int
    value: float
    hold_s: float
    ttl_ms: int
    timeout_ms: int
    limits_only: bool


def _decision(raw: dict[str, Any]) -> Decision:
    return Decision(*_numbers(raw))


def _numbers(raw: dict[str, Any]) -> tuple[bool, int, int, int, int]:
    return (
        bool(raw["allowed"]),
        int(raw["limit"]),
        int(raw["remaining"]),
        int(raw["reset_at_ms"]),
        int(raw["retry_after_ms"]),
    )


def _answer(raw: dict[str, Any]) -> Answer:
    binding = raw.get("binding_limit")
    return Answer(
        *_numbers(raw),
        reason=raw.get("reason") or None,
        message=raw.get("message", ""),
        binding_axis=raw.get("binding_axis") or None,
        policy_denied=bool(raw.get("policy_denied")),
        client_wait_ms=int(binding["retry_after_ms"]) if binding and raw.get("reason") == "concurrency" else 0,
        axes={name: _decision(axis) for name, axis in raw.get("axes", {}).items()},
        would_deny=tuple(raw.get("would_deny", ())),
        binding_limit=BindingLimit(
            str(binding["of"]),
            str(binding.get("rule", "")),
            int(binding["limit"]),
            int(binding["remaining"]),
            int(binding["reset_at_ms"]),
            int(binding["retry_after_ms"]),
        )
        if binding
        else None,
    )


def _read(raw: dict[str, Any]) -> Answer:
    try:
        return _answer(raw)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ApiError(200, "", f"this is no answer of Tollgate's: {error!r} in {raw!r}") from error


class _Lease:
    """What leases of both clients have in common.

    Set `actual` to what the call used, in units of cost, before it ends; without it the estimate stands. If the
    block ends by an exception, the lease is `cancelled`; set `outcome` to "dropped" if overload made the call
    fail.
    """

    def __init__(self, id_: str, answer: Answer, ttl_ms: int) -> None:
        self.id = id_
        """"" if nothing is held, and so there is nothing to give back."""
        self.answer = answer
        self.ttl_ms = ttl_ms
        self.actual: int | None = None
        self.outcome: Outcome | None = None
        self.sample_ms: float | None = None
        self.lost = False
        """A heartbeat was told that the lease has ended: its slot may belong to another call."""
        self.ended = not id_

    def _ending(self, outcome: Outcome | None, actual: int | None) -> dict[str, Any]:
        outcome = outcome or self.outcome or "ok"
        if outcome not in _OUTCOMES:
            raise InvalidError(f"outcome is {outcome!r}; it must be one of {', '.join(_OUTCOMES)}")
        ending: dict[str, Any] = {"lease_id": self.id, "outcome": outcome}
        actual = self.actual if actual is None else actual
        if actual is not None:
            ending["actual"] = actual
        if self.sample_ms is not None:
            ending["sample_ms"] = self.sample_ms
        return ending


class RemoteLease(_Lease):
    """A lease of a Client. Give it back by `with`, or by release()."""

    def __init__(self, client: Client, id_: str, answer: Answer, ttl_ms: int) -> None:
        super().__init__(id_, answer, ttl_ms)
        self._client = client

    def release(self, outcome: Outcome | None = None, *, actual: int | None = None) -> bool:
        """Ends the lease. False: it had ended, or holds nothing."""
        ending = self._ending(outcome, actual)
        if self.ended:
            return False
        self.ended = True
        self._client._forget(self)
        return bool(self._client._call("release", ending)["found"])

    def heartbeat(self) -> bool:
        """Renews the lease for its `ttl_ms`. False: it has ended."""
        return self._client.heartbeat([self]) if not self.ended else False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.release()
            return
        # What went wrong is what the caller has to hear; the lease expires.
        with contextlib.suppress(TollgateError):
            self.release(self.outcome or "cancelled")


class AsyncRemoteLease(_Lease):
    """A lease of an AsyncClient. Give it back by `async with`, or by release()."""

    def __init__(self, client: AsyncClient, id_: str, answer: Answer, ttl_ms: int) -> None:
        super().__init__(id_, answer, ttl_ms)
        self._client = client

    async def release(self, outcome: Outcome | None = None, *, actual: int | None = None) -> bool:
        """Ends the lease. False: it had ended, or holds nothing."""
        ending = self._ending(outcome, actual)
        if self.ended:
            return False
        self.ended = True
        self._client._forget(self)
        return bool((await self._client._finish("release", ending))["found"])

    async def heartbeat(self) -> bool:
        """Renews the lease for its `ttl_ms`. False: it has ended."""
        return await self._client.heartbeat([self]) if not self.ended else False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.release()
            return
        with contextlib.suppress(TollgateError):
            await self.release(self.outcome or "cancelled")


def _request(args: AdmitArgs) -> tuple[dict[str, Any], int]:
    """The message, and how long its lease lives."""
    unknown = set(args) - AdmitArgs.__optional_keys__
    if unknown:
        raise InvalidError(f"there is no field {', '.join(sorted(unknown))}")
    message = {name: value for name, value in args.items() if value is not None}
    return message, int(args.get("ttl_ms") or _TTL_MS)


def pause_s(ttls_ms: list[int]) -> float:
    """Seconds between heartbeats: three within the shortest life, so that one that fails is made good by the next."""
    return min(ttls_ms) / 3000


def _lost(leases: Iterable[_Lease], raw: dict[str, Any]) -> bool:
    """Notes which leases have ended. Whether all live."""
    reclaimed = set(raw.get("reclaimed_ids", ()))
    for lease in leases:
        if lease.id in reclaimed:
            lease.lost = lease.ended = True
    return not reclaimed


class Client:
    """Asks a gateway, from any number of threads. `keep_alive=True` in admit() renews the lease in the background,
    by one thread for all leases of the client, until it ends.

    url      http://, https://, grpc:// or grpcs:// with host and port
    timeout  seconds that an answer may take, the wait for a slot included
    """

    def __init__(self, url: str, token: str, *, timeout: float = 60.0) -> None:
        self._transport: Transport = open_transport(url, token, timeout)
        self._kept: set[RemoteLease] = set()
        self._changed = threading.Condition()
        self._keeper: threading.Thread | None = None
        self._closed = False

    def _call(self, method: str, message: dict[str, Any]) -> dict[str, Any]:
        if self._closed:
            raise ClosedError("the client is closed")
        return self._transport.call(method, message)

    def admit(self, *, keep_alive: bool = False, **call: Unpack[AdmitArgs]) -> RemoteLease:
        """Asks for admission; returns when it is decided. Refused: it may not start now."""
        message, ttl_ms = _request(call)
        raw = self._call("admit", message)
        answer = _read(raw)
        if not answer.allowed:
            raise Refused(answer)
        lease = RemoteLease(self, str(raw.get("lease_id") or ""), answer, ttl_ms)
        if keep_alive and not lease.ended:
            self._keep(lease)
        return lease

    def peek(self, **call: Unpack[AdmitArgs]) -> Answer:
        """What admit() would say now. Nothing is taken; a refusal is returned."""
        return _read(self._call("peek", _request(call)[0]))

    def heartbeat(self, leases: list[RemoteLease]) -> bool:
        """Renews leases, each for its `ttl_ms`. False: some have ended; these are `lost` now."""
        live = True
        for i in range(0, len(leases), HEARTBEAT_MAX):
            part = leases[i : i + HEARTBEAT_MAX]
            raw = self._call("heartbeat", {"lease_ids": [lease.id for lease in part]})
            live = _lost(part, raw) and live
        return live

    def _keep(self, lease: RemoteLease) -> None:
        with self._changed:
            self._kept.add(lease)
            if self._keeper is None:
                self._keeper = threading.Thread(target=self._renew, name="tollgate-heartbeat", daemon=True)
                self._keeper.start()
            self._changed.notify()

    def _forget(self, lease: RemoteLease) -> None:
        with self._changed:
            self._kept.discard(lease)

    def _renew(self) -> None:
        while True:
            with self._changed:
                while not self._kept and not self._closed:
                    self._changed.wait()
                if self._closed:
                    return
                self._changed.wait(pause_s([lease.ttl_ms for lease in self._kept]))
                leases = [lease for lease in self._kept if not lease.ended]
            with contextlib.suppress(TollgateError):
                self.heartbeat(leases)
            with self._changed:
                self._kept = {lease for lease in self._kept if not lease.ended}

    def close(self) -> None:
        """Ends the connections. Leases that are open expire."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient:
    """The same for one event loop. HTTP needs httpx, gRPC grpcio. A task that is cancelled while it waits for an
    answer hangs up, and so leaves the gateway's queue."""

    def __init__(self, url: str, token: str, *, timeout: float = 60.0) -> None:
        self._transport: AsyncTransport = open_async_transport(url, token, timeout)
        self._kept: set[AsyncRemoteLease] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._finishing: set[asyncio.Task[dict[str, Any]]] = set()
        self._closed = False

    async def _call(self, method: str, message: dict[str, Any]) -> dict[str, Any]:
        if self._closed:
            raise ClosedError("the client is closed")
        return await self._transport.call(method, message)

    async def _finish(self, method: str, message: dict[str, Any]) -> dict[str, Any]:
        """To its end, even if the task that asks for it is cancelled meanwhile: it gives back what is held."""
        task = asyncio.create_task(self._call(method, message))
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)
        return await asyncio.shield(task)

    async def admit(self, *, keep_alive: bool = False, **call: Unpack[AdmitArgs]) -> AsyncRemoteLease:
        """Asks for admission; returns when it is decided. Refused: it may not start now."""
        message, ttl_ms = _request(call)
        raw = await self._call("admit", message)
        answer = _read(raw)
        if not answer.allowed:
            raise Refused(answer)
        lease = AsyncRemoteLease(self, str(raw.get("lease_id") or ""), answer, ttl_ms)
        if keep_alive and not lease.ended:
            self._kept.add(lease)
            if self._keeper is None or self._keeper.done():
                self._keeper = asyncio.create_task(self._renew())
        return lease

    async def peek(self, **call: Unpack[AdmitArgs]) -> Answer:
        """What admit() would say now. Nothing is taken; a refusal is returned."""
        return _read(await self._call("peek", _request(call)[0]))

    async def heartbeat(self, leases: list[AsyncRemoteLease]) -> bool:
        """Renews leases, each for its `ttl_ms`. False: some have ended; these are `lost` now."""
        live = True
        for i in range(0, len(leases), HEARTBEAT_MAX):
            part = leases[i : i + HEARTBEAT_MAX]
            raw = await self._call("heartbeat", {"lease_ids": [lease.id for lease in part]})
            live = _lost(part, raw) and live
        return live

    def _forget(self, lease: AsyncRemoteLease) -> None:
        self._kept.discard(lease)

    async def _renew(self) -> None:
        while self._kept:
            await asyncio.sleep(pause_s([lease.ttl_ms for lease in self._kept]))
            leases = [lease for lease in self._kept if not lease.ended]
            with contextlib.suppress(TollgateError):
                await self.heartbeat(leases)
            self._kept = {lease for lease in self._kept if not lease.ended}

    async def close(self) -> None:
        """Ends the connections. Leases that are open expire."""
        if self._finishing:
            await asyncio.wait(self._finishing)
        self._closed = True
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
