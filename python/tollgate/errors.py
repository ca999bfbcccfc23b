"""What can go wrong, as exceptions. All of them are TollgateErrors.

A refusal is Refused, and has the decision. Everything else means that there is no decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tollgate.decision import Answer


class TollgateError(Exception):
    """Something that Tollgate says."""


class Refused(TollgateError):  # noqa: N818 - a decision, not an error
    """The call may not start now. `answer` has the decision, `retry_after_ms` when it may; None: never."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.message or answer.reason or "refused")
        self.answer = answer

    @property
    def reason(self) -> str:
        return self.answer.reason or ""

    @property
    def retry_after_ms(self) -> int | None:
        return None if self.answer.never else max(self.answer.retry_after_ms, self.answer.client_wait_ms)


class InvalidError(TollgateError, ValueError):
    """An argument or a setting is wrong; the text says which, and what is allowed."""


class ClosedError(TollgateError):
    """The gate, the bank, the keyring or the client has been closed."""


class FullError(TollgateError):
    """The store or the bank is full of live keys and takes no new one."""


class StaleError(TollgateError):
    """The lease has ended."""


class NativeError(TollgateError):
    """Another error of the library: no memory."""


class ApiError(TollgateError):
    """A gateway has answered with an error: no decision was made."""

    def __init__(self, status: int | str, reason: str, message: str, param: str | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}" if reason else f"{status}: {message}")
        self.status = status
        """HTTP's status, or the name of gRPC's."""
        self.reason = reason
        self.message = message
        self.param = param


class UnavailableError(ApiError):
    """No decision could be made now: the gateway cannot be reached, it ends, or its store is away.

    Whoever asks chooses whether calls then pass or not.
    """
