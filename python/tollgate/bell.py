"""Calls that wait: how a thread and an event loop hear that the gate has woken them. See wake.c."""

from __future__ import annotations

import asyncio
import itertools
import select
import threading
import weakref
from typing import Any, ClassVar

from tollgate._native import NULL, bells, ffi
from tollgate.errors import NativeError

_ids = itertools.count(1)


class Bell:
    """A list of waiters that were woken, and a descriptor that can be polled."""

    def __init__(self) -> None:
        pointer = bells.bell_new()
        if pointer == NULL:
            raise NativeError("no memory or no descriptor for calls that wait")
        self.pointer: Any = ffi.gc(pointer, bells.bell_free)
        self.fd: int = bells.bell_fd(self.pointer)

    def next(self) -> int:
        return int(bells.bell_next(self.pointer))


class Waiter:
    """What a gate knows a waiting call by. Close it when the gate has decided the call."""

    def __init__(self, bell: Bell) -> None:
        self.bell = bell
        self.id = next(_ids)
        self.pointer: Any = bells.bell_waiter_new(bell.pointer, self.id)
        if self.pointer == NULL:
            raise NativeError("no memory for a call that waits")

    def close(self) -> None:
        pointer, self.pointer = self.pointer, NULL
        if pointer != NULL:
            bells.bell_waiter_free(pointer)


class ThreadBell(Bell):
    """The bell of one thread, which has one call that waits at a time."""

    _local = threading.local()

    def __init__(self) -> None:
        super().__init__()
        self._poll = select.poll()
        self._poll.register(self.fd, select.POLLIN)

    @classmethod
    def mine(cls) -> ThreadBell:
        bell = getattr(cls._local, "bell", None)
        if bell is None:
            bell = cls._local.bell = cls()
        return bell

    def wait(self, ms: int) -> None:
        """Until a waiter is woken, or so long; a signal may raise from here."""
        if self._poll.poll(max(0, min(ms, 86_400_000))):
            while self.next():
                pass


class LoopBell(Bell):
    """The bell of one event loop."""

    _of_loops: ClassVar[weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopBell]] = weakref.WeakKeyDictionary()

    def __init__(self) -> None:
        super().__init__()
        self._futures: dict[int, asyncio.Future[None]] = {}

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> LoopBell:
        bell = cls._of_loops.get(loop)
        if bell is None:
            bell = cls._of_loops[loop] = cls()
        return bell

    def _ring(self) -> None:
        while id_ := self.next():
            future = self._futures.get(id_)
            if future is not None and not future.done():
                future.set_result(None)

    async def wait(self, waiter: Waiter, ms: int) -> None:
        """Until the waiter is woken, or so long."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        if not self._futures:
            # Only while somebody waits, so that an idle loop has nothing of ours.
            loop.add_reader(self.fd, self._ring)
        self._futures[waiter.id] = future
        try:
            await asyncio.wait([future], timeout=max(0, min(ms, 86_400_000)) / 1000)
        finally:
            del self._futures[waiter.id]
            if not self._futures:
                loop.remove_reader(self.fd)
