#!/usr/bin/env python3
"""Penalties: a client that offends again and again is locked out, each time for twice as long."""

import os
import signal
import tempfile
import time

from support import Client, ProxyTest, in_parallel, main, wait_until

ROUTE = """
[[route]]
path = "/trap"
respond = 404
limits = LIMITS
[[route]]
upstream = "shop"
limits = LIMITS
"""
LOGINS = """
[[limit]]
name = "logins"
rule = "5/1min penalty first FIRST longest LONGEST memory 1h"
key = "client"
count = [401, 404]
"""
CRAWLERS = """
[[limit]]
name = "rate"
rule = "2/1h"
key = "client"
queue = "patience 0s"
[[limit]]
name = "deaf"
rule = "3/1min penalty first 1h"
key = "client"
count = 429
"""


class Penalties(ProxyTest):
    def answer_by_query(self, sock, request, reader):
        status = {"bad": "401 No", "busy": "429 Busy"}.get(request.target.partition("?")[2], "200 OK")
        sock.sendall(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        return True

    def setUp(self):
        super().setUp()
        self.upstream.script["/login"] = self.answer_by_query

    @staticmethod
    def config(limits, first="1h", longest="24h", more=""):
        names = [line.split('"')[1] for line in limits.splitlines() if line.startswith("name")]
        return (f'threads = 2\n{more}[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n{limits}'
                f'{ROUTE.replace("LIMITS", str(names))}').replace("FIRST", first).replace("LONGEST", longest)

    def ask(self, proxy, kind, client="127.0.0.1", times=1):
        with Client(proxy.port, source=client) as connection:
            for _ in range(times):
                answer = connection.ask(f"/login?{kind}")
        return answer

    def test_doubles_for_the_client_that_offends(self):
        proxy = self.start_with(self.config(LOGINS, first="2s"))
        for seconds in (2, 4):
            self.assertEqual(self.ask(proxy, "bad", times=4).status, 401)
            self.assertEqual(self.ask(proxy, "good", times=20).status, 200)  # which is not an offence
            began = time.monotonic()
            self.assertEqual(self.ask(proxy, "bad").status, 401)
            locked_by = time.monotonic()
            reached = len(self.upstream.targets())
            asked = time.monotonic()
            locked = self.ask(proxy, "good")
            self.assertLess(time.monotonic() - asked, 0.9)  # rejected at once, although the patience is 1 s
            self.assertEqual(locked.status, 429)
            self.assertEqual(locked.body, b"locked out after too many offences\n")
            self.assertIn(int(locked.get("retry-after")), (seconds - 1, seconds))
            self.assertEqual(len(self.upstream.targets()), reached)
            self.assertEqual(self.ask(proxy, "good", client="127.0.0.2").status, 200)
            time.sleep(max(began + seconds - 0.2 - time.monotonic(), 0))
            self.assertEqual(self.ask(proxy, "bad").status, 429)  # does not make it longer
            time.sleep(max(locked_by + seconds + 0.1 - time.monotonic(), 0))
            self.assertEqual(self.ask(proxy, "good").status, 200)

    def test_states_no_quota(self):
        proxy = self.start_with(self.config(LOGINS))
        answer = self.ask(proxy, "bad", times=5)
        self.assertIsNone(answer.get("ratelimit-policy"))
        self.assertIsNone(answer.get("ratelimit"))
        locked = self.ask(proxy, "bad")
        self.assertEqual(locked.status, 429)
        self.assertIsNone(locked.get("ratelimit-policy"))
        self.assertIsNone(locked.get("ratelimit"))

    def test_counts_the_responses_of_the_proxy_itself(self):
        proxy = self.start_with(self.config(LOGINS))
        with Client(proxy.port) as client:
            self.assertEqual([client.ask("/trap").status for _ in range(6)], [404] * 5 + [429])

    def test_counts_the_rejections_of_another_limit(self):
        proxy = self.start_with(self.config(CRAWLERS))
        with Client(proxy.port) as client:
            answers = [client.ask("/login?good") for _ in range(7)]
        self.assertEqual([a.status for a in answers], [200] * 2 + [429] * 5)
        bodies = [a.body.decode().strip() for a in answers[2:]]
        rate, penalty = "too many requests from this client", "locked out after too many offences"
        self.assertEqual(bodies[:3], [rate] * 3)
        self.assertGreater(int(answers[5].get("retry-after")), 3590)
        # The two limits block the request now; the first one that does so rejects it.
        self.assertTrue({rate, penalty}.issuperset(bodies[3:]))
        # A response of the upstream counts, too.
        with Client(proxy.port, source="127.0.0.2") as client:
            self.assertEqual([client.ask("/login?busy").status for _ in range(2)], [429, 429])
            self.assertEqual(client.ask("/login?good").body, f"{rate}\n".encode())  # the third offence

    def test_reload_keeps_a_penalty(self):
        proxy = self.start_with(self.config(LOGINS, first="6s"))
        self.assertEqual(self.ask(proxy, "bad", times=5).status, 401)
        locked_by = time.monotonic()
        self.assertEqual(self.ask(proxy, "bad", client="127.0.0.2", times=4).status, 401)
        proxy.write(self.filled(self.config(LOGINS, first="9s", longest="12s")))
        proxy.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "reloaded" in proxy.process.stderr.readline(), "the reload")
        self.assertEqual(self.ask(proxy, "good").status, 429)
        # The offences of the window count, too, and the next penalty has the new length.
        self.assertEqual(self.ask(proxy, "bad", client="127.0.0.2").status, 401)
        self.assertIn(int(self.ask(proxy, "good", client="127.0.0.2").get("retry-after")), range(7, 10))  # more than 6 s
        time.sleep(max(locked_by + 6.1 - time.monotonic(), 0))
        self.assertEqual(self.ask(proxy, "bad", times=5).status, 401)
        self.assertIn(int(self.ask(proxy, "bad").get("retry-after")), range(10, 13))  # more than 9 s

    def test_a_restart_keeps_a_penalty(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-penalties-")
        self.addCleanup(folder.cleanup)
        state = f'[state]\nfile = "{os.path.join(folder.name, "state")}"\n'
        config = self.config(LOGINS, more=state)
        proxy = self.start_with(config)
        self.assertEqual(self.ask(proxy, "bad", times=5).status, 401)
        self.assertEqual(self.ask(proxy, "bad", client="127.0.0.2", times=4).status, 401)
        proxy.stop()
        proxy = self.start_with(config)
        self.assertIn("1 limits and 2 keys continue", proxy.process.stderr.readline())
        rest = int(self.ask(proxy, "good").get("retry-after"))
        self.assertTrue(3500 < rest <= 3600, rest)
        self.assertEqual(self.ask(proxy, "good", client="127.0.0.2").status, 200)
        self.assertEqual(self.ask(proxy, "bad", client="127.0.0.2").status, 401)
        self.assertEqual(self.ask(proxy, "good", client="127.0.0.2").status, 429)
        self.assertEqual(self.ask(proxy, "good", client="127.0.0.3").status, 200)

    def test_a_dry_run_counts_and_rejects_nothing(self):
        proxy = self.start_with(self.config(LOGINS + "dry_run = true\n"))
        self.assertEqual(self.ask(proxy, "bad", times=9).status, 401)
        self.finish(proxy)

    def test_many_clients_at_once(self):
        proxy = self.start_with(self.config(LOGINS))

        def work(i):
            with Client(proxy.port, source=f"127.0.1.{i}") as client:
                found = [client.ask("/login?bad" if n % 2 else "/login?good").status for n in range(20)]
            self.assertEqual(found, [200, 401] * 5 + [429] * 10)

        in_parallel(20, work)


if __name__ == "__main__":
    main()
