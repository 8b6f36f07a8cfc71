#!/usr/bin/env python3
"""Changes of a limit while the proxy runs, by `PUT /limits/NAME`: they apply immediately, need permission, and cannot come
from another site's page. A preview shows their effect before, and an undo restores the rule before."""

import datetime
import json
import signal
import threading
import time

from admin_support import TEXT, ask, limit_of, port_of, post, put, request, stats
from support import Client, ProxyTest, in_parallel, main, wait_until

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def shop(*limits, write="true"):
    return (f'[admin]\naddress = "127.0.0.1:0"\nwrite = {write}\n'
            '[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n' + "".join(limits))


def limit(name, rule, more="", queue="max_waiting 0 patience 0s"):
    return f'[[limit]]\nname = "{name}"\nrule = "{rule}"\nqueue = "{queue}"\n{more}'


class Change(ProxyTest):
    def statuses(self, proxy, n, fields=""):
        with Client(proxy.port) as client:
            return [client.ask("/", fields=fields).status for _ in range(n)]

    def said(self, proxy):
        return proxy.process.stderr.readline()

    def reload(self, proxy, config):
        proxy.write(self.filled(config))
        proxy.process.send_signal(signal.SIGHUP)
        self.assertEqual(self.said(proxy), "weir-proxy: configuration reloaded\n")

    def test_only_where_the_configuration_allows_it(self):
        for write in ("false", "true"):
            proxy = self.start_with(shop(limit("rate", "1/90s"), write=write))
            allowed = write == "true"
            self.assertEqual(put(proxy, "rate", "2/90s")[0], 200 if allowed else 403)
            self.assertEqual(limit_of(proxy, "rate")["rule"], "2/90s" if allowed else "1/90s")
            self.assertEqual(limit_of(proxy, "rate")["writable"], allowed)
            self.assertEqual(self.statuses(proxy, 3), [200, 200 if allowed else 429, 429])

    def test_it_applies_immediately_and_is_logged(self):
        proxy = self.start_with(shop(limit("rate", "2/90s")))
        self.assertEqual(self.statuses(proxy, 3), [200, 200, 429])
        self.assertEqual(put(proxy, "rate", "4/90s\n"), (200, "4/90s"))
        self.assertEqual(self.said(proxy), "weir-proxy: limit rate: rule changed from `2/90s` to `4/90s` by 127.0.0.1\n")
        self.assertEqual(self.statuses(proxy, 3), [200, 200, 429])  # permits granted before still count
        with Client(proxy.port) as client:  # responses report the new limit
            self.assertIn(";q=4;", client.ask("/").get("ratelimit-policy") + ";")
        self.assertEqual(put(proxy, "rate", "4/90s"), (200, "4/90s"))  # no change
        self.assertEqual(put(proxy, "rate", "1/90s"), (200, "1/90s"))
        self.assertEqual(self.said(proxy), "weir-proxy: limit rate: rule changed from `4/90s` to `1/90s` by 127.0.0.1\n")
        self.assertEqual(self.statuses(proxy, 1), [429])
        self.assertEqual(limit_of(proxy, "rate")["granted"], 4)

    def test_it_grants_a_waiting_request(self):
        over = threading.Event()
        self.addCleanup(over.set)

        def hang(sock, request, reader):
            over.wait(30)
            sock.sendall(EMPTY)
            return True

        self.upstream.script["/hang"] = hang
        proxy = self.start_with(shop(limit("seats", "1 seats", "", "max_waiting 9 patience 20s")))
        with Client(proxy.port) as holder, Client(proxy.port) as waiter:
            holder.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: "/hang" in self.upstream.targets())
            waiter.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: limit_of(proxy, "seats")["waiting"] == 1)
            self.assertEqual(put(proxy, "seats", "2 seats")[0], 200)
            self.assertEqual(waiter.answer().status, 200)
            proxy.process.send_signal(signal.SIGTERM)  # a change also applies while the proxy drains
            wait_until(lambda: stats(proxy)["draining"])
            self.assertEqual(put(proxy, "seats", "3 seats"), (200, "3 seats"))
            over.set()
            self.assertEqual(holder.answer().status, 200)
        proxy.process.wait(20)

    def test_a_limit_by_key_keeps_its_overrides(self):
        proxy = self.start_with(shop(limit("a / b%", "1/90s", 'key = "header X"\n[limit.overrides]\n"vip" = "3/90s"\n')))
        self.assertEqual(self.statuses(proxy, 2, "X: 1\r\n"), [200, 429])
        self.assertEqual(put(proxy, "a / b%", "2/90s"), (200, "2/90s"))
        self.assertEqual(self.statuses(proxy, 2, "X: 1\r\n"), [200, 429])
        self.assertEqual(self.statuses(proxy, 4, "X: vip\r\n"), [200, 200, 200, 429])

    def test_an_invalid_change_is_rejected_and_changes_nothing(self):
        proxy = self.start_with(shop(limit("rate", "1/90s"), limit("key", "5 seats", 'key = "client"\n')) +
                                '[[upstream]]\nname = "bar"\n[[upstream.server]]\naddress = "UPSTREAM"\nseats = 3\n'
                                '[[route]]\nupstream = "bar"\nlimits = ["rate", "key"]\n')
        for name, rule, status, why in (
                ("rate", "2 per hour", 400, "column"), ("rate", "0/90s", 400, "limit"), ("rate", "", 400, "column"),
                ("rate", "2/90s burst 3", 409, "same kind as `1/90s`"), ("rate", "2 seats", 409, "same kind"),
                ("key", "5 seats max_hold 3s", 400, "max_hold"),
                ("nothing", "2/90s", 404, "unknown limit `nothing`"), ("upstream bar", "9 seats", 404, "unknown limit `upstream bar`"),
                ("", "2/90s", 404, "unknown limit ``")):
            with self.subTest(name=name, rule=rule):
                got, text = put(proxy, name, rule)
                self.assertEqual(got, status, text)
                self.assertIn(why, text)
        rules = {one["name"]: one["rule"] for one in stats(proxy)["limits"]}
        self.assertEqual(rules, {"rate": "1/90s", "key": "5 seats", "upstream bar": "3 seats"})
        head = f"PUT /limits/rate HTTP/1.1\r\nHost: localhost\r\n{TEXT}Transfer-Encoding: chunked\r\n\r\n"
        with ask(port_of(proxy), head + "5\r\n2/90s\r\n0\r\n\r\n") as client:
            self.assertEqual(client.answer().status, 411)
        self.assertEqual(request(proxy, "/limits/%zz", "PUT", TEXT, b"2/90s").status, 400)
        self.assertEqual(self.statuses(proxy, 2), [200, 429])

    def test_other_sites_cannot_change_a_limit(self):
        proxy = self.start_with(shop(limit("rate", "1/90s")))
        port = port_of(proxy)
        for fields, host, status in (
                (TEXT + "Origin: http://evil.example\r\n", None, 403),
                (TEXT + "Origin: null\r\n", None, 403),
                (TEXT + f"Origin: http://127.0.0.1:{port + 1}\r\n", None, 403),
                (TEXT + f"Origin: http://localhost:{port}\r\n", None, 403),
                (TEXT + "Sec-Fetch-Site: cross-site\r\n", None, 403),
                (TEXT + "Sec-Fetch-Site: same-site\r\n", None, 403),
                (TEXT, f"evil.example:{port}", 403),
                (TEXT + f"Origin: http://evil.example:{port}\r\n", f"evil.example:{port}", 403),
                ("", None, 415),
                ("Content-Type: application/x-www-form-urlencoded\r\n", None, 415),
                ("Content-Type: multipart/form-data\r\n", None, 415)):
            with self.subTest(fields=fields, host=host):
                self.assertEqual(put(proxy, "rate", "9/90s", fields, host)[0], status)
        for method in ("POST", "GET", "DELETE", "OPTIONS"):
            answer = request(proxy, "/limits/rate", method, TEXT, b"9/90s")
            self.assertEqual(answer.status, 405)
            self.assertFalse([name for name, _ in answer.fields if name.startswith("access-control")])
        self.assertEqual(limit_of(proxy, "rate")["rule"], "1/90s")
        self.assertEqual(put(proxy, "rate", "2/90s", "Content-Type: text/plain;charset=UTF-8\r\nSec-Fetch-Site: same-origin\r\n"
                             f"Origin: http://127.0.0.1:{port}\r\n")[0], 200)

    def test_a_reload_restores_the_rule_of_the_file(self):
        config = shop(limit("rate", "1/90s"), limit("other", "9/90s"))
        proxy = self.start_with(config)
        self.assertEqual(put(proxy, "rate", "5/90s")[0], 200)
        self.said(proxy)
        self.assertEqual(self.statuses(proxy, 2), [200, 200])
        self.reload(proxy, config)
        self.assertEqual(limit_of(proxy, "rate")["rule"], "1/90s")
        self.assertEqual(self.statuses(proxy, 1), [429])
        self.assertEqual(put(proxy, "rate", "6/90s")[0], 200)
        self.said(proxy)
        self.reload(proxy, shop(limit("other", "9/90s")))
        self.assertEqual(put(proxy, "rate", "7/90s")[0], 404)
        self.reload(proxy, shop(limit("rate", "3/90s"), limit("other", "9/90s"), write="false"))
        self.assertEqual(put(proxy, "rate", "7/90s")[0], 403)

    def preview(self, proxy, name, rule, requests):
        """A preview of that many requests: a request is recorded after its response."""
        found = {}

        def has_all():
            status, text = post(proxy, name, "preview", rule)
            self.assertEqual(status, 200, text)
            found.update(json.loads(text))
            return found["requests"] >= requests

        wait_until(has_all)
        return found

    def test_a_preview_shows_the_effect_on_the_last_requests(self):
        proxy = self.start_with(shop(limit("a / b%", "2/90s"), limit("key", "3/90s", 'key = "header X"\n')))
        self.assertEqual(self.statuses(proxy, 5, "X: 1\r\n"), [200, 200, 429, 429, 429])
        found = self.preview(proxy, "a / b%", "4/90s\n", 5)
        self.assertGreater(found.pop("seconds"), 0)
        self.assertEqual(found, {"requests": 5, "kept": 1,
                                 "now": {"rule": "2/90s", "granted": 2, "rejected": 3, "waited": 0, "p99_wait": 0},
                                 "then": {"rule": "4/90s", "granted": 4, "rejected": 1, "waited": 0, "p99_wait": 0}})
        # The second limit did not reject the other three requests.
        found = self.preview(proxy, "key", "1/90s", 2)
        self.assertEqual((found["requests"], found["now"]["granted"], found["then"]["granted"]), (2, 2, 1))
        # A preview changes nothing.
        self.assertEqual([one["rule"] for one in stats(proxy)["limits"]], ["2/90s", "3/90s"])
        self.assertFalse([one for one in stats(proxy)["limits"] if "changed" in one])
        self.assertEqual(self.statuses(proxy, 1, "X: 1\r\n"), [429])

    def test_a_preview_without_a_rule_finds_a_larger_one(self):
        proxy = self.start_with(shop(limit("rate", "2/90s")))
        self.assertEqual(self.statuses(proxy, 9), [200] * 2 + [429] * 7)
        found = self.preview(proxy, "rate", "\n", 9)
        self.assertEqual((found["now"]["rule"], found["now"]["rejected"]), ("2/90s", 7))
        self.assertEqual((found["then"]["rule"], found["then"]["rejected"]), ("9/90s", 0))  # 4.18 times 2, rounded up

    def test_a_preview_of_seats_has_waits(self):
        proxy = self.start_with(shop(limit("seats", "1 seats", queue="patience 9s")))

        def ask(_):
            with Client(proxy.port) as client:
                self.assertEqual(client.ask("/sleep/300").status, 200)

        in_parallel(3, ask)
        found = self.preview(proxy, "seats", "3 seats", 3)
        self.assertEqual((found["requests"], found["now"]["waited"], found["then"]["waited"]), (3, 2, 0))
        self.assertGreater(found["now"]["p99_wait"], 0.25)
        self.assertEqual(found["then"]["p99_wait"], 0)

    def test_an_invalid_preview(self):
        more = ('[[limit]]\nname = "found"\nrule = "20 vegas max 40"\n'
                '[[limit]]\nname = "fair"\nrule = "3 seats"\nqueue = "order fair"\n')
        proxy = self.start_with(shop(limit("rate", "1/90s"), limit("key", "5 seats", 'key = "client"\n'), more))
        for name, rule, status, why in (
                ("rate", "2 per hour", 400, "column"), ("rate", "0/90s", 400, "limit"),
                ("rate", "2 seats", 409, "same kind as `1/90s`"), ("key", "5 seats max_hold 3s", 400, "max_hold"),
                ("found", "30 vegas max 40", 409, "adaptive seats depend"), ("fair", "4 seats", 409, "order `fair`"),
                ("nothing", "2/90s", 404, "unknown limit `nothing`")):
            with self.subTest(name=name, rule=rule):
                got, text = post(proxy, name, "preview", rule)
                self.assertEqual(got, status, text)
                self.assertIn(why, text)
                if name in ("rate", "key"):  # the same message as for the change itself
                    self.assertEqual(put(proxy, name, rule), (status, text))
        self.assertEqual({one["name"]: one["previewable"] for one in stats(proxy)["limits"]},
                         {"rate": True, "key": True, "found": False, "fair": False})
        self.assertEqual(request(proxy, "/limits/%zz/preview", "POST", TEXT, b"2/90s").status, 400)
        self.assertEqual(request(proxy, "/limits/%zz/undo", "POST", TEXT).status, 400)
        for method, path in (("GET", "rate/preview"), ("GET", "rate/undo"), ("POST", "rate"), ("POST", "rate/other")):
            self.assertEqual(request(proxy, f"/limits/{path}", method, TEXT).status, 405)

    def test_an_undo_restores_the_rule_before_once(self):
        proxy = self.start_with(shop(limit("rate", "1/90s")))
        self.assertEqual(post(proxy, "rate", "undo"), (409, "no change to undo"))
        self.assertNotIn("changed", limit_of(proxy, "rate"))
        for rule in ("2/90s", "3/90s"):
            self.assertEqual(put(proxy, "rate", rule), (200, rule))
            self.said(proxy)
        self.assertEqual(put(proxy, "rate", "3/90s"), (200, "3/90s"))  # changes nothing
        changed = limit_of(proxy, "rate")["changed"]
        self.assertEqual(changed["from"], "2/90s")
        age = datetime.datetime.now(datetime.timezone.utc) - datetime.datetime.fromisoformat(changed["at"].replace("Z", "+00:00"))
        self.assertLess(abs(age.total_seconds()), 30)
        self.assertEqual(post(proxy, "rate", "undo"), (200, "2/90s"))
        self.assertEqual(self.said(proxy), "weir-proxy: limit rate: rule changed back from `3/90s` to `2/90s` by 127.0.0.1\n")
        self.assertEqual(limit_of(proxy, "rate")["rule"], "2/90s")
        self.assertNotIn("changed", limit_of(proxy, "rate"))
        self.assertEqual(self.statuses(proxy, 3), [200, 200, 429])
        self.assertEqual(post(proxy, "rate", "undo"), (409, "no change to undo"))
        self.assertEqual(post(proxy, "other", "undo"), (404, "unknown limit `other`"))

    def test_a_reload_forgets_the_rule_before(self):
        for rule in ("1/90s", "5/90s"):  # also if the file has the new rule
            config = shop(limit("rate", "1/90s"))
            proxy = self.start_with(config)
            self.assertEqual(put(proxy, "rate", "5/90s")[0], 200)
            self.said(proxy)
            proxy.write("no configuration")
            proxy.process.send_signal(signal.SIGHUP)
            next(line for line in proxy.process.stderr if "reload failed" in line)
            self.assertEqual(limit_of(proxy, "rate")["changed"]["from"], "1/90s")
            self.reload(proxy, shop(limit("rate", rule)))
            self.assertEqual(post(proxy, "rate", "undo"), (409, "no change to undo"))
            self.assertEqual(limit_of(proxy, "rate")["rule"], rule)

    def test_a_preview_and_an_undo_need_permission(self):
        config = shop(limit("rate", "1/90s"))
        proxy = self.start_with(config)
        self.assertEqual(put(proxy, "rate", "2/90s")[0], 200)
        self.said(proxy)
        for action in ("preview", "undo"):
            for fields, host, status in (
                    (TEXT + "Origin: http://evil.example\r\n", None, 403), (TEXT + "Sec-Fetch-Site: same-site\r\n", None, 403),
                    (TEXT, "evil.example", 403), ("", None, 415)):
                self.assertEqual(post(proxy, "rate", action, "3/90s", fields, host)[0], status)
        self.assertEqual(limit_of(proxy, "rate")["rule"], "2/90s")
        self.reload(proxy, config.replace("write = true", "write = false"))
        for action in ("preview", "undo"):
            self.assertEqual(post(proxy, "rate", action, "3/90s")[0], 403)
        self.assertFalse(limit_of(proxy, "rate")["previewable"])
        # The record begins when the permission does.
        self.reload(proxy, config)
        self.assertEqual(self.preview(proxy, "rate", "3/90s", 0)["requests"], 0)
        self.statuses(proxy, 1)
        # The address applies at the next start.
        self.reload(proxy, config.replace("127.0.0.1:0", "none"))
        self.assertEqual(self.preview(proxy, "rate", "3/90s", 1)["requests"], 1)

    def test_changes_and_reloads_at_the_same_time(self):
        config = shop(limit("rate", "100000/1s"), limit("key", "100000/1s", 'key = "client"\n'))
        proxy = self.start_with(config)
        done = threading.Event()
        found = set()
        deadline = time.monotonic() + 60

        def work(i):
            try:
                if i == 0:
                    n = 0
                    while n < 200 or 200 not in found and time.monotonic() < deadline:
                        found.add(put(proxy, ("rate", "key")[n % 2], f"{90000 + n % 1000}/1s")[0])
                        n += 1
                elif i == 1:
                    while not done.is_set():
                        proxy.process.send_signal(signal.SIGHUP)
                        next(line for line in proxy.process.stderr if "configuration reloaded" in line)
                        self.assertEqual(request(proxy, "/stats.json").status, 200)
                else:
                    while not done.is_set():
                        self.assertEqual(set(self.statuses(proxy, 50)), {200})
            finally:
                if i == 0:
                    done.set()

        in_parallel(4, work)
        self.assertLessEqual(found, {200, 503})  # 503 during a reload
        self.assertIn(200, found)
        # The last reload decides.
        def settled():
            proxy.process.send_signal(signal.SIGHUP)
            return {one["rule"] for one in stats(proxy)["limits"]} == {"100000/1s"}
        wait_until(settled, "the reload")
        proxy.process.terminate()
        proxy.process.wait(20)
        proxy.report = ("weir-proxy: 0 connections (0 open)\n")


if __name__ == "__main__":
    main()
