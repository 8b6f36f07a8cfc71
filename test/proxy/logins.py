#!/usr/bin/env python3
"""A limit that counts failed logins, and one that counts the tokens of responses, with many clients at once."""

import random
import threading

from support import Client, ProxyTest, in_parallel, main, new_seed

LOGINS = """
threads = 2
[[upstream]]
name = "shop"
servers = "UPSTREAM"
[[limit]]
name = "logins"
rule = "5/1h"
count = 401
queue = "patience 0s"
"""
TOKENS = """
threads = 2
[[upstream]]
name = "model"
servers = "UPSTREAM"
[[limit]]
name = "tokens"
rule = "1000000/24h burst 1000000"
cost = "response header X-Tokens"
estimate = 100
"""


class Logins(ProxyTest):
    def answer_by_query(self, sock, request, reader):
        status = "401 No" if request.target.endswith("bad") else "200 OK"
        sock.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        return True

    def test_never_more_failures_than_the_limit(self):
        self.upstream.script["/login"] = self.answer_by_query
        proxy = self.start_with(LOGINS)
        seed = new_seed()
        found, lock = [], threading.Lock()
        with Client(proxy.port) as client:  # a login that succeeds costs nothing
            for _ in range(100):
                self.assertEqual(client.ask("/login?good").status, 200)

        def work(i):
            rng = random.Random(seed + i)
            mine = []
            with Client(proxy.port) as client:
                for _ in range(30):
                    kind = "bad" if rng.random() < 0.02 else "good"
                    if rng.random() < 0.05:  # leaves before the response
                        with Client(proxy.port) as other:
                            other.send(f"GET /login?{kind} HTTP/1.1\r\nHost: test\r\n\r\n")
                    mine.append(client.ask(f"/login?{kind}").status)
            with lock:
                found.extend(mine)

        in_parallel(20, work)
        self.assertLessEqual(found.count(401), 5)
        reached = [t for t in self.upstream.targets() if t.endswith("bad")]
        self.assertLessEqual(len(reached), 5 + 20)  # without the requests whose clients left
        with Client(proxy.port) as client:
            while client.ask("/login?bad").status == 401:
                found.append(401)
            self.assertLessEqual(found.count(401), 5)
            self.assertEqual(client.ask("/login?good").status, 429)

    def test_the_sum_of_all_costs(self):
        total, lock = [0], threading.Lock()

        def answer(sock, request, reader):
            tokens = int(request.target.partition("?")[2])
            with lock:
                total[0] += tokens
            sock.sendall(f"HTTP/1.1 200 OK\r\nX-Tokens: {tokens}\r\nContent-Length: 0\r\n\r\n".encode())
            return True

        self.upstream.script["/ask"] = answer
        proxy = self.start_with(TOKENS)

        def work(i):
            rng = random.Random(i)
            with Client(proxy.port) as client:
                for _ in range(50):
                    self.assertEqual(client.ask(f"/ask?{rng.randrange(300)}").status, 200)

        in_parallel(10, work)
        with Client(proxy.port) as client:
            field = client.ask("/ask?0").get("ratelimit")
        left = int(field.partition(";r=")[2].partition(";")[0])
        # The bucket is refilled by 12 tokens per second.
        self.assertGreaterEqual(left, 1_000_000 - total[0])
        self.assertLessEqual(left, 1_000_000 - total[0] + 12 * 60)
        self.assertGreater(total[0], 50_000)


if __name__ == "__main__":
    main()
