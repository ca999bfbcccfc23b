"""tollgate_litellm.py - LiteLLM's proxy asks Tollgate before it sends a call, and says afterwards what it used.

Beside config.yaml, which names `tollgate_litellm.admission` in `callbacks`:

    pip install 'tollgate[async]' 'litellm[proxy]'
    TOLLGATE_URL=http://127.0.0.1:8080 TOLLGATE_TOKEN=... litellm --config config.yaml

LiteLLM keeps its dialects, keys and routing; Tollgate decides whether a call may start: limits of the tenant, calls
at once, fairness, memory. The tenant is the team of LiteLLM's key, or else its alias or user. The cost is in tokens.

    TOLLGATE_URL         the gateway: http, https, grpc or grpcs
    TOLLGATE_TOKEN       the token of a caller that may state `tenant`
    TOLLGATE_FAIL_OPEN   1: calls pass while no gateway can decide; otherwise they get 503
    TOLLGATE_TTL_MS      how long a call can take; what it holds is given back then if LiteLLM has not told its end
"""

import json
import os
from typing import Any

from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger

from tollgate import ApiError, AsyncClient, AsyncRemoteLease, Refused, TollgateError, UnavailableError

CALLS = (
    "completion",
    "acompletion",
    "text_completion",
    "atext_completion",
    "anthropic_messages",
    "aresponses",
    "responses",
)
MOST_OUTPUT = 4096  # of a call that does not say how much it wants


def tenant_of(key: Any) -> str:
    """Whose limits apply: the team of the key, or else its alias or user."""
    for name in ("team_alias", "team_id", "key_alias", "user_id"):
        if value := getattr(key, name, None):
            return str(value)
    return "litellm"


def cost_of(data: dict[str, Any]) -> int:
    """An estimate in tokens: four bytes of input are one, and all the output that may come."""
    said = data.get("messages") or data.get("input") or data.get("prompt") or data.get("system") or ""
    most = data.get("max_completion_tokens") or data.get("max_tokens") or data.get("max_output_tokens")
    output = int(most) if isinstance(most, int) and most > 0 else MOST_OUTPUT
    return len(json.dumps(said, default=str)) // 4 + output * max(1, int(data.get("n") or 1))


def used_by(response: Any) -> int | None:
    usage = getattr(response, "usage", None) or (response.get("usage") if isinstance(response, dict) else None)
    total = getattr(usage, "total_tokens", None) or (usage.get("total_tokens") if isinstance(usage, dict) else None)
    return total if isinstance(total, int) else None


class Admission(CustomLogger):
    """A lease for each call, from before it is sent until LiteLLM says how it has ended."""

    def __init__(self) -> None:
        super().__init__()
        self._client: AsyncClient | None = None
        self._leases: dict[str, AsyncRemoteLease] = {}

    def client(self) -> AsyncClient:
        if self._client is None:  # in the event loop that uses it
            self._client = AsyncClient(os.environ["TOLLGATE_URL"], os.environ["TOLLGATE_TOKEN"])
        return self._client

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        id_ = data.get("litellm_call_id")
        if call_type not in CALLS or not id_ or id_ in self._leases:
            return data
        try:
            self._leases[id_] = await self.client().admit(
                tenant=tenant_of(user_api_key_dict),
                model=str(data.get("model") or ""),
                cost=cost_of(data),
                ttl_ms=int(os.environ.get("TOLLGATE_TTL_MS", "600000")),
            )
        except Refused as refused:
            raise refusal(refused) from refused
        except (UnavailableError, ApiError) as error:
            if os.environ.get("TOLLGATE_FAIL_OPEN") != "1":
                raise HTTPException(503, {"error": f"no decision by Tollgate: {error}"}) from error
        return data

    async def _end(self, id_: str | None, outcome: Any, used: int | None = None) -> None:
        """Once for each call: LiteLLM tells some ends twice."""
        lease = self._leases.pop(id_ or "", None)
        if lease is None:
            return
        try:
            await lease.release(outcome, actual=used)
        except TollgateError as error:
            print(f"tollgate: the lease of {id_} expires by itself: {error}")

    async def async_log_success_event(
        self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any
    ) -> None:
        await self._end(kwargs.get("litellm_call_id"), "ok", used_by(response_obj))

    # An attempt that has failed says nothing yet, since LiteLLM may make another one: so there is no
    # async_log_failure_event() here.

    async def async_post_call_failure_hook(
        self,
        request_data: dict[str, Any],
        original_exception: Exception,
        user_api_key_dict: Any,
        traceback_str: str | None = None,
    ) -> None:
        """The call has failed, all attempts included. A provider that is overloaded says so by its status."""
        status = getattr(original_exception, "status_code", None)
        outcome = "dropped" if status in (429, 503, 529) else "cancelled"
        await self._end(request_data.get("litellm_call_id"), outcome, 0)


def refusal(refused: Refused) -> HTTPException:
    """As Tollgate's own gateway would answer: SDKs obey these headers."""
    after = refused.retry_after_ms
    status = 503 if refused.reason == "memory_pressure" else 400 if refused.reason == "request_exceeds_limit" else 429
    headers = {"x-tollgate-reason": refused.reason}
    if after is None or after > 60_000 or refused.answer.policy_denied:
        headers["x-should-retry"] = "false"
    else:
        headers |= {"retry-after-ms": str(after), "retry-after": str(-(-after // 1000))}
    return HTTPException(status, {"error": str(refused)}, headers)


admission = Admission()
