#!/usr/bin/env python3
"""Measures in real time how `weir-proxy --seats adaptive` finds the workers of a service.

usage: test/bench/adaptive.py [--workers 2,16,64] [--times constant,lognormal] [--change steady,halved]
                              [--at-once N] [--json]

The service has W workers, a queue without a bound, and completes 100 requests per second: a request takes W x 10 ms of a
worker, always or lognormal with sigma 0.5. `halved` takes half of the workers away after 20 s. Clients keep requests
waiting at the proxy all the time. Each scenario takes up to 3 min, and about a tenth of a processor.

Prints for each scenario, for 10 s that begin 15 s and 1,500 requests after the start or the change, and for 30 s that
begin 60 s and 6,000 requests after it:

- the latency of the service, from a request of the proxy to the response, as a multiple of the time that a worker needs;
- the share of the service's throughput that was used, which may exceed 100 % by some per cent because requests of
  constant times end together;
- at the end, the number of seats.
"""

import argparse
import asyncio
import collections
import json
import math
import os
import random
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
os.environ.setdefault("WEIR_PROXY", str(PROJECT / "build/release/src/weir-proxy"))
sys.path.insert(0, str(PROJECT / "test/proxy"))

from support import Proxy  # noqa: E402

SETTLING = 20  # seconds before the change
STAGES = ((15, 1500, 10), (60, 6000, 30))  # seconds and requests before it is measured, and for how many seconds
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
REQUEST = b"GET / HTTP/1.1\r\nHost: service\r\n\r\n"


class Service:
    """Workers with a queue in front of them. Records each completion: its end, its latency and the time of its worker."""

    def __init__(self, workers, varies):
        self.workers = workers
        self.takes = workers * 0.01
        self.varies = varies
        self.busy = 0
        self.queue = collections.deque()
        self.completed = []
        self.random = random.Random(1)

    def draw(self):
        if not self.varies:
            return self.takes
        sigma = 0.5
        return self.takes * self.random.lognormvariate(-sigma * sigma / 2, sigma)

    def arrive(self, respond):
        self.queue.append((asyncio.get_running_loop().time(), respond))
        self.work()

    def work(self):
        loop = asyncio.get_running_loop()
        while self.queue and self.busy < self.workers:
            arrived, respond = self.queue.popleft()
            self.busy += 1
            loop.call_later(self.draw(), self.finish, arrived, loop.time(), respond)

    def finish(self, arrived, began, respond):
        now = asyncio.get_running_loop().time()
        self.completed.append((now, now - arrived, now - began))
        self.busy -= 1
        respond()
        self.work()

    def figures(self, begin, end):
        """The latency, as a multiple of the time of a worker, and the share of the throughput in an interval."""
        found = [c for c in self.completed if begin <= c[0] < end]
        if not found:
            return math.inf, 0.0
        latency = sum(c[1] for c in found) / len(found)
        own = sum(c[2] for c in found) / len(found)
        return latency / own, len(found) * own / (self.workers * (end - begin))


class ServiceConnection(asyncio.Protocol):
    def __init__(self, service):
        self.service = service
        self.text = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.text += data
        while (end := self.text.find(b"\r\n\r\n")) >= 0:  # requests have no body
            self.text = self.text[end + 4 :]
            self.service.arrive(self.respond)

    def respond(self):
        if not self.transport.is_closing():
            self.transport.write(RESPONSE)


class ClientConnection(asyncio.Protocol):
    """Sends the next request when it has a response."""

    def __init__(self, failures):
        self.failures = failures
        self.text = b""

    def connection_made(self, transport):
        self.transport = transport
        transport.write(REQUEST)

    def data_received(self, data):
        self.text += data
        if not self.text.endswith(b"ok"):
            return
        if not self.text.startswith(b"HTTP/1.1 200"):
            self.failures.append(self.text)
        self.text = b""
        self.transport.write(REQUEST)


async def measure(workers, times, change):
    loop = asyncio.get_running_loop()
    service = Service(workers, times == "lognormal")
    server = await loop.create_server(lambda: ServiceConnection(service), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    proxy = Proxy("--upstream", f"127.0.0.1:{port}", "--seats", "adaptive", "--patience", "1h", "--queue", 10000,
                  "--threads", 1, "--admin", "none", "--ratelimit-headers", "none")
    clients, failures = [], []
    try:
        for _ in range(40 + 4 * workers):
            transport, _ = await loop.create_connection(lambda: ClientConnection(failures), "127.0.0.1", proxy.port)
            clients.append(transport)
        if change == "halved":
            await asyncio.sleep(SETTLING)
            service.workers //= 2
        begin, before = loop.time(), len(service.completed)
        stages = []
        for seconds, requests, length in STAGES:
            while loop.time() < begin + seconds or len(service.completed) < before + requests:
                await asyncio.sleep(0.1)
            first = loop.time()
            await asyncio.sleep(length)
            stages.append(service.figures(first, loop.time()))
        seats = proxy.numbers()["seats"]["seats"]
    finally:
        for transport in clients:
            transport.abort()
        server.close()
        proxy.process.kill()
        proxy.process.communicate()
    assert not failures, failures[0]
    return {"workers": workers, "times": times, "change": change, "seats": seats, "stages": stages}


def print_table(results):
    at = [f"{seconds} s" for seconds, _, _ in STAGES]
    print(f"{'workers':>7}  {'times':<9}  {'change':<6}  {'latency after':>15}  {'throughput after':>16}  {'seats':>5}")
    print(f"{'':>7}  {'':<9}  {'':<6}  {at[0]:>7} {at[1]:>7}  {at[0]:>8} {at[1]:>7}")
    for r in results:
        (early, share_early), (late, share_late) = r["stages"]
        print(f"{r['workers']:>7}  {r['times']:<9}  {r['change']:<6}  {early:>7.2f} {late:>7.2f}  "
              f"{share_early:>8.0%} {share_late:>7.0%}  {r['seats']:>5}", flush=True)


async def measure_all(scenarios, at_once):
    free = asyncio.Semaphore(at_once)

    async def one(scenario):
        async with free:
            return await measure(*scenario)

    return await asyncio.gather(*map(one, scenarios))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="2,16,64")
    parser.add_argument("--times", default="constant,lognormal")
    parser.add_argument("--change", default="steady,halved")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    scenarios = [(int(w), t, c) for w in chosen.workers.split(",") for t in chosen.times.split(",")
                 for c in chosen.change.split(",")]
    for _, times, change in scenarios:
        if times not in ("constant", "lognormal") or change not in ("steady", "halved"):
            parser.error("times are constant or lognormal, and changes steady or halved")
    results = asyncio.run(measure_all(scenarios, chosen.at_once))
    print(json.dumps(results)) if chosen.json else print_table(results)


if __name__ == "__main__":
    main()
