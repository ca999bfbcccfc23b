"""matrix_kit.py - the official clients in Python, for dialect_matrix.mjs: a line of JSON asks, a line answers.

    {"client": "openai Python, chat", "url": ..., "key": ..., "model": ..., "wish": {...}, "steps": [...]}
        -> {"seen": [...]}, or {"error": {"name", "status", "message"}}
    {"check": [{"dialect": "openai-chat", "body": {...}}, ...]}
        -> {"problems": [...]}: what the types of the official packages do not know of a provider's request

The forms are those of matrix_kit.mjs. Lines are answered by several threads, each with the id of its question.
"""

import json
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anthropic
import openai
import pydantic
from google.genai import types as gemini

MOST = 256
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


class Answer(pydantic.BaseModel):
    city: str


def given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


class Chat:
    def __init__(self, url: str, key: str, model: str, wish: dict[str, Any]) -> None:
        self.client = openai.OpenAI(api_key=key, base_url=f"{url}/v1", max_retries=0)
        self.model, self.wish = model, wish
        self.messages: list[Any] = [{"role": "system", "content": wish["system"]}] if "system" in wish else []

    def body(self, choice: str | None) -> dict[str, Any]:
        wish, choice = self.wish, choice or self.wish.get("choice")
        named = choice if choice in ("required", "auto", None) else {"type": "function", "function": {"name": choice}}
        return given(
            model=self.model,
            messages=self.messages,
            max_completion_tokens=MOST,
            tools=[
                {"type": "function", "function": {"name": name, "parameters": PARAMETERS}}
                for name in wish.get("tools", [])
            ]
            or None,
            tool_choice=named,
            parallel_tool_calls=wish.get("parallel"),
            stop=wish.get("stop"),
            reasoning_effort=wish.get("effort"),
        )

    def user(self, text: str, image: str | None) -> None:
        content: Any = text
        if image:
            content = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": image}}]
        self.messages.append({"role": "user", "content": content})

    def said(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})

    def results(self, text: str) -> None:
        for call in self.messages[-1].tool_calls:
            self.messages.append({"role": "tool", "tool_call_id": call.id, "content": text})

    def saw(self, reply: Any, pieces: int) -> dict[str, Any]:
        message, usage = reply.choices[0].message, reply.usage
        self.messages.append(message)
        details = usage.completion_tokens_details
        parsed = getattr(message, "parsed", None)
        return given(
            text=message.content or "",
            parsed=parsed and parsed.model_dump(),
            refused=bool(message.refusal) or reply.choices[0].finish_reason == "content_filter",
            stop=reply.choices[0].finish_reason,
            usage=[
                usage.prompt_tokens,
                usage.completion_tokens,
                (details.reasoning_tokens if details else None) or 0,
            ],
            calls=[
                {"id": call.id, "name": call.function.name, "args": json.loads(call.function.arguments)}
                for call in message.tool_calls or []
            ],
            thought=getattr(message, "reasoning_content", None) or "",
            pieces=pieces,
        )

    def ask(self, stream: bool, leave: bool, choice: str | None) -> dict[str, Any] | None:
        completions = self.client.chat.completions
        if not stream and self.wish.get("schema"):
            return self.saw(completions.parse(**self.body(choice), response_format=Answer), 0)
        if not stream:
            return self.saw(completions.create(**self.body(choice)), 0)
        pieces = 0
        with completions.stream(**self.body(choice), stream_options={"include_usage": True}) as events:
            for event in events:
                pieces += event.type in ("content.delta", "tool_calls.function.arguments.delta")
                if leave and pieces:
                    return None
            try:
                return self.saw(events.get_final_completion(), pieces)
            except openai.ContentFilterFinishReasonError:
                return {"refused": True, "stop": "content_filter"}


class Responses:
    def __init__(self, url: str, key: str, model: str, wish: dict[str, Any]) -> None:
        self.client = openai.OpenAI(api_key=key, base_url=f"{url}/v1", max_retries=0)
        self.model, self.wish = model, wish
        self.input: list[Any] = []
        self.calls: list[Any] = []

    def body(self, choice: str | None) -> dict[str, Any]:
        wish, choice = self.wish, choice or self.wish.get("choice")
        effort = wish.get("effort")
        return given(
            model=self.model,
            input=self.input,
            instructions=wish.get("system"),
            max_output_tokens=MOST,
            store=False,
            include=effort and ["reasoning.encrypted_content"],
            reasoning=effort and {"effort": effort, "summary": "auto"},
            tools=[
                {"type": "function", "name": name, "parameters": PARAMETERS, "strict": False}
                for name in wish.get("tools", [])
            ]
            or None,
            tool_choice=choice if choice in ("required", "auto", None) else {"type": "function", "name": choice},
            parallel_tool_calls=wish.get("parallel"),
        )

    def user(self, text: str, image: str | None) -> None:
        content: Any = text
        if image:
            content = [
                {"type": "input_text", "text": text},
                {"type": "input_image", "image_url": image, "detail": "auto"},
            ]
        self.input.append({"role": "user", "content": content})

    def said(self, text: str) -> None:
        self.input.append({"role": "assistant", "content": text})

    def results(self, text: str) -> None:
        for call in self.calls:
            self.input.append({"type": "function_call_output", "call_id": call.call_id, "output": text})

    def saw(self, reply: Any, pieces: int) -> dict[str, Any]:
        if reply.error or reply.status == "in_progress":
            raise RuntimeError(reply.error.message if reply.error else "the response has no end")
        self.input += reply.output
        self.calls = [item for item in reply.output if item.type == "function_call"]
        parts = [part for item in reply.output if item.type == "message" for part in item.content]
        parsed = getattr(reply, "output_parsed", None)
        why = reply.incomplete_details.reason if reply.incomplete_details else None
        return given(
            text=reply.output_text,
            parsed=parsed and parsed.model_dump(),
            refused=any(part.type == "refusal" for part in parts) or why == "content_filter",
            stop=reply.status,
            usage=[
                reply.usage.input_tokens,
                reply.usage.output_tokens,
                reply.usage.output_tokens_details.reasoning_tokens,
            ],
            calls=[
                {"id": call.call_id, "name": call.name, "args": json.loads(call.arguments)} for call in self.calls
            ],
            thought="".join(
                part.text for item in reply.output if item.type == "reasoning" for part in item.summary + (item.content or [])
            ),
            pieces=pieces,
        )

    def ask(self, stream: bool, leave: bool, choice: str | None) -> dict[str, Any] | None:
        if not stream and self.wish.get("schema"):
            return self.saw(self.client.responses.parse(**self.body(choice), text_format=Answer), 0)
        if not stream:
            return self.saw(self.client.responses.create(**self.body(choice)), 0)
        pieces = 0
        with self.client.responses.stream(**self.body(choice)) as events:
            for event in events:
                pieces += event.type in ("response.output_text.delta", "response.function_call_arguments.delta")
                if leave and pieces:
                    return None
                if event.type == "response.incomplete":  # which get_final_response() does not take for an end
                    return self.saw(event.response, pieces)
            return self.saw(events.get_final_response(), pieces)


class Messages:
    def __init__(self, url: str, key: str, model: str, wish: dict[str, Any]) -> None:
        self.client = anthropic.Anthropic(api_key=key, base_url=url, max_retries=0)
        self.model, self.wish = model, wish
        self.messages: list[Any] = []

    def body(self, choice: str | None) -> dict[str, Any]:
        wish = self.wish
        alone = wish.get("parallel") is False
        choice = choice or wish.get("choice") or ("auto" if alone else None)
        kinds = {"required": "any", "auto": "auto"}
        chosen: dict[str, Any] | None = None
        if choice:
            chosen = {"type": kinds[choice]} if choice in kinds else {"type": "tool", "name": choice}
            if alone:
                chosen["disable_parallel_tool_use"] = True
        return given(
            model=self.model,
            messages=self.messages,
            system=wish.get("system"),
            max_tokens=MOST,
            tools=[{"name": name, "input_schema": PARAMETERS} for name in wish.get("tools", [])] or None,
            tool_choice=chosen,
            stop_sequences=wish.get("stop"),
            thinking=wish.get("effort") and {"type": "adaptive", "display": "summarized"},
            output_config=wish.get("effort") and {"effort": wish["effort"]},
        )

    def user(self, text: str, image: str | None) -> None:
        content: Any = text
        if image:
            source = {"type": "base64", "media_type": "image/png", "data": image.split(",")[1]}
            content = [{"type": "text", "text": text}, {"type": "image", "source": source}]
        self.messages.append({"role": "user", "content": content})

    def said(self, text: str) -> None:
        self.messages.append({"role": "assistant", "content": text})

    def results(self, text: str) -> None:
        calls = [block for block in self.messages[-1]["content"] if block.type == "tool_use"]
        content = [{"type": "tool_result", "tool_use_id": call.id, "content": text} for call in calls]
        self.messages.append({"role": "user", "content": content})

    def saw(self, reply: Any, pieces: int) -> dict[str, Any]:
        self.messages.append({"role": "assistant", "content": reply.content})
        usage = reply.usage
        details = getattr(usage, "output_tokens_details", None)
        parsed = getattr(reply, "parsed_output", None)

        def of(kind: str) -> Iterator[Any]:
            return (block for block in reply.content if block.type == kind)

        return given(
            text="".join(block.text for block in of("text")),
            parsed=parsed and parsed.model_dump(),
            refused=reply.stop_reason == "refusal",
            stop=reply.stop_reason,
            usage=[
                usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0),
                usage.output_tokens,
                (details.thinking_tokens if details else None) or 0,
            ],
            calls=[{"id": block.id, "name": block.name, "args": block.input} for block in of("tool_use")],
            thought="".join(block.thinking for block in of("thinking")),
            pieces=pieces,
        )

    def ask(self, stream: bool, leave: bool, choice: str | None) -> dict[str, Any] | None:
        if not stream and self.wish.get("schema"):
            return self.saw(self.client.messages.parse(**self.body(choice), output_format=Answer), 0)
        if not stream:
            return self.saw(self.client.messages.create(**self.body(choice)), 0)
        pieces = 0
        with self.client.messages.stream(**self.body(choice)) as events:
            for event in events:
                pieces += event.type == "content_block_delta" and event.delta.type in ("text_delta", "input_json_delta")
                if leave and pieces:
                    return None
            return self.saw(events.get_final_message(), pieces)


CLIENTS = {
    "openai Python, chat": Chat,
    "openai Python, responses": Responses,
    "anthropic Python": Messages,
}


def converse(question: dict[str, Any]) -> dict[str, Any]:
    talk = CLIENTS[question["client"]](question["url"], question["key"], question["model"], question["wish"])
    seen = []
    for step in question["steps"]:
        if "user" in step:
            talk.user(step["user"], step.get("image"))
        if "model" in step:
            talk.said(step["model"])
        if "results" in step:
            talk.results(step["results"])
        if "ask" in step:
            ask = step["ask"]
            seen.append(talk.ask(ask.get("stream", False), ask.get("leave", False), ask.get("choice")))
    return {"seen": seen}


# ---- What the official types say of a request to a provider ----


class Generate(pydantic.BaseModel):
    """The body of Gemini's generateContent, made of the types of its package, which forbid what they do not know."""

    model_config = pydantic.ConfigDict(extra="forbid")
    contents: list[gemini.Content]
    systemInstruction: gemini.Content | None = None  # noqa: N815
    tools: list[gemini.Tool] | None = None
    toolConfig: gemini.ToolConfig | None = None  # noqa: N815
    generationConfig: gemini.GenerationConfig | None = None  # noqa: N815
    serviceTier: str | None = None  # noqa: N815
    store: bool | None = None


TYPES: dict[str, Any] = {
    "openai-chat": openai.types.chat.completion_create_params.CompletionCreateParams,
    "openai-responses": openai.types.responses.response_create_params.ResponseCreateParams,
    "anthropic": anthropic.types.message_create_params.MessageCreateParams,
    "gemini": Generate,
}
adapters: dict[str, Any] = {}


def plain(value: Any) -> Any:
    """Pydantic gives what is iterable as an iterator that checks on the way."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        return value
    return [plain(item) for item in value]


def lost(before: Any, after: Any, path: str) -> str | None:
    """The first member that is not there any more: the types leave out what they do not know."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after:
                return f"{path}.{key} is not known"
            found = lost(value, after[key], f"{path}.{key}")
            if found:
                return found
    if isinstance(before, list) and isinstance(after, list):
        for i, (a, b) in enumerate(zip(before, after, strict=True)):
            found = lost(a, b, f"{path}[{i}]")
            if found:
                return found
    return None


def complete(item: dict[str, Any]) -> dict[str, Any]:
    """The types want ids of what a model said before, but only the provider can make them, and it takes items without."""
    if item.get("type") == "reasoning":
        return {"id": "rs_1", **item}
    if item.get("type") == "message" and item["role"] == "assistant":
        return {"id": "msg_1", "status": "completed", **item}
    return item


def check(dialect: str, body: dict[str, Any]) -> str | None:
    if dialect not in adapters:
        adapters[dialect] = pydantic.TypeAdapter(TYPES[dialect])
    if dialect == "openai-responses":
        body = {**body, "input": [complete(item) for item in body["input"]]}
    try:
        after = adapters[dialect].validate_python(body)
        return None if dialect == "gemini" else lost(body, plain(after), dialect)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        return f"{dialect}: {first['loc']}: {first['msg']}"


def answer(line: str) -> None:
    question = json.loads(line)
    try:
        if "check" in question:
            found = (check(one["dialect"], one["body"]) for one in question["check"])
            reply: dict[str, Any] = {
                "problems": [f"{problem}: {json.dumps(one['body'])}" for one, problem in zip(question["check"], found, strict=True) if problem]
            }
        else:
            reply = converse(question)
    except Exception as error:  # noqa: BLE001
        status = getattr(error, "status_code", None)
        reply = {"error": {"name": type(error).__name__, "status": status, "message": str(error)}}
    with lock:
        print(json.dumps({"id": question["id"], **reply}), flush=True)


lock = threading.Lock()
if __name__ == "__main__":
    with ThreadPoolExecutor(8) as pool:
        for text in sys.stdin:
            pool.submit(answer, text)
