#!/usr/bin/env python3
"""More clients than the proxy can have."""

import contextlib
import resource

from support import Client, ProxyTest, main, wait_until


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))


class Crowd(ProxyTest):
    def test_files_are_kept_back_for_the_upstream(self):
        proxy = self.start("--threads", 2, preexec_fn=few_files)
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(Client(proxy.port)) for _ in range(150)]
            for client in clients[:20]:
                self.assertEqual(client.ask("/").status, 200)
            self.assertRegex(proxy.process.stderr.readline(),
                             r"^weir-proxy: \d+ connections are open, which is the most that is allowed")
            # Who waits is let in when others leave.
            clients[-1].send("GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            for client in clients[:-1]:
                client.close()
            self.assertEqual(clients[-1].answer().status, 200)

    def test_no_more_connections_than_wanted(self):
        proxy = self.start("--connections", 2)
        with Client(proxy.port) as first, Client(proxy.port) as second, Client(proxy.port) as third:
            self.assertEqual((first.ask("/").status, second.ask("/").status), (200, 200))
            third.send("GET /third HTTP/1.1\r\nHost: test\r\n\r\n")
            self.assertIn("2 connections are open", proxy.process.stderr.readline())
            self.assertEqual(first.ask("/").status, 200)
            self.assertNotIn("/third", self.upstream.targets())
            second.close()
            self.assertEqual(third.answer().status, 200)
            self.assertEqual(proxy.numbers()["proxy"]["open"], 2)

    def test_more_connections_than_there_can_be_are_refused(self):
        with self.assertRaisesRegex(AssertionError, "--connections is `100`, but must be at most 28"):
            self.start("--threads", 2, "--connections", 100, preexec_fn=few_files)


if __name__ == "__main__":
    main()
