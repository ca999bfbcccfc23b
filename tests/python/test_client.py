"""test_client.py - the client of Admit against a gateway, over HTTP and gRPC, with threads and with tasks."""

import asyncio
import dataclasses
import json
import threading
import unittest
import unittest.mock
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from kit import TOKEN, Gateway

from tollgate import (
    ApiError,
    AsyncClient,
    Client,
    ClosedError,
    Hint,
    InvalidError,
    Refused,
    Retry,
    UnavailableError,
    hint_of,
)
from tollgate.client import pause_s

SLOTS = {
    "concurrency": {"law": "fixed", "initial": 2},
    "queue": {"wait": {"high": "1h", "normal": "0ms", "low": "0ms"}},
    "rate": {"strategy": "gcra", "limit": 3, "period": "1h"},
}


class Against(unittest.TestCase):
    def both(self, check: Callable[[Gateway, str], None], **config: Any) -> None:
        gateway = Gateway(self, gate={**SLOTS, **config})
        for url in (gateway.http, gateway.grpc):
            with self.subTest(url=url):
                check(gateway, url)
                self.idle(gateway)

    def both_async(self, check: Callable[[Gateway, str], Awaitable[None]], **config: Any) -> None:
        async def run(gateway: Gateway, url: str) -> None:
            await check(gateway, url)

        self.both(lambda gateway, url: asyncio.run(run(gateway, url)), **config)

    def idle(self, gateway: Gateway) -> None:
        while gateway.metric("concurrency_in_flight") != 0:
            pass


class Sync(Against):
    def test_admitted_and_released_once(self) -> None:
        def check(gateway: Gateway, url: str) -> None:
            with Client(url, TOKEN) as client:
                lease = client.admit(tenant=url, model="small", cost=3, priority="low", ttl_ms=60_000)
                self.assertTrue(lease.id)
                self.assertEqual(lease.answer.axes["rate"].remaining, 2)
                self.assertEqual(lease.answer.axes["concurrency"].limit, 2)
                self.assertEqual(gateway.metric("concurrency_in_flight"), 1)
                self.assertTrue(lease.heartbeat())
                lease.actual = 2
                self.assertTrue(lease.release())
                self.assertFalse(lease.release())
                with self.assertRaises(KeyError), client.admit(tenant=url):
                    raise KeyError

        self.both(check)

    def test_a_refusal_says_why_and_when(self) -> None:
        def check(gateway: Gateway, url: str) -> None:
            with Client(url, TOKEN) as client:
                for _ in range(3):
                    client.admit(tenant=url).release()
                with self.assertRaises(Refused) as refused:
                    client.admit(tenant=url)
                answer = refused.exception.answer
                self.assertEqual((answer.reason, answer.binding_axis, answer.limit), ("rate", "rate", 2))
                self.assertRegex(str(refused.exception), "^rate limit of .*: 3 calls an hour, 0 left, next in ")
                assert answer.binding_limit is not None
                self.assertEqual((answer.binding_limit.rule, answer.binding_limit.limit), ("3 calls an hour", 3))
                hint = hint_of(refused.exception)
                self.assertEqual(hint, Hint(True, answer.retry_after_ms / 1000))
                peek = client.peek(tenant=url)
                self.assertFalse(peek.allowed)
                self.assertEqual(peek.reason, "rate")

        self.both(check)

    def test_both_interfaces_give_the_same_answer(self) -> None:
        gateway = Gateway(self, gate=SLOTS)
        with Client(gateway.http, TOKEN) as http, Client(gateway.grpc, TOKEN) as rpc:
            # All but the time at which they are asked.
            answers = [dataclasses.replace(client.peek(tenant="a"), reset_at_ms=0) for client in (http, rpc)]
            for answer in answers:
                axes = {name: dataclasses.replace(axis, reset_at_ms=0) for name, axis in answer.axes.items()}
                self.assertEqual(dataclasses.replace(answer, axes=axes), dataclasses.replace(answers[0], axes=axes))
                self.assertEqual({name: axis.limit for name, axis in axes.items()}, {"concurrency": 2, "rate": 3})
            lease = http.admit(tenant="a")
            self.assertEqual(http.peek(tenant="a").axes["rate"].remaining, 1)
            # A lease is one thing, whoever asks for its end.
            self.assertTrue(rpc._call("release", {"lease_id": lease.id})["found"])
            self.assertFalse(lease.release())

    def test_a_lease_that_is_kept_alive_lives(self) -> None:
        """The client's thread renews it again and again, without being asked."""

        def check(gateway: Gateway, url: str) -> None:
            with Client(url, TOKEN) as client:
                beats = threading.Semaphore(0)
                call = client._call

                def counted(method: str, message: dict[str, Any]) -> dict[str, Any]:
                    raw = call(method, message)
                    if method == "heartbeat":
                        beats.release()
                    return raw

                client._call = counted  # type: ignore[method-assign]
                with client.admit(tenant=url, ttl_ms=60_000, keep_alive=True) as lease:
                    for _ in range(4):
                        self.assertTrue(beats.acquire(timeout=60))
                    self.assertFalse(lease.lost)
                    self.assertTrue(lease.release())

        self.assertEqual(pause_s([30_000, 6000]), 2.0, "three times in the shortest life")
        with unittest.mock.patch("tollgate.client.pause_s", lambda _: 0.01):
            self.both(check)

    def test_a_lease_that_is_kept_alive_and_lost_says_so(self) -> None:
        def check(gateway: Gateway, url: str) -> None:
            with Client(url, TOKEN) as client, Client(url, TOKEN) as other:
                lease = client.admit(tenant=url, keep_alive=True)
                other._call("release", {"lease_id": lease.id})
                while not lease.lost:
                    pass
                self.assertFalse(client._kept)

        with unittest.mock.patch("tollgate.client.pause_s", lambda _: 0.01):
            self.both(check)

    def test_a_lease_that_has_ended_elsewhere_is_lost(self) -> None:
        def check(gateway: Gateway, url: str) -> None:
            with Client(url, TOKEN) as client, Client(url, TOKEN) as other:
                lease = client.admit(tenant=url)
                other._call("release", {"lease_id": lease.id})
                self.assertFalse(lease.heartbeat())
                self.assertTrue(lease.lost)
                self.assertFalse(lease.release())

        self.both(check)

    def test_errors_are_no_decisions(self) -> None:
        def check(gateway: Gateway, url: str) -> None:
            with Client(url, TOKEN) as client:
                with self.assertRaises(ApiError) as error:
                    client.admit(tenant=url, ttl_ms=-5)
                self.assertIn("ttl_ms", str(error.exception))
                wrong: Any = {"tenannt": "x"}
                with self.assertRaisesRegex(InvalidError, "no field tenannt"):
                    client.admit(**wrong)
                with self.assertRaises(InvalidError):
                    client.admit(tenant=url, cost=float("nan"))  # type: ignore[arg-type]
            with self.assertRaises(ClosedError):
                client.admit()
            with Client(url, "nobody") as client, self.assertRaises(ApiError) as error:
                client.admit()
            self.assertIn(error.exception.status, (401, "UNAUTHENTICATED"))

        self.both(check)

    def test_a_gateway_that_is_not_there(self) -> None:
        for url in ("http://127.0.0.1:9", "grpc://127.0.0.1:9"):
            with self.subTest(url=url), Client(url, TOKEN, timeout=20) as client:
                with self.assertRaises(UnavailableError) as error:
                    client.admit()
                self.assertEqual(hint_of(error.exception), Hint(True))
        for url in ("ftp://x", "http://", "http://h:99999", "grpc://host", "http://h/path", "x"):
            with self.subTest(url=url), self.assertRaises(InvalidError):
                Client(url, TOKEN)
        for token in ("", "a\r\nx: y", "\u20ac"):
            with self.assertRaises(InvalidError):
                Client("http://x", token)

    def test_a_connection_that_the_gateway_has_closed_is_no_error(self) -> None:
        gateway = Gateway(self, gate=SLOTS)
        with Client(gateway.http, TOKEN) as client:
            client.peek()
            http: Any = client._transport
            (idle,) = http._idle
            idle.sock.shutdown(2)
            client.peek()

    def test_threads_share_a_client(self) -> None:
        gateway = Gateway(self, gate={"concurrency": {"law": "fixed", "initial": 2}, "queue": {"wait": {"high": "1h"}}})
        for url in (gateway.http, gateway.grpc):
            with Client(url, TOKEN) as client:
                failed: list[BaseException] = []

                def work(client: Client = client, failed: list[BaseException] = failed) -> None:
                    try:
                        for _ in range(10):
                            client.admit(priority="high").release()
                    except BaseException as error:
                        failed.append(error)

                threads = [threading.Thread(target=work) for _ in range(8)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertEqual(failed, [])
        self.idle(gateway)

    def test_retries_of_a_stub_obey_the_gateway(self) -> None:
        """A stub of gRPC that asks for refusals as a status: the hint is in the trailers."""
        from tollgate import admission_pb2 as pb  # noqa: PLC0415

        gateway = Gateway(self, gate={"rate": {"strategy": "gcra", "limit": 1, "period": "20s"}})
        with grpc.insecure_channel(gateway.grpc.removeprefix("grpc://")) as channel:
            admit = channel.unary_unary(
                "/tollgate.v1.Admission/Admit",
                request_serializer=pb.AdmitRequest.SerializeToString,
                response_deserializer=pb.AdmitReply.FromString,
            )
            slept: list[float] = []
            retry = Retry(2, sleep=slept.append, draw=lambda: 0.0)
            metadata = (("authorization", f"Bearer {TOKEN}"), ("x-tollgate-enforce", "1"))
            self.assertTrue(retry.call(admit, pb.AdmitRequest(tenant="a"), metadata=metadata, timeout=60).allowed)
            with self.assertRaises(grpc.RpcError):
                retry.call(admit, pb.AdmitRequest(tenant="a"), metadata=metadata, timeout=60)
            self.assertEqual(len(slept), 1)
            # Never shorter than what is said, which is at most a tenth more than what is left of 20 s.
            self.assertTrue(0 < slept[0] <= 22, slept)

    def test_a_stock_channel_waits_as_long_as_it_is_told(self) -> None:
        """gRPC's own retries: by their policy all attempts would be over in some ms, and all refused."""
        from tollgate import admission_pb2 as pb  # noqa: PLC0415

        policy = {
            "methodConfig": [
                {
                    "name": [{"service": "tollgate.v1.Admission"}],
                    "retryPolicy": {
                        "maxAttempts": 3,
                        "initialBackoff": "0.001s",
                        "maxBackoff": "0.001s",
                        "backoffMultiplier": 1,
                        "retryableStatusCodes": ["RESOURCE_EXHAUSTED"],
                    },
                }
            ]
        }
        gateway = Gateway(self, gate={"rate": {"strategy": "gcra", "limit": 1, "period": "1s"}})
        options = [("grpc.service_config", json.dumps(policy))]
        address = gateway.grpc.removeprefix("grpc://")
        with grpc.insecure_channel(address, options, grpc.Compression.Gzip) as channel:
            admit = channel.unary_unary(
                "/tollgate.v1.Admission/Admit",
                request_serializer=pb.AdmitRequest.SerializeToString,
                response_deserializer=pb.AdmitReply.FromString,
            )
            metadata = (("authorization", f"Bearer {TOKEN}"), ("x-tollgate-enforce", "1"))
            for _ in range(3):
                self.assertTrue(admit(pb.AdmitRequest(tenant="a"), metadata=metadata, timeout=60).allowed)


class Async(Against):
    def test_admitted_and_released_once(self) -> None:
        async def check(gateway: Gateway, url: str) -> None:
            async with AsyncClient(url, TOKEN) as client:
                async with await client.admit(tenant=url, cost=3, keep_alive=True) as lease:
                    lease.actual = 1
                    self.assertTrue(await lease.heartbeat())
                    self.assertFalse((await client.peek(tenant=url)).never)
                self.assertFalse(await lease.release())
                with self.assertRaises(KeyError):
                    async with await client.admit(tenant=url):
                        raise KeyError
                # Forgotten: it expires.
                await client.admit(tenant=url, ttl_ms=50)
                with self.assertRaises(Refused):
                    await client.admit(tenant=url)
                with self.assertRaises(ApiError):
                    await client.admit(tenant=url, ttl_ms=-5)
            with self.assertRaises(ClosedError):
                await client.admit()

        self.both_async(check)

    def test_a_task_that_is_cancelled_leaves_the_queue(self) -> None:
        async def check(gateway: Gateway, url: str) -> None:
            async with AsyncClient(url, TOKEN) as client:
                held = [await client.admit(tenant=f"{url}{i}") for i in range(2)]
                waits = asyncio.create_task(client.admit(tenant=f"{url}x", priority="high"))
                while gateway.metric("concurrency_queued") < 1:
                    await asyncio.sleep(0)
                waits.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await waits
                while gateway.metric("concurrency_queued") > 0:
                    await asyncio.sleep(0)
                for lease in held:
                    self.assertTrue(await lease.release())

        self.both_async(check)

    def test_a_task_that_is_cancelled_gives_back_what_it_holds(self) -> None:
        async def check(gateway: Gateway, url: str) -> None:
            async with AsyncClient(url, TOKEN) as client:
                inside = asyncio.Event()

                async def work() -> None:
                    async with await client.admit(tenant=url):
                        inside.set()
                        await asyncio.Event().wait()

                task = asyncio.create_task(work())
                await inside.wait()
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task

        self.both_async(check)

    def test_a_gateway_that_is_not_there(self) -> None:
        async def main() -> None:
            for url in ("http://127.0.0.1:9", "grpc://127.0.0.1:9"):
                async with AsyncClient(url, TOKEN, timeout=20) as client:
                    with self.assertRaises(UnavailableError):
                        await client.admit()

        asyncio.run(main())
