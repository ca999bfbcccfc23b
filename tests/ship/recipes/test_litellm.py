"""test_litellm.py - the real proxy of LiteLLM with examples/litellm, in front of a scripted provider."""

import http.client
import json
import os
import shutil
import unittest
from typing import Any

from kit import TOKEN, Gateway, start_mock
from recipe_kit import EXAMPLES, Reply, folder_for, free_port, send, start, tool, until

MASTER = "sk-master"
HELLO = [{"role": "user", "content": "hello"}]


class LiteLLM(unittest.TestCase):
    gateway: Gateway

    def open(self, **gate: Any) -> None:
        self.mock = start_mock(self, "--latency", "1ms")
        self.gateway = Gateway(self, gate={"queue": {"wait": {"high": "0ms", "normal": "0ms", "low": "0ms"}}, **gate})
        folder = folder_for(self)
        for file in (EXAMPLES / "litellm").iterdir():
            if file.is_file():
                shutil.copy(file, folder)
        config = folder / "config.yaml"
        text = config.read_text()
        self.assertIn("http://127.0.0.1:9099", text)
        config.write_text(text.replace("http://127.0.0.1:9099", self.mock))
        port = free_port()
        environment = {
            **os.environ,
            "TOLLGATE_URL": self.gateway.http,
            "TOLLGATE_TOKEN": TOKEN,
            "PROVIDER_KEY": "sk-x",
            "LITELLM_MASTER_KEY": MASTER,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "NO_PROXY": "*",
        }
        command = [tool("litellm"), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)]
        start(self, command, port, cwd=folder, env=environment)
        self.port = port

    def ask(self, path: str = "/v1/chat/completions", **body: Any) -> Reply:
        whole = {"model": "small", "max_tokens": 16, **body}
        if path != "/v1/responses":
            whole.setdefault("messages", HELLO)
        return send(f"http://127.0.0.1:{self.port}{path}", whole, authorization=f"Bearer {MASTER}")

    def in_flight(self) -> float:
        return self.gateway.metric("concurrency_in_flight")

    def idle(self) -> None:
        until("nothing is held", lambda: self.in_flight() == 0)

    def test_calls_of_all_dialects_are_decided_and_given_back(self) -> None:
        self.open(concurrency={"law": "fixed", "initial": 2})
        for path, body in (
            ("/v1/chat/completions", {}),
            ("/v1/chat/completions", {"stream": True}),
            ("/v1/messages", {}),
            ("/v1/responses", {"input": "hello"}),
        ):
            before = self.gateway.metric("requests_total")
            reply = self.ask(path, **body)
            self.assertEqual(reply.status, 200, reply.body)
            self.assertEqual(self.gateway.metric("requests_total"), before + 1, path)
            self.idle()

        # A provider that fails: the call holds nothing afterwards.
        send(f"{self.mock}/mock/script", {"default": {"status": 503}})
        self.assertEqual(self.ask().status, 503)
        self.idle()

        # A client that hangs up in the middle of a stream.
        send(f"{self.mock}/mock/script", {"default": {"tokens": 100000, "pace": 100}})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        body = {"model": "small", "stream": True, "max_tokens": 100000, "messages": HELLO}
        headers = {"authorization": f"Bearer {MASTER}", "content-type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        reply = connection.getresponse()
        reply.read(200)
        self.assertEqual(self.in_flight(), 1)
        reply.close()
        connection.close()
        self.idle()

    def test_a_refusal_reaches_the_client_with_its_hints(self) -> None:
        self.open(rate={"strategy": "gcra", "limit": 1, "period": "50s"})
        self.assertEqual(self.ask().status, 200)
        refused = self.ask()
        self.assertEqual(refused.status, 429, refused.body)
        self.assertEqual(refused.headers["x-tollgate-reason"], "rate")
        self.assertTrue(0 < int(refused.headers["retry-after-ms"]) <= 50_000)
        self.assertTrue(0 < int(refused.headers["retry-after"]) <= 50)
        self.assertIn(b"rate limit of tenant default_user_id: 1 call ", refused.body)
        asked = json.loads(send(f"{self.mock}/mock/requests").body)["requests"]
        calls = [request for request in asked if "chat/completions" in request["path"]]
        self.assertEqual(len(calls), 1, "the provider does not hear of a call that was refused")

    def test_usage_is_settled(self) -> None:
        self.open(cost={"strategy": "token_bucket", "capacity": 3000, "refill": 1})
        for _ in range(5):  # each asks for some 2000 and uses 18
            self.assertEqual(self.ask(max_tokens=2000, messages=[{"role": "user", "content": "hi"}]).status, 200)
            send(f"{self.mock}/mock/script", {"default": {"tokens": 16}})
        never = self.ask(max_tokens=9000)
        self.assertEqual((never.status, never.headers["x-should-retry"]), (400, "false"), never.body)

    def test_without_a_gateway_calls_are_refused(self) -> None:
        self.open()
        self.gateway.process.stop()
        self.assertEqual(self.ask().status, 503)
