#!/usr/bin/env python3
"""Header fields of responses about the limits of a request: RateLimit-Policy and RateLimit of the IETF's draft 11, and the
older X-RateLimit-*. A strict parser reads each field, and the test compares it with the rule."""

import collections
import decimal
import ipaddress
import os
import re
import signal
import socket
import subprocess
import threading

from structured_fields import Display, Token, parse_list
from support import LAST_OF_HOUR, PROXY, Client, ProxyTest, Upstream, in_parallel, main, wait_until

Limit = collections.namedtuple("Limit", "q w qu pk", defaults=(None, None, None))
Left = collections.namedtuple("Left", "r t pk", defaults=(None, None))


def values(answer, name):
    return [value for n, value in answer.fields if n == name]


def listed(answer, name, known, required):
    """The items of a field as [(name, parameters)]: strings alone, whose parameters are known and of their kinds."""
    found = []
    for item, parameters in parse_list(values(answer, name)):
        assert type(item) is str, item
        assert required in parameters, parameters
        for p, value in parameters.items():
            assert p in known and type(value) is known[p], (p, value)
            assert not isinstance(value, int) or value >= 0, (p, value)
        assert parameters.get("w") != 0
        assert parameters.get("qu") in (None, "concurrent-requests"), parameters
        found.append((item, parameters))
    return found


def policies(answer):
    known = {"q": int, "w": int, "qu": str, "pk": bytes}
    return [(name, Limit(**p)) for name, p in listed(answer, "ratelimit-policy", known, "q")]


def left(answer):
    found = [(name, Left(**p)) for name, p in listed(answer, "ratelimit", {"r": int, "t": int, "pk": bytes}, "r")]
    names = [name for name, _ in found]
    assert len(set(names)) == len(names), names
    assert set(names) <= {name for name, _ in policies(answer)}, names
    return found


def legacy(answer):
    """Limit, Remaining and Reset, each once and a number; None if all are missing."""
    found = [values(answer, f"x-ratelimit-{name}") for name in ("limit", "remaining", "reset")]
    if not any(found):
        return None
    assert all(len(one) == 1 and re.fullmatch(r"\d+", one[0]) for one in found), found
    return tuple(int(one[0]) for one in found)


def shop(*limits, headers="", more=""):
    return headers + '[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n' + more + "".join(limits)


def limit(name, rule, more="", queue="max_waiting 0 patience 0s"):
    return f"[[limit]]\nname = '{name}'\nrule = \"{rule}\"\nqueue = \"{queue}\"\n{more}"


class TheParser(ProxyTest):
    def test_the_parser_accepts_valid_fields(self):
        for text, wanted in (
                ("", []), ('"a"', [("a", {})]), ('"a";q=1;w=60 , "b";q=2', [("a", {"q": 1, "w": 60}), ("b", {"q": 2})]),
                ('"a\\"\\\\"', [('a"\\', {})]), ("a;x;y=?0", [(Token("a"), {"x": True, "y": False})]),
                ("-1.5", [(decimal.Decimal("-1.5"), {})]), ('1;pk=:AAE=:', [(1, {"pk": b"\0\1"})]),
                ('("a" 1);x', [([("a", {}), (1, {})], {"x": True})]), ('%"f%c3%bc"', [(Display("fü"), {})]),
                ("999999999999999", [(999999999999999, {})])):
            self.assertEqual(parse_list([text]), wanted, text)
        self.assertEqual(parse_list(['"a"', '"b"']), [("a", {}), ("b", {})])

    def test_the_parser_rejects_other_fields(self):
        for text in ('"a', '"a",', '"a" "b"', '"a";Q=1', '"a";q=', '"a"; q = 1', '"ä"', '"a\\n"', "1000000000000000",
                     "1.", "1.2345", ":a:", ":AAE=", "?2", "limit=100, remaining=1", '"a";;', "(a", "%\"%C3\"", "@1.5"):
            with self.assertRaises(ValueError, msg=text):
                parse_list([text])


class Ietf(ProxyTest):
    def ask(self, config, **how):
        proxy = self.start_with(config)
        with Client(proxy.port) as client:
            return client.ask("/", **how)

    def test_quantity_and_window_of_each_kind(self):
        # The number of requests in a window, and the window in whole seconds, rounded up: a client that keeps to them is
        # not rejected in the long run.
        seats = "concurrent-requests"
        for rule, wanted in (
                ("100/1s", Limit(100, 1)), ("10/60s", Limit(10, 60)), ("20/400ms", Limit(20, 1)), ("7/1500ms", Limit(7, 2)),
                ("10/60s sliding", Limit(10, 60)), ("10/1h fixed", Limit(10, 3600)),
                # A bucket: the tokens per period, or its size and the time that refills it.
                ("100/1s burst 20", Limit(100, 1)), ("20/1s burst 50", Limit(50, 3)), ("100/1min bucket", Limit(100, 60)),
                ("0/1s burst 5", Limit(5)),
                ("10/1s leaky", Limit(10, 1)), ("10/1s leaky capacity 25", Limit(25, 3)),
                ("10/2s bursty", Limit(10, 2)), ("10/1s bursty max_burst 5s", Limit(50, 5)), ("10/1s warming", Limit(10, 1)),
                ("5 seats", Limit(5, qu=seats)), ("5 gradient2 min 5", Limit(5, qu=seats))):
            with self.subTest(rule):
                answer = self.ask(shop(limit("one", rule)))
                self.assertEqual(answer.status, 200)
                self.assertEqual(policies(answer), [("one", wanted)])
                (name, rest), = left(answer)
                self.assertEqual((name, rest.pk), ("one", None))
                self.assertLessEqual(rest.r, wanted.q)
                self.assertEqual(rest.t is None, wanted.w is None)

    def test_several_windows_of_one_rule(self):
        answer = self.ask(shop(limit("api", "3/1h & 10/24h")))
        self.assertEqual(policies(answer), [("api", Limit(3, 3600)), ("api#2", Limit(10, 86400))])
        self.assertEqual([(name, rest.r) for name, rest in left(answer)], [("api", 2)])

    def test_the_remaining_permits_count_down_and_the_reset_is_right(self):
        proxy = self.start_with(shop(limit("rate", "3/1h")))
        with Client(proxy.port) as client:
            for remaining in (2, 1, 0):
                answer = client.ask("/")
                (_, rest), = left(answer)
                self.assertEqual((answer.status, rest.r, answer.get("retry-after")), (200, remaining, None))
                self.assertIn(rest.t, LAST_OF_HOUR)
            rejected = client.ask("/")
            self.assertEqual((rejected.status, policies(rejected)), (429, [("rate", Limit(3, 3600))]))
            (_, rest), = left(rejected)
            # Retry-After is not earlier than the reset of RateLimit.
            self.assertEqual((rest.r, rest.t), (0, int(rejected.get("retry-after"))))
            self.assertIn(rest.t, LAST_OF_HOUR)

    def test_the_reset_of_a_bucket_is_when_it_is_full(self):
        proxy = self.start_with(shop(limit("rate", "1/100s burst 10")))
        with Client(proxy.port) as client:
            found = [left(client.ask("/"))[0][1] for _ in range(10)]
        self.assertEqual([rest.r for rest in found], list(range(9, -1, -1)))
        for n, rest in enumerate(found, 1):
            self.assertIn(rest.t, range(100 * n - 20, 100 * n + 1))

    def test_seats_are_concurrent_requests(self):
        # A seat is released soon after the response: the next request may have to wait for it.
        proxy = self.start_with(shop(limit("seats", "3 seats", queue="patience 1s")))
        over = threading.Event()

        def hang(sock, request, reader):
            over.wait(20)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return True

        self.addCleanup(over.set)
        self.upstream.script["/hang"] = hang
        holders = []
        for free in (2, 1, 0):
            if free < 2:
                holders.append(Client(proxy.port))
                holders[-1].send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
                wait_until(lambda: self.upstream.targets().count("/hang") == len(holders))
            with Client(proxy.port) as client:
                self.assertEqual(left(client.ask("/")), [("seats", Left(free))])
        holders.append(Client(proxy.port))
        holders[-1].send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
        wait_until(lambda: self.upstream.targets().count("/hang") == 3)
        with Client(proxy.port) as client:
            rejected = client.ask("/")
        self.assertEqual((rejected.status, rejected.get("retry-after")), (503, "1"))
        self.assertEqual((policies(rejected), left(rejected)),
                         ([("seats", Limit(3, qu="concurrent-requests"))], [("seats", Left(0))]))
        over.set()
        for holder in holders:
            self.assertEqual(holder.answer().status, 200)
            holder.close()

    def test_one_item_for_each_limit_and_none_for_dry_runs(self):
        limits = (limit("a", "9/1h"), limit("b", "8/1h", "dry_run = true\n"), limit("c", "7 seats"),
                  limit("d", "6/1h", 'key = "client"\n'), limit("e", "5/1h", queue="max_waiting 9 patience 1s order priority"))
        answer = self.ask(shop(*limits))
        self.assertEqual({name: p.q for name, p in policies(answer)}, {"a": 9, "c": 7, "d": 6, "e": 5})
        self.assertEqual({name: rest.r for name, rest in left(answer)}, {"a": 8, "c": 6, "d": 5, "e": 4})

    def test_a_rejection_names_the_limit_that_rejected(self):
        proxy = self.start_with(shop(limit("wide", "100/1h"), limit("narrow", "1/1h"), limit("seats", "5 seats")))
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/").status, 200)
            rejected = client.ask("/")
        self.assertEqual({name for name, _ in policies(rejected)}, {"wide", "narrow", "seats"})
        self.assertEqual([(name, rest.r) for name, rest in left(rejected)], [("narrow", 0)])

    def test_routes_have_their_own_limits(self):
        routes = ('[[route]]\npath = "/no"\nrespond = 403\nlimits = ["a"]\n[[route]]\npath = "/a"\nupstream = "shop"\nlimits = ["a"]\n'
                  '[[route]]\npath = "/free"\nupstream = "shop"\n')
        proxy = self.start_with(shop(limit("a", "9/1h"), limit("b", "9/1h")) + routes)
        with Client(proxy.port) as client:
            self.assertEqual([name for name, _ in policies(client.ask("/a"))], ["a"])
            answer = client.ask("/no")
            self.assertEqual((answer.status, [(n, rest.r) for n, rest in left(answer)]), (403, [("a", 7)]))
            for target in ("/free", "/nowhere"):
                answer = client.ask(target)
                self.assertEqual((policies(answer), left(answer)), ([], []))
            client.send("GET / HTTP/1.1\r\n\r\n")
            wrong = client.answer()
            self.assertEqual((wrong.status, policies(wrong)), (400, []))

    def test_the_partition_is_a_hash_of_the_client(self):
        config = shop(limit("client", "9/1h", 'key = "client"\n'), limit("key", "9/1h", 'key = "header X"\n'),
                      limit("both", "9 seats", 'key = ["client", "header X"]\n'))
        proxy = self.start_with(config)
        asked = ("127.0.0.1", "1"), ("127.0.0.1", "2"), ("127.0.0.2", "1"), ("127.0.0.1", "1")
        found = []
        for source, key in asked:
            with Client(proxy.port, source=source) as client:
                answer = client.ask("/", fields=f"X: {key}\r\n")
            keys = {name: p.pk for name, p in policies(answer)}
            self.assertEqual(keys, {name: rest.pk for name, rest in left(answer)})
            found.append(keys)
            for pk in keys.values():
                self.assertEqual(len(pk), 8)
                self.assertNotIn(socket.inet_aton(source), pk)
        one, other_key, other_client, again = found
        self.assertEqual(one, again)
        same = lambda a, b: {name for name in a if a[name] == b[name]}
        self.assertEqual((same(one, other_key), same(one, other_client)), ({"client"}, {"key"}))
        # The address alone does not give the partition: each process has its own secret.
        with Client(self.start_with(config).port) as client:
            elsewhere = {name: p.pk for name, p in policies(client.ask("/", fields="X: 1\r\n"))}
        self.assertEqual(same(one, elsewhere), set())

    def test_the_partition_of_a_request_whose_body_arrives_later(self):
        # The body overwrites the head in the buffer.
        proxy = self.start_with(shop(limit("key", "9/1h", 'key = "header X"\n')))
        with Client(proxy.port) as client:
            first = policies(client.ask("/", fields="X: abc\r\n"))
            client.send("POST /digest HTTP/1.1\r\nHost: test\r\nX: abc\r\nContent-Length: 300000\r\n\r\n")
            wait_until(lambda: "/digest" in self.upstream.targets() or len(self.upstream.requests) >= 1)
            client.send(b"y" * 300000)
            self.assertEqual(policies(client.answer()), first)

    def test_a_key_with_its_own_rule(self):
        proxy = self.start_with(shop(limit("key", "2/1h", 'key = "header X"\n[limit.overrides]\n"vip" = "5/2h"\n')))
        with Client(proxy.port) as client:
            for key, q, w in (("x", 2, 3600), ("vip", 5, 7200)):
                (_, policy), = policies(client.ask("/", fields=f"X: {key}\r\n"))
                self.assertEqual((policy.q, policy.w), (q, w))

    def test_any_name_becomes_a_string(self):
        answer = self.ask(shop(limit('a "b" \\ c', "9/1h"), limit("Küche %", "9/1h")))
        self.assertEqual([name for name, _ in policies(answer)], ['a "b" \\ c', "K%c3%bcche %25"])
        self.assertEqual([name for name, _ in left(answer)], ['a "b" \\ c', "K%c3%bcche %25"])

    def test_numbers_too_large_for_a_structured_field(self):
        answer = self.ask(shop(limit("seats", "1000000000000000 seats"), limit("rate", "1000000000000000/1h bucket")))
        self.assertEqual([p.q for _, p in policies(answer)], [10**15 - 1] * 2)

    def test_seats_of_servers(self):
        config = ('[[upstream]]\nname = "shop"\n[[upstream.server]]\naddress = "UPSTREAM"\nseats = 4\n')
        answer = self.ask(config)
        self.assertEqual(policies(answer), [("upstream shop", Limit(4, qu="concurrent-requests"))])
        self.assertEqual(left(answer), [("upstream shop", Left(3))])

    def test_a_reload_changes_the_fields(self):
        proxy = self.start_with(shop(limit("rate", "5/1h"), limit("key", "2/1h", 'key = "client"\n')))
        with Client(proxy.port) as client:
            self.assertEqual([(p.q, p.w) for _, p in policies(client.ask("/"))], [(5, 3600), (2, 3600)])
            proxy.write(self.filled(shop(limit("rate", "9/2h"), limit("key", "3/1h", 'key = "client"\n[limit.overrides]\n"127.0.0.1" = "4/1h"\n'))))
            proxy.process.send_signal(signal.SIGHUP)
            self.assertIn("configuration reloaded", proxy.process.stderr.readline())
            answer = client.ask("/")
            self.assertEqual([(p.q, p.w) for _, p in policies(answer)], [(9, 7200), (4, 3600)])
            self.assertEqual([rest.r for _, rest in left(answer)], [7, 2])

    def test_fields_of_the_upstream_come_before_ours(self):
        self.upstream.script["/"] = lambda sock, request, reader: sock.sendall(
            b'HTTP/1.1 200 OK\r\nRateLimit-Policy: "theirs";q=5;w=1\r\nRateLimit: "theirs";r=4\r\nContent-Length: 0\r\n\r\n') or True
        answer = self.ask(shop(limit("ours", "9/1h")))
        self.assertEqual(policies(answer), [("theirs", Limit(5, 1)), ("ours", Limit(9, 3600))])
        self.assertEqual([(name, rest.r) for name, rest in left(answer)], [("theirs", 4), ("ours", 8)])

    def test_unless_the_route_removes_it(self):
        self.upstream.script["/"] = lambda sock, request, reader: sock.sendall(
            b"HTTP/1.1 200 OK\r\nRateLimit: limit=5, remaining=4\r\nRateLimit-Policy: 5;w=1\r\nContent-Length: 0\r\n\r\n") or True
        answer = self.ask(shop(limit("ours", "9/1h")) + '[[route]]\nupstream = "shop"\nlimits = ["ours"]\n'
                          '[route.response_headers]\nremove = ["RateLimit", "RateLimit-Policy"]\n')
        self.assertEqual([(name, rest.r) for name, rest in left(answer)], [("ours", 8)])

    def test_an_upstream_that_fails(self):
        proxy = self.start_with(shop(limit("rate", "9/1h")))
        self.upstream.script["/drop"] = lambda *_: False
        with Client(proxy.port) as client:
            answer = client.ask("/drop", "POST", "Content-Length: 0\r\n")
            self.assertEqual((answer.status, policies(answer)), (502, [("rate", Limit(9, 3600))]))
            self.assertEqual([rest.r for _, rest in left(answer)], [8])  # the failed request used a permit
        self.upstream.close()
        proxy = self.start_with(shop(limit("rate", "9/1h")))
        with Client(proxy.port) as client:
            for _ in range(2):
                answer = client.ask("/")
                self.assertEqual((answer.status, policies(answer)), (502, [("rate", Limit(9, 3600))]))

    def test_values_hold_under_load(self):
        proxy = self.start_with('threads = 2\n' + shop(limit("rate", "200/1h"), limit("seats", "64 seats"),
                                                       limit("client", "300/1h", 'key = "client"\n')))
        seen = []

        def work(_):
            with Client(proxy.port) as client:
                for _ in range(20):
                    answer = client.ask("/")
                    self.assertEqual(answer.status, 200)
                    rest = dict(left(answer))
                    self.assertEqual(set(rest), {"rate", "seats", "client"})
                    seen.append((rest["rate"].r, rest["client"].r))

        in_parallel(10, work)
        self.assertEqual(len(seen), 200)
        self.assertEqual((min(seen), max(seen)[0] <= 199), ((0, 100), True))
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/").status, 429)


class Legacy(ProxyTest):
    def ask(self, config, *targets):
        proxy = self.start_with(config)
        with Client(proxy.port) as client:
            return [client.ask(target) for target in targets]

    def test_ratelimit_headers_selects_the_fields(self):
        for headers, old, new in (("ietf", False, True), ("legacy", True, False), ("both", True, True), ("none", False, False)):
            for answer in self.ask(shop(limit("rate", "1/1h"), headers=f'ratelimit_headers = "{headers}"\n'), "/", "/"):
                self.assertEqual((legacy(answer) is not None, bool(policies(answer)), bool(left(answer))), (old, new, new), headers)

    def test_the_option_selects_the_fields(self):
        to = f"127.0.0.1:{self.upstream.port}"
        for value, old, new in (("legacy", True, False), ("none", False, False), (None, False, True)):
            proxy = self.start("--rate", "5/1h", *(("--ratelimit-headers", value) if value else ()))
            with Client(proxy.port) as client:
                answer = client.ask("/")
            self.assertEqual((legacy(answer) is not None, bool(policies(answer))), (old, new))
        result = subprocess.run([PROXY, "--upstream", to, "--ratelimit-headers", "all"], capture_output=True, text=True)
        self.assertEqual(result.returncode, 2)
        self.assertIn("--ratelimit-headers is `all`", result.stderr)
        printed = subprocess.run([PROXY, "--upstream", to, "--ratelimit-headers", "both", "--print-config"], capture_output=True, text=True)
        self.assertIn('ratelimit_headers = "both"\n', printed.stdout)

    def test_limit_remaining_and_seconds_until_the_reset(self):
        answers = self.ask(shop(limit("rate", "2/1h"), headers='ratelimit_headers = "legacy"\n'), "/", "/", "/")
        self.assertEqual([a.status for a in answers], [200, 200, 429])
        self.assertEqual([legacy(a)[:2] for a in answers], [(2, 1), (2, 0), (2, 0)])
        self.assertTrue(all(legacy(a)[2] in LAST_OF_HOUR for a in answers))
        self.assertEqual(legacy(answers[2])[2], int(answers[2].get("retry-after")))

    def test_of_several_limits_the_one_with_the_fewest_remaining(self):
        headers = 'ratelimit_headers = "legacy"\n'
        answer, = self.ask(shop(limit("a", "9/1h"), limit("b", "3/2h"), limit("c", "2 seats"), headers=headers), "/")
        self.assertEqual(legacy(answer)[:2], (3, 2))
        answer, = self.ask(shop(limit("c", "2 seats"), headers=headers), "/")
        self.assertEqual(legacy(answer), None)  # seats have no window

    def test_of_the_upstreams_fields_and_ours_those_with_fewer_remaining(self):
        def say(sock, request, reader):
            remaining = request.target.split("/")[-1]
            sock.sendall((f"HTTP/1.1 200 OK\r\nX-RateLimit-Limit: 1000\r\nX-RateLimit-Remaining: {remaining}\r\n"
                          "X-Ratelimit-Reset: 7\r\nContent-Length: 0\r\n\r\n").encode())
            return True

        self.upstream.handle = say
        answers = self.ask(shop(limit("a", "9/1h"), headers='ratelimit_headers = "legacy"\n'), "/500", "/3", "/0", "/5")
        self.assertEqual([legacy(a)[:2] for a in answers], [(9, 8), (1000, 3), (1000, 0), (1000, 5)])
        for headers in ("none", "ietf"):
            answer, = self.ask(shop(limit("a", "9/1h"), headers=f'ratelimit_headers = "{headers}"\n'), "/500")
            self.assertEqual(legacy(answer), (1000, 500, 7))


class Configuration(ProxyTest):
    def test_errors(self):
        proxy = self.start_with(shop())
        for text, why in (('ratelimit_headers = "all"\n', ":1:21: `ratelimit_headers` is `all`, but must be `ietf`, `legacy`, `both` or `none`"),
                          ("ratelimit_headers = true\n", ":1:21: `ratelimit_headers` is `true`")):
            with open(proxy.file, "w") as file:
                file.write(text + self.filled(shop()))
            result = subprocess.run([PROXY, "--config", proxy.file, "--check"], capture_output=True, text=True)
            self.assertEqual(result.returncode, 2)
            self.assertIn(why, result.stderr)


if __name__ == "__main__":
    main()
