#!/usr/bin/env python3
"""More clients than the proxy may have connections."""

import contextlib
import resource
import threading
import unittest

from support import KEEPS_MEMORY, Client, ProxyTest, main, wait_until


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))


class Crowd(ProxyTest):
    def test_files_are_reserved_for_the_upstream(self):
        proxy = self.start("--threads", 2, preexec_fn=few_files)
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Client(proxy.port)) for _ in range(150)]
            for client in clients[:20]:
                self.assertEqual(client.ask("/").status, 200)
            self.assertRegex(proxy.process.stderr.readline(),
                             r"^weir-proxy: all \d+ connections are in use; new clients wait")
            # A client that waits is accepted when others disconnect.
            clients[-1].send("GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            for client in clients[:-1]:
                client.close()
            self.assertEqual(clients[-1].answer().status, 200)

    def test_no_more_connections_than_configured(self):
        proxy = self.start("--max-connections", 2)
        with Client(proxy.port) as first, Client(proxy.port) as second, Client(proxy.port) as third:
            self.assertEqual((first.ask("/").status, second.ask("/").status), (200, 200))
            third.send("GET /third HTTP/1.1\r\nHost: test\r\n\r\n")
            self.assertIn("all 2 connections are in use", proxy.process.stderr.readline())
            self.assertEqual(first.ask("/").status, 200)
            self.assertNotIn("/third", self.upstream.targets())
            second.close()
            self.assertEqual(third.answer().status, 200)
            self.assertEqual(proxy.numbers()["proxy"]["open"], 2)

    @unittest.skipIf(KEEPS_MEMORY, "a sanitizer keeps freed memory")
    def test_memory_is_released(self):
        # 2000 clients at the same time, each with a waiting request.
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        proxy = self.start("--seats", 1, "--queue", 5000, "--patience", "60s", "--threads", 2)
        over = threading.Event()
        self.addCleanup(over.set)
        self.upstream.script["/hang"] = lambda sock, request, reader: over.wait(30) and False

        def resident():
            with open(f"/proc/{proxy.process.pid}/status") as status:
                return int(status.read().split("VmRSS:")[1].split()[0])

        with contextlib.ExitStack() as stack:
            holder = stack.enter_context(Client(proxy.port))
            holder.ask("/")
            before = resident()
            holder.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: "/hang" in self.upstream.targets())
            for _ in range(2000):
                client = stack.enter_context(Client(proxy.port))
                client.send("GET / HTTP/1.1\r\nHost: test\r\n" + "A: b\r\n" * 90 + "\r\n")
            wait_until(lambda: proxy.numbers()["seats"]["waiting"] == 2000)
            most = resident()
        over.set()
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0)
        wait_until(lambda: resident() - before < (most - before) / 5, "the memory")

    def test_more_connections_than_files_are_rejected(self):
        with self.assertRaisesRegex(AssertionError, "`max_connections` is 100; at most 24 fit"):
            self.start("--threads", 2, "--max-connections", 100, preexec_fn=few_files)


if __name__ == "__main__":
    main()
