"""How a client's messages get to a gateway: JSON over HTTP, or gRPC. Both have the same fields."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

from tollgate.errors import ApiError, ClosedError, InvalidError, TollgateError, UnavailableError

_PATH = "/tollgate/v1/"
_METHODS = {"admit": "Admit", "peek": "Peek", "release": "Release", "heartbeat": "Heartbeat"}


class Transport(Protocol):
    def call(self, method: str, message: dict[str, Any]) -> dict[str, Any]: ...
    def close(self) -> None: ...


class AsyncTransport(Protocol):
    async def call(self, method: str, message: dict[str, Any]) -> dict[str, Any]: ...
    async def close(self) -> None: ...


def _split(url: str) -> tuple[str, str, int]:
    """Scheme, host and port."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
        parts = parts._replace(netloc="")
    if parts.scheme not in ("http", "https", "grpc", "grpcs") or not parts.hostname or parts.path.strip("/"):
        raise InvalidError(f"url is {url!r}; it must be http, https, grpc or grpcs://HOST:PORT, without a path")
    default = {"http": 80, "https": 443}.get(parts.scheme)
    if port is None and default is None:
        raise InvalidError(f"url is {url!r}; gRPC needs a port")
    return parts.scheme, parts.hostname, port or default or 0


def _header_safe(token: str) -> str:
    if not token or not token.isascii() or not token.isprintable():
        raise InvalidError("token must be printable ASCII and not empty")
    return token


def open_transport(url: str, token: str, timeout: float) -> Transport:
    scheme, host, port = _split(url)
    if scheme in ("http", "https"):
        return _Http(scheme == "https", host, port, _header_safe(token), timeout)
    return _Grpc(scheme == "grpcs", host, port, _header_safe(token), timeout)


def open_async_transport(url: str, token: str, timeout: float) -> AsyncTransport:
    scheme, host, port = _split(url)
    if scheme in ("http", "https"):
        return _AsyncHttp(f"{scheme}://{_bracketed(host)}:{port}", _header_safe(token), timeout)
    return _AsyncGrpc(scheme == "grpcs", host, port, _header_safe(token), timeout)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


# ---- HTTP


def _body(message: dict[str, Any]) -> bytes:
    try:
        return json.dumps(message, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise InvalidError(f"the message cannot be written: {error}") from error


def _read_json(status: int, body: bytes) -> dict[str, Any]:
    """The answer, or the error that it is."""
    try:
        raw = json.loads(body)
    except ValueError:
        raw = None
    if status == 200 and isinstance(raw, dict):
        return raw
    error = raw.get("error") if isinstance(raw, dict) else None
    if not isinstance(error, dict):
        error = {}
    kind = UnavailableError if status >= 500 else ApiError
    raise kind(
        status,
        str(error.get("code") or error.get("type") or ""),
        str(error.get("message") or body[:200].decode("utf-8", "replace")),
        error.get("param"),
    )


class _Http:
    """A pool of connections: a thread takes an idle one, or opens one more."""

    def __init__(self, tls: bool, host: str, port: int, token: str, timeout: float) -> None:
        self._host, self._port, self._timeout = host, port, timeout
        self._context = ssl.create_default_context() if tls else None
        self._headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._closed = False

    def _connection(self) -> tuple[http.client.HTTPConnection, bool]:
        """A connection, and whether it has been used before."""
        with self._lock:
            if self._closed:
                raise ClosedError("the client is closed")
            if self._idle:
                return self._idle.pop(), True
        if self._context is not None:
            return (
                http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._context),
                False,
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout), False

    def call(self, method: str, message: dict[str, Any]) -> dict[str, Any]:
        body = _body(message)
        while True:
            connection, is_used = self._connection()
            try:
                connection.request("POST", _PATH + method, body, self._headers)
                reply = connection.getresponse()
                status, said = reply.status, reply.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                # The gateway ends connections that were idle for long. A call whose connection breaks before
                # its answer holds nothing, so asking again does no harm.
                if is_used and not isinstance(error, TimeoutError):
                    continue
                raise UnavailableError(0, "unreachable", repr(error)) from error
            except BaseException:
                connection.close()
                raise
            with self._lock:
                keep = not self._closed and not reply.will_close
                if keep:
                    self._idle.append(connection)
            if not keep:
                connection.close()
            return _read_json(status, said)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class _AsyncHttp:
    def __init__(self, url: str, token: str, timeout: float) -> None:
        try:
            import httpx  # noqa: PLC0415 - an extra
        except ImportError:
            raise TollgateError("an AsyncClient by HTTP needs httpx: pip install 'tollgate[async]'") from None
        self._error: type[Exception] = httpx.HTTPError
        self._client = httpx.AsyncClient(
            base_url=url,
            timeout=timeout,
            headers={"authorization": f"Bearer {token}", "content-type": "application/json"},
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
            trust_env=False,
        )

    async def call(self, method: str, message: dict[str, Any]) -> dict[str, Any]:
        try:
            reply = await self._client.post(_PATH + method, content=_body(message))
        except self._error as error:
            raise UnavailableError(0, "unreachable", repr(error)) from error
        return _read_json(reply.status_code, reply.content)

    async def close(self) -> None:
        await self._client.aclose()


# ---- gRPC


class _Messages:
    """The messages of proto/tollgate/v1/admission.proto, from and to the fields of JSON."""

    def __init__(self) -> None:
        try:
            import grpc  # noqa: PLC0415 - an extra

            from tollgate import admission_pb2  # noqa: PLC0415
        except ImportError:
            raise TollgateError("gRPC needs grpcio and protobuf: pip install 'tollgate[grpc]'") from None
        self.grpc: Any = grpc
        self._pb: Any = admission_pb2

    def encode(self, method: str, message: dict[str, Any]) -> Any:
        fields = dict(message)
        if "priority" in fields:
            fields["priority"] = f"PRIORITY_{fields['priority']}".upper()
        if "outcome" in fields:
            fields["outcome"] = f"OUTCOME_{fields['outcome']}".upper()
        kind = {"release": "ReleaseRequest", "heartbeat": "HeartbeatRequest"}.get(method, "AdmitRequest")
        try:
            return getattr(self._pb, kind)(**fields)
        except (TypeError, ValueError) as error:
            raise InvalidError(f"the message cannot be written: {error}") from error

    def reader(self, method: str) -> Callable[[bytes], Any]:
        kind = {"release": "ReleaseReply", "heartbeat": "HeartbeatReply"}.get(method, "AdmitReply")
        return getattr(self._pb, kind).FromString  # type: ignore[no-any-return]

    def decode(self, reply: Any) -> dict[str, Any]:
        """The fields that JSON has; lists and messages too."""
        raw: dict[str, Any] = {}
        for field in reply.DESCRIPTOR.fields:
            value = getattr(reply, field.name)
            if field.message_type is not None:
                if reply.HasField(field.name):
                    raw[field.name] = self.decode(value)
            elif isinstance(value, bool | int | float | str):
                raw[field.name] = value
            else:
                raw[field.name] = list(value)
        return raw

    def error(self, error: Any) -> TollgateError:
        code = error.code().name
        kind = UnavailableError if code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN") else ApiError
        return kind(code, "", error.details() or "")

    def address(self, host: str, port: int) -> str:
        return f"{_bracketed(host)}:{port}"


def _rpc(channel: Any, messages: _Messages, method: str) -> Any:
    return channel.unary_unary(
        f"/tollgate.v1.Admission/{_METHODS[method]}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=messages.reader(method),
    )


class _Grpc:
    def __init__(self, tls: bool, host: str, port: int, token: str, timeout: float) -> None:
        self._messages = messages = _Messages()
        grpc, address = messages.grpc, messages.address(host, port)
        self._channel = (
            grpc.secure_channel(address, grpc.ssl_channel_credentials()) if tls else grpc.insecure_channel(address)
        )
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._timeout = timeout
        self._rpcs = {method: _rpc(self._channel, messages, method) for method in _METHODS}

    def call(self, method: str, message: dict[str, Any]) -> dict[str, Any]:
        request = self._messages.encode(method, message)
        try:
            reply = self._rpcs[method](request, metadata=self._metadata, timeout=self._timeout)
        except self._messages.grpc.RpcError as error:
            raise self._messages.error(error) from error
        return self._messages.decode(reply)

    def close(self) -> None:
        self._channel.close()


class _AsyncGrpc:
    def __init__(self, tls: bool, host: str, port: int, token: str, timeout: float) -> None:
        self._messages = messages = _Messages()
        self._tls, self._address = tls, messages.address(host, port)
        self._metadata = (("authorization", f"Bearer {token}"),)
        self._timeout = timeout
        self._channel: Any = None
        self._rpcs: dict[str, Any] = {}

    def _open(self) -> None:
        """In the loop that uses it: a channel of grpc.aio belongs to one."""
        aio = self._messages.grpc.aio
        self._channel = (
            aio.secure_channel(self._address, self._messages.grpc.ssl_channel_credentials())
            if self._tls
            else aio.insecure_channel(self._address)
        )
        self._rpcs = {method: _rpc(self._channel, self._messages, method) for method in _METHODS}

    async def call(self, method: str, message: dict[str, Any]) -> dict[str, Any]:
        request = self._messages.encode(method, message)
        if self._channel is None:
            self._open()
        try:
            reply = await self._rpcs[method](request, metadata=self._metadata, timeout=self._timeout)
        except self._messages.grpc.RpcError as error:
            raise self._messages.error(error) from error
        return self._messages.decode(reply)

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close()
