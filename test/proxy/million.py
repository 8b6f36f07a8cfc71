#!/usr/bin/env python3
"""A million clients, each with its own limit: their memory, and the time of the responses to the status page. A trusted
balancer names the clients, so few connections are enough. The proxy responds itself, without an upstream."""

import threading
import time

from admin_support import Watcher, limit_of, port_of, request
from support import KEEPS_MEMORY, Client, ProxyTest, in_parallel, main

CLIENTS = 100_000 if KEEPS_MEMORY else 1_000_000  # a sanitizer takes ten times as long
MORE = CLIENTS // 20  # beyond `max_keys`
CONNECTIONS = 4
BATCH = 250
BYTES = 64  # of memory for each client; about 50 are documented
SIZE = 32 * 1024  # of a response about one limit, however many clients there are

CONFIG = f"""
[clients]
trusted = ["127.0.0.1/32"]
[admin]
address = "127.0.0.1:0"
[[upstream]]
name = "none"
servers = "UPSTREAM"
[[limit]]
name = "client"
rule = "1/24h burst 1"
queue = "max_waiting 0 patience 0s"
key = "client"
max_keys = {CLIENTS}
[[route]]
respond = 204
limits = ["client"]
"""


def text_of(n):
    return b"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 10.%d.%d.%d\r\n\r\n" % (n >> 16, n >> 8 & 255, n & 255)


class Million(ProxyTest):
    def ask(self, begin, end):
        """Sends one request for each of these clients. Returns the number of granted requests, of rejected requests, and of
        requests per second."""
        found = {b"204": 0, b"429": 0}
        lock = threading.Lock()
        begun = time.monotonic()

        def work(i):
            mine = range(begin + i, end, CONNECTIONS)
            with Client(self.proxy.port) as client:
                for first in range(0, len(mine), BATCH):
                    batch = mine[first:first + BATCH]
                    client.send(b"".join(map(text_of, batch)))
                    got = {status: 0 for status in found}
                    for _ in batch:
                        head = client.reader.until(b"\r\n\r\n")
                        if head[9:12] == b"429":
                            length = head.lower().split(b"content-length: ")[1].split(b"\r")[0]
                            client.reader.exactly(int(length))
                        got[head[9:12]] += 1
                    with lock:
                        for status, n in got.items():
                            found[status] += n

        in_parallel(CONNECTIONS, work)
        return found[b"204"], found[b"429"], round((end - begin) / (time.monotonic() - begun))

    def resident(self):
        with open(f"/proc/{self.proxy.process.pid}/status") as status:
            return int(status.read().split("VmRSS:")[1].split()[0]) * 1024

    def look(self):
        """The seconds and the bytes of the response for each path of the admin listener."""
        found = {}
        for path in ("/stats.json", "/metrics", "/"):
            begun = time.monotonic()
            answer = request(self.proxy, path)
            self.assertEqual(answer.status, 200)
            found[path] = (time.monotonic() - begun, len(answer.body))
            if path == "/metrics":
                self.assertNotIn(b'"10.', answer.body)  # no label for a client
        begun = time.monotonic()
        with Watcher(port_of(self.proxy)) as watcher:
            name, data = watcher.event()
            self.assertEqual(name, "history")
            found["/events"] = (time.monotonic() - begun, len(str(data)))
        return found

    def look_often(self, ends):
        looks = []
        while not ends.wait(0.2):
            looks.append(self.look())
        return looks

    def told(self, what, looks):
        for path in looks[0]:
            took = sorted(one[path][0] for one in looks)
            size = max(one[path][1] for one in looks)
            print(f"{what}: {path}: median {took[len(took) // 2] * 1000:.1f} ms of {len(took)}, max {took[-1] * 1000:.1f} ms, "
                  f"{size} bytes", flush=True)
            if path != "/":  # the page is a constant text
                self.assertLess(size, SIZE, path)
            self.assertLess(took[len(took) // 2], 1.0, path)

    def test_a_million_clients(self):
        self.proxy = self.start_with(CONFIG)
        # First the proxy allocates the memory that the number of requests needs. One client sends them, and all but one are
        # rejected.
        self.assertEqual(self.ask(0, 1)[:2], (1, 0))
        in_parallel(CONNECTIONS, lambda i: self.ask_as_one(20_000))
        self.told("one client", [self.look() for _ in range(5)])
        before = self.resident()

        ends = threading.Event()
        looks = []
        watching = threading.Thread(target=lambda: looks.extend(self.look_often(ends)))
        watching.start()
        try:
            let_in, rejected, speed = self.ask(1, CLIENTS)
        finally:
            ends.set()
            watching.join()
        self.assertEqual((let_in, rejected), (CLIENTS - 1, 0))
        self.assertEqual(limit_of(self.proxy, "client")["keys"], CLIENTS)
        each = (self.resident() - before) / CLIENTS
        print(f"{CLIENTS} clients take {each:.1f} bytes each, {before >> 10} KiB before; {speed} requests/s")
        self.told("while they arrive", looks)

        # All clients again: each has a key, and is rejected.
        most = self.resident()
        let_in, rejected, speed = self.ask(0, CLIENTS)
        self.assertEqual((let_in, rejected), (0, CLIENTS))
        # Clients above `max_keys` share one limit.
        let_in, more, _ = self.ask(CLIENTS, CLIENTS + MORE)
        self.assertEqual((let_in, more), (1, MORE - 1))
        grown = self.resident() - most
        self.told("a million", [self.look() for _ in range(5)])
        told = limit_of(self.proxy, "client")
        self.assertEqual((told["keys"], told["rejected_total"]), (CLIENTS, 80_000 + CLIENTS + MORE - 1))
        print(f"all of them and {MORE} more are rejected: {grown >> 10} KiB more; {speed} requests/s")
        if not KEEPS_MEMORY:
            self.assertLess(each, BYTES)
            self.assertLess(grown, 2 * 1024 * 1024)

    def ask_as_one(self, n):
        with Client(self.proxy.port) as client:
            for _ in range(n // BATCH):
                client.send(text_of(0) * BATCH)
                for _ in range(BATCH):
                    self.assertEqual(client.answer().status, 429)


if __name__ == "__main__":
    main()
