#!/usr/bin/env python3
"""Two proxies of one upstream share a rate, on a real Redis, MariaDB and PostgreSQL server."""

import os
import signal

from store_servers import MariaDB, MariaDBWithCertificates, PostgreSQL, Redis
from support import Client, ProxyTest, in_parallel, main, numbers, stopped, wait_until

# Neither time ends before the server replies, however busy the machine is.
SLOW = ("--store-timeout", "5s", "--patience", "15s")


class Store(ProxyTest):
    def have(self, kind):
        server = kind()
        self.addCleanup(server.close)
        return server

    def share(self, server, *options):
        """Two proxies that share the server."""
        return [self.start("--store", server.url, "--threads", 1, *SLOW, *options)
                for _ in range(2)]

    def check_rate(self, server):
        limit = 20
        proxies = self.share(server, "--rate", f"{limit}/1h")
        statuses = []

        def work(i):
            with Client(proxies[i % 2].port) as client:
                for _ in range(5):
                    answer = client.ask("/")
                    statuses.append(answer.status)
                    if answer.status == 429:
                        self.assertIsNotNone(answer.get("retry-after"))

        in_parallel(12, work)
        self.assertEqual((statuses.count(200), statuses.count(429)), (limit, 60 - limit))
        self.assertEqual(len(self.upstream.requests), limit)
        reports = [proxy.stop() for proxy in proxies]
        granted = [numbers(report)["rate"]["granted"] for report in reports]
        self.assertEqual(sum(granted), limit)
        for report in reports:
            self.assertIn("; store: ", report)

    def test_a_rate_on_redis(self):
        self.check_rate(self.have(Redis))

    def test_the_fields_of_a_rate_with_a_store(self):
        # The proxy does not know the remaining permits at the store, except 0 after a rejection.
        proxy = self.start("--store", self.have(Redis).url, "--rate", "2/1h", *SLOW)
        with Client(proxy.port) as client:
            answers = [client.ask("/") for _ in range(3)]
        self.assertEqual([a.status for a in answers], [200, 200, 429])
        self.assertEqual({a.get("ratelimit-policy") for a in answers}, {'"rate";q=2;w=3600'})
        self.assertEqual([a.get("ratelimit") for a in answers],
                         [None, None, f'"rate";r=0;t={answers[2].get("retry-after")}'])

    def test_a_rate_on_mariadb(self):
        self.check_rate(self.have(MariaDB))

    def test_a_rate_on_postgresql(self):
        self.check_rate(self.have(PostgreSQL))

    def test_a_mariadb_with_a_certificate(self):
        server = self.have(MariaDBWithCertificates)
        trusting, distrusting = (
            self.start("--store", f"{server.url}&tls=required&authorities={server.path}/{authority}.crt", "--rate", "100/1s",
                       *options) for authority, options in (("own", SLOW), ("other", ("--store-timeout", "500ms"))))
        with Client(trusting.port) as one, Client(distrusting.port) as other:
            self.assertEqual(one.ask("/").status, 200)
            self.until_it_is(503, other)
        self.assertIn("certificate verify failed", distrusting.stop())

    def test_a_bucket_and_a_name(self):
        server = self.have(Redis)
        proxies = self.share(server, "--rate", "3/1h burst 3")
        other = self.start("--store", server.url, "--rate", "3/1h burst 3", "--shared-as", "other", *SLOW)
        with Client(proxies[0].port) as one, Client(proxies[1].port) as two, Client(other.port) as three:
            statuses = [c.ask("/").status for c in (one, two, one, two, one)]
            self.assertEqual(statuses, [200, 200, 200, 429, 429])
            self.assertEqual(three.ask("/").status, 200)

    def test_a_rejection_by_a_store_takes_no_other_permit(self):
        server = self.have(Redis)
        names = ["chain", "keys", "store"]
        proxy = self.start_with(
            f'[[store]]\nname = "redis"\nurl = "{server.url}"\n[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n'
            '[[limit]]\nname = "store"\nrule = "2/1h"\nstore = "redis"\nshared_as = "chained"\ntimeout = "20s"\nqueue = "patience 20s"\n'
            '[[limit]]\nname = "chain"\nrule = "3/1h"\nqueue = "patience 20s"\n[[limit]]\nname = "keys"\nrule = "3/1h"\nqueue = "patience 20s"\nkey = "client"\n'
            '[[route]]\npath = "/local"\nupstream = "shop"\nlimits = ["chain", "keys"]\n'
            '[[route]]\nupstream = "shop"\nlimits = ["store", "chain", "keys"]\n')
        with Client(proxy.port) as client:
            statuses = [client.ask("/").status for _ in range(5)]
            self.assertEqual(statuses, [200, 200, 429, 429, 429])
            self.assertEqual([client.ask("/local").status for _ in range(2)], [200, 429])
        self.assertTrue(set(names) <= set(proxy.numbers()))

    def test_costs_at_a_store(self):
        def answer(sock, request, reader):
            tokens = request.target.partition("?")[2]
            sock.sendall(f"HTTP/1.1 200 OK\r\nX-Tokens: {tokens}\r\nContent-Length: 0\r\n\r\n".encode())
            return True

        self.upstream.script["/ask"] = answer
        server = self.have(Redis)
        config = (
            f'[[store]]\nname = "redis"\nurl = "{server.url}"\n[[upstream]]\nname = "model"\nservers = "UPSTREAM"\n'
            '[[limit]]\nname = "tokens"\nrule = "10/1h burst 10"\nstore = "redis"\ntimeout = "20s"\n'
            'cost = "response header X-Tokens"\nestimate = 3\nqueue = "patience 20s"\n')
        proxies = [self.start_with(config) for _ in range(2)]
        with Client(proxies[0].port) as one, Client(proxies[1].port) as two:
            # Each gives its estimate back, so that the next ones have enough.
            self.assertEqual([c.ask("/ask?0").status for c in (one, two) * 4], [200] * 8)
            self.assertEqual([one.ask("/ask?5").status, two.ask("/ask?1").status], [200, 200])
            self.assertEqual(two.ask("/ask?50").status, 200)  # 4 are left
            for client in (one, two):  # the debt reaches the store after the response
                wait_until(lambda: int(self.until_it_is(429, client).get("retry-after")) > 3600)

    def test_a_limit_by_user_on_postgresql(self):
        proxies = self.share_by(self.have(PostgreSQL), '"header X-User"', "2/1h burst 2")
        with Client(proxies[0].port) as one, Client(proxies[1].port) as two:
            for user in ("ann", "bob"):
                statuses = [c.ask("/", fields=f"X-User: {user}\r\n").status for c in (one, two, one, two)]
                self.assertEqual(statuses, [200, 200, 429, 429], user)

    def share_by(self, server, key, rule, more=""):
        """Two proxies that share a limit by key at the server."""
        config = (
            f'[[store]]\nname = "redis"\nurl = "{server.url}"\n[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n'
            f'[[limit]]\nname = "users"\nkey = {key}\nrule = "{rule}"\nstore = "redis"\ntimeout = "5s"\n'
            f'queue = "patience 15s"\n{more}')
        return [self.start_with(config) for _ in range(2)]

    def test_a_limit_by_user(self):
        for rule in ("2/1h burst 2", "2/1h"):  # a bucket and a log
            server = self.have(Redis)
            proxies = self.share_by(server, '"header X-User"', rule)
            with Client(proxies[0].port) as one, Client(proxies[1].port) as two:
                for user in ("ann", "bob", "a user\xe9", "x" * 100):
                    statuses = [c.ask("/", fields=f"X-User: {user}\r\n").status for c in (one, two, one, two)]
                    self.assertEqual(statuses, [200, 200, 429, 429], user)
                answers = [c.ask("/", fields="X-User: eve\r\n") for c in (one, two, two)]
            self.assertEqual([a.get("ratelimit-policy").partition(";pk=")[0] for a in answers],
                             ['"users";q=2;w=3600'] * 3)
            self.assertEqual([a.get("ratelimit") is None for a in answers], [True, True, False])
            self.assertGreaterEqual(int(answers[2].get("retry-after")), 1)
            granted = [numbers(p.stop())["users"]["granted"] for p in proxies]
            self.assertEqual(sum(granted), 10)

    def test_a_limit_by_client_or_another_value(self):
        proxies = self.share_by(self.have(Redis), '["header X-User or client", "query q"]', "1/1h burst 1")
        with Client(proxies[0].port) as one, Client(proxies[1].port) as two:
            self.assertEqual([c.ask("/?q=1").status for c in (one, two)], [200, 429])
            self.assertEqual([c.ask("/?q=2").status for c in (two, one)], [200, 429])
            self.assertEqual([c.ask("/?q=1", fields="X-User: ann\r\n").status for c in (two, one)], [200, 429])

    def test_outage_of_a_limit_by_user(self):
        server = self.have(Redis)
        closed, local = (self.share_by(server, '"client"', "4/1h burst 4", f'shared_as = "{name}"\non_failure = "{mode}"\n')[0]
                         for name, mode in (("closed", "closed"), ("local", "local 0.5")))
        with Client(closed.port) as one, Client(local.port) as two:
            for client in (one, two):
                self.until_it_is(200, client)
            server.kill()
            self.assertGreaterEqual(int(self.until_it_is(503, one).get("retry-after")), 1)
            self.until_it_is(200, two)
            self.assertEqual([two.ask("/").status for _ in range(3)], [429] * 3)
            server.start()
            self.until_it_is(200, one)
        said = closed.stop()
        self.assertIn("requests get 503", said)
        self.assertIn("the store is available again", said)
        self.assertIn("this proxy grants its local share", local.stop())

    def until_it_is(self, status, client):
        answers = []

        def is_so():
            answers.append(client.ask("/"))
            return answers[-1].status == status

        wait_until(is_so, f"a response {status}")
        return answers[-1]

    def check_failure(self, server):
        """The three modes while the server is down. After its restart the store decides again."""
        soon = ("--store-timeout", "500ms", "--patience", "15s")  # a busy machine may exceed it
        rate = ("--rate", "1000/1s burst 1000", *soon)
        closed = self.start("--store", server.url, *rate, "--shared-as", "closed")
        opened = self.start("--store", server.url, *rate, "--shared-as", "open", "--on-failure", "open")
        local = self.start("--store", server.url, "--rate", "4/1h burst 4", "--shared-as", "local", "--on-failure",
                           "local 0.5", *soon)
        with Client(closed.port) as one, Client(opened.port) as two, Client(local.port) as three:
            for client in (one, two, three):
                self.until_it_is(200, client)
            server.kill()
            answer = self.until_it_is(503, one)
            self.assertGreaterEqual(int(answer.get("retry-after")), 1)
            self.until_it_is(200, two)
            self.assertEqual([two.ask("/").status for _ in range(20)], [200] * 20)
            # The local share is half of four, and one permit was granted before.
            self.assertEqual([three.ask("/").status for _ in range(5)], [200] + [429] * 4)
            server.start()
            self.until_it_is(200, one)
        said = closed.stop()
        self.assertIn("requests get 503", said)
        self.assertIn("the store is available again", said)
        self.assertIn("the limit is off", opened.stop())
        self.assertIn("this proxy grants its local share", local.stop())

    def test_failures_of_redis(self):
        self.check_failure(self.have(Redis))

    def test_failures_of_mariadb(self):
        self.check_failure(self.have(MariaDB))

    def test_failures_of_postgresql(self):
        self.check_failure(self.have(PostgreSQL))

    def test_a_postgresql_with_another_password(self):
        server = self.have(PostgreSQL)
        (server.path / "data" / "pg_hba.conf").write_text("local all all scram-sha-256\n")
        server.kill()
        server.start()
        proxy = self.start("--store", f"postgresql://postgres:secret@/weir?host={server.path}", "--rate", "100/1s", *SLOW)
        with Client(proxy.port) as client:
            self.until_it_is(503, client)
        said = proxy.stop()
        self.assertIn('password authentication failed for user "postgres"', said)
        self.assertNotIn("secret", said)

    def test_patience_that_ends_before_the_timeout_of_the_store(self):
        server = self.have(Redis)
        proxy = self.start("--store", server.url, "--rate", "1000/1s burst 1000", "--patience", "50ms",
                           "--store-timeout", "10s")
        with Client(proxy.port) as client:
            self.until_it_is(200, client)
            with stopped(server.process):
                for _ in range(3):
                    answer = client.ask("/")
                    self.assertEqual(answer.status, 503)
                    self.assertGreaterEqual(int(answer.get("retry-after")), 1)
            self.until_it_is(200, client)

    def test_patience_that_ends_when_an_outage_begins(self):
        server = self.have(Redis)
        for patience in ("990ms", "1s", "1010ms"):
            proxy = self.start("--store", server.url, "--rate", "1000/1s burst 1000", "--patience", patience)
            with Client(proxy.port) as client:
                self.until_it_is(200, client)
                with stopped(server.process):
                    self.assertEqual(client.ask("/").status, 503, patience)

    def test_a_silent_store_has_a_reason(self):
        server = self.have(Redis)
        proxy = self.start("--store", server.url, "--rate", "1000/1s burst 1000", "--on-failure", "open", "--patience",
                           "15s")  # longer than the second of silence before an outage
        with Client(proxy.port) as client:
            self.until_it_is(200, client)
            with stopped(server.process):
                self.assertEqual([client.ask("/").status for _ in range(5)], [200] * 5)
                said = proxy.process.stderr.readline()
        self.assertEqual(said, "weir-proxy: rate: the store is unavailable (no reply): the limit is off\n")

    def test_a_store_that_starts_later(self):
        server = self.have(Redis)
        server.kill()
        proxy = self.start("--store", server.url, "--rate", "100/1s", *SLOW)
        with Client(proxy.port) as client:
            self.until_it_is(503, client)
            server.start()
            self.until_it_is(200, client)
        self.assertIn("warning: the store is unavailable", proxy.stop())

    def test_a_store_that_a_reload_adds(self):
        server = self.have(MariaDB)  # without tables, which the proxy makes
        shop = '[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n'
        proxy = self.start_with(shop)
        proxy.write(self.filled(shop) + f'[[store]]\nname = "db"\nurl = "{server.url}"\n'
                    '[[limit]]\nname = "rate"\nrule = "2/1h"\nstore = "db"\ntimeout = "5s"\nqueue = "patience 15s"\n')
        proxy.process.send_signal(signal.SIGHUP)
        self.assertIn("configuration reloaded", proxy.process.stderr.readline())
        with Client(proxy.port) as client:
            self.until_it_is(429, client)
        self.assertEqual(len(self.upstream.requests), 2)

    def test_a_repeated_request_is_counted_again(self):
        server = self.have(Redis)
        proxy = self.start("--store", server.url, "--rate", "3/1h", "--seats", 1, *SLOW)
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/once").status, 200)
            self.assertEqual(client.ask("/once").status, 200)  # dropped, and sent again
            self.assertEqual(client.ask("/").status, 429)

    def test_the_url_from_the_environment(self):
        server = self.have(Redis)
        os.environ["WEIR_STORE"] = server.url
        self.addCleanup(os.environ.pop, "WEIR_STORE")
        proxies = [self.start("--rate", "1/1h", *SLOW) for _ in range(2)]
        with Client(proxies[0].port) as one, Client(proxies[1].port) as two:
            self.assertEqual([one.ask("/").status, two.ask("/").status], [200, 429])


if __name__ == "__main__":
    main()
