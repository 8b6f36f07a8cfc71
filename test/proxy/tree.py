#!/usr/bin/env python3
"""A tree of rates: shares of organisations and their users."""

import json
import re
import signal
import socket
import subprocess
import tempfile
import time

from support import PROXY, Client, ProxyTest, main

# Rates are so low that none of them grants a request while the test runs, except for the bursts.
TREE = {
    "/": "60/1h burst 21",
    "/acme": "12/1h burst 6 most 60/1h burst 18",
    "/acme/*": "most 60/1h burst 10",
    "/*": "most 60/1h burst 12",
    "/*/*": "most 60/1h burst 4",
}
KEY = 'key = ["header X-Org", "header X-User"]\n'


def shop(tree, more=KEY, queue="max_waiting 0 patience 0s", after=""):
    nodes = "".join(f'"{path}" = "{text}"\n' for path, text in tree.items())
    return ('[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n'
            f'[[limit]]\nname = "tree"\n{more}queue = "{queue}"\n[limit.tree]\n{nodes}{after}')


class Tree(ProxyTest):
    def setUp(self):
        super().setUp()
        self.began = time.monotonic()

    def in_minutes(self, found):
        """The seconds of a match, as they were when the test began if that was a whole number of minutes."""
        seconds = int(found[0])
        passed = -seconds % 60
        return str(seconds + passed if passed <= time.monotonic() - self.began else seconds)

    def granted(self, proxy, org, user, n=30, more=""):
        """How many of n requests of a user pass. The others must get 429."""
        fields = (f"X-Org: {org}\r\n" if org is not None else "") + f"X-User: {user}\r\n" + more
        with Client(proxy.port) as client:
            found = [client.ask("/", fields=fields).status for _ in range(n)]
        self.assertLessEqual(set(found), {200, 429})
        return found.count(200)

    def reload(self, proxy, config):
        proxy.write(self.filled(config))
        proxy.process.send_signal(signal.SIGHUP)
        self.assertEqual(proxy.process.stderr.readline(), "weir-proxy: configuration reloaded\n")

    def test_a_share_is_guaranteed_while_others_flood(self):
        proxy = self.start_with(shop(TREE))
        others = sum(self.granted(proxy, f"other{i}", f"u{j}") for i in range(4) for j in range(4))
        self.assertEqual(others, 21 - 6)
        self.assertEqual(self.granted(proxy, "acme", "ann"), 6)
        found = proxy.numbers()["tree"]
        self.assertEqual(found["granted"], 21)

    def test_a_share_borrows_what_others_leave(self):
        proxy = self.start_with(shop(TREE))
        self.assertEqual(sum(self.granted(proxy, "acme", user) for user in "abc"), 18)
        self.assertEqual(self.granted(proxy, "other", "u"), 3)

    def test_the_most_of_users_and_of_organisations(self):
        proxy = self.start_with(shop(TREE))
        self.assertEqual(self.granted(proxy, "acme", "ann"), 10)
        proxy = self.start_with(shop(TREE))
        self.assertEqual([self.granted(proxy, "other", user) for user in "abcd"], [4, 4, 4, 0])
        self.assertEqual(self.granted(proxy, "another", "a"), 3)

    def test_values_are_never_paths(self):
        long = "a" * 5000
        values = ["*", "/", "/acme", "acme/ann", "..", "acme/..", ".", "%2Facme", "ACME", "", None, long, long + "b"]
        for value in values:
            with self.subTest(value=value and value[:20]):
                proxy = self.start_with(shop(TREE))
                for user in ("*", "..", long):
                    self.assertEqual(self.granted(proxy, value, user), 4)
                self.assertEqual(self.granted(proxy, value, "x"), 0)
        proxy = self.start_with(shop(TREE))
        self.assertEqual([self.granted(proxy, "other", user) for user in (long, long + "b")], [4, 4])

    def test_a_reload_keeps_the_state(self):
        proxy = self.start_with(shop(TREE))
        self.assertEqual(self.granted(proxy, "acme", "ann"), 10)
        self.reload(proxy, shop(TREE))
        self.assertEqual(self.granted(proxy, "acme", "ann"), 0)
        self.reload(proxy, shop(TREE | {"/acme/*": "most 120/1h burst 10", "/globex": "1/1h burst 1", "/globex/*": "most 9/1h"}))
        self.assertEqual(self.granted(proxy, "acme", "ann"), 0)
        self.assertEqual(self.granted(proxy, "acme", "bob"), 8)

    def test_a_restart_keeps_the_state(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        state = f'[state]\nfile = "{folder}/state"\n'
        long = "x" * 5000  # its name is a hash
        proxy = self.start_with(state + shop(TREE))
        self.assertEqual(self.granted(proxy, "acme", "ann", 9), 9)
        self.assertEqual(self.granted(proxy, "other", long, 3), 3)
        proxy.stop()
        proxy = self.start_with(state + shop(TREE))
        self.assertEqual(proxy.process.stderr.readline(), f"weir-proxy: state file `{folder}/state`: 1 limits and 3 keys continue\n")
        self.assertEqual(self.granted(proxy, "acme", "ann"), 1)
        self.assertEqual(self.granted(proxy, "other", long), 1)
        self.assertEqual(self.granted(proxy, "acme", "bob"), 7)  # 21 in all
        proxy.stop()

        # Other options apply as on a reload.
        proxy = self.start_with(state + shop(TREE | {"/acme/*": "most 60/1h burst 12", "/globex": "1/1h burst 1", "/globex/*": "most 9/1h"}))
        self.assertIn("1 limits and", proxy.process.stderr.readline())
        self.assertEqual(self.granted(proxy, "acme", "ann"), 0)
        proxy.stop()
        other = shop({"/": "60/1h burst 21", "/*": "1/1h burst 2 keys 5", "/*/*": "most 60/1h burst 4"})
        proxy = self.start_with(state + other)
        self.assertEqual(proxy.process.stderr.readline(), "weir-proxy: state of limit `tree`: weir::rate_tree: /* has a least, but its least and burst must not be raised, nor its keys changed; it starts with nothing used\n")
        self.assertEqual(self.granted(proxy, "acme", "ann"), 4)

    def test_requests_wait(self):
        proxy = self.start_with(shop({"/": "10/1s burst 1", "/*": "most 10/1s burst 1"}, 'key = "client"\n', "patience 5s"))
        begin = time.monotonic()
        with Client(proxy.port) as client:
            self.assertEqual([client.ask("/").status for _ in range(4)], [200] * 4)
        self.assertGreater(time.monotonic() - begin, 0.29)

    def test_other_limits_of_the_route_and_costs(self):
        more = '[[limit]]\nname = "all"\nrule = "3/1h"\nqueue = "patience 0s"\n'
        proxy = self.start_with(shop(TREE, KEY + "cost = 3\n", after=more))
        self.assertEqual(self.granted(proxy, "other", "a"), 1)
        self.assertEqual(self.granted(proxy, "other", "b"), 1)
        self.assertEqual(self.granted(proxy, "other", "c"), 1)
        self.assertEqual(self.granted(proxy, "other", "d"), 0)

    def test_another_tree_of_the_route_with_another_key(self):
        # The names of one tree are also names in the other one.
        regions = ('[[limit]]\nname = "regions"\nkey = "header X-Region"\nqueue = "patience 0s"\n[limit.tree]\n'
                   '"/" = "60/1h burst 30"\n"/acme" = "2/1h burst 1 most 60/1h burst 2"\n"/*" = "most 60/1h burst 8"\n')
        proxy = self.start_with(shop(TREE, after=regions))

        def granted(org, user, region, n=9):
            return self.granted(proxy, org, user, n, f"X-Region: {region}\r\n")
        self.assertEqual(granted("a", "u", "eu"), 4)       # by its user
        self.assertEqual(granted("b", "u", "eu", 3), 3)
        self.assertEqual(granted("b", "v", "eu"), 1)       # by its region, which has 8
        self.assertEqual(granted("b", "v", "us"), 3)       # the rejected requests took nothing of its user
        self.assertEqual(granted("a", "u", "us", 5), 0)    # nor these of its region
        self.assertEqual(granted("c", "u", "acme"), 2)
        self.assertEqual(granted("acme", "u", "us"), 5)    # 3 + 5 are 8
        found = proxy.numbers()
        self.assertEqual([found[name]["granted"] for name in ("tree", "regions")], [18, 18])

    def test_a_dry_run_rejects_nothing(self):
        proxy = self.start_with(shop(TREE, KEY + "dry_run = true\n"))
        self.assertEqual(self.granted(proxy, "other", "a"), 30)
        self.assertEqual(proxy.numbers()["tree"]["granted"], 4)

    def fields(self, proxy, org, user):
        """The rate-limit fields of a response, without the partition of the key, and its Retry-After. A time is the one of
        the beginning of the test."""
        with Client(proxy.port) as client:
            answer = client.ask("/", fields=f"X-Org: {org}\r\nX-User: {user}\r\n")
        values = [[value for name, value in answer.fields if name == wanted]
                  for wanted in ("ratelimit-policy", "ratelimit", "retry-after")]
        self.assertTrue(all(len(found) <= 1 for found in values), values)
        return [re.sub("(?<=;t=)\\d+|^\\d+$", self.in_minutes, found[0].partition(";pk=:")[0]) if found else None
                for found in values]

    def test_responses_state_the_quota_of_the_leaf(self):
        # A permit comes in 60 s: /*/* may take 4 at once, and /acme/* 10. The tree has 21, of which 6 are saved for acme.
        proxy = self.start_with(shop(TREE | {"/*/*": "most 1/1min burst 4"}))
        for left in (3, 2, 1, 0):
            self.assertEqual(self.fields(proxy, "other", "a"), ['"tree";q=4;w=240', f'"tree";r={left};t={(4 - left) * 60}', None])
        self.assertEqual(self.fields(proxy, "other", "a"), ['"tree";q=4;w=240', '"tree";r=0;t=60', "60"])
        # The organisation has 8 of its 12.
        self.assertEqual(self.fields(proxy, "other", "b")[1], '"tree";r=3;t=60')
        self.assertEqual(self.granted(proxy, "other", "b") + self.granted(proxy, "other", "c"), 7)
        self.assertEqual(self.fields(proxy, "other", "d"), ['"tree";q=4;w=240', '"tree";r=0;t=60', "60"])
        # The tree lends 3 more.
        self.assertEqual(self.fields(proxy, "another", "a")[1], '"tree";r=2;t=120')
        self.assertEqual(self.granted(proxy, "another", "b"), 2)
        self.assertEqual([self.fields(proxy, "acme", user)[1].split(";t")[0] for user in "abcabca"],
                         [f'"tree";r={left}' for left in (5, 4, 3, 2, 1, 0, 0)])

    def test_a_reload_changes_the_quota(self):
        proxy = self.start_with(shop(TREE))
        self.assertEqual(self.fields(proxy, "acme", "ann")[:2], ['"tree";q=60;w=3600', '"tree";r=9;t=60'])
        self.reload(proxy, shop({"/": "60/1h burst 21", "/*": "most 60/1h burst 12", "/*/*": "most 60/1h burst 4",
                                 "/acme": TREE["/acme"], "/acme/ann": "most 2/1h burst 5", "/acme/*": TREE["/acme/*"]}))
        # A node that the options name is another one than the key before: it is new, and may take its whole burst.
        self.assertEqual(self.fields(proxy, "acme", "ann")[:2], ['"tree";q=5;w=9000', '"tree";r=4;t=1800'])
        self.assertEqual(self.fields(proxy, "acme", "bob")[:2], ['"tree";q=60;w=3600', '"tree";r=9;t=60'])

    def test_a_reload_changes_the_queue(self):
        tree = {"/": "10/1s burst 1", "/*": "most 10/1s burst 1"}
        proxy = self.start_with(shop(tree, 'key = "header X-Org"\n', "patience 5s"))
        self.reload(proxy, shop(tree, 'key = "header X-Org"\n', "max_waiting 0"))
        self.assertLess(self.granted(proxy, "acme", "ann", 9), 9)

    def test_a_dry_run_and_the_setting_hide_the_quota(self):
        for config in (shop(TREE, KEY + "dry_run = true\n"), 'ratelimit_headers = "none"\n' + shop(TREE)):
            proxy = self.start_with(config)
            for _ in range(5):
                self.assertEqual(self.fields(proxy, "other", "a")[:2], [None, None])

    def test_a_rejection_of_another_limit_or_for_its_keys(self):
        more = '[[limit]]\nname = "all"\nrule = "3/1h fixed"\nqueue = "patience 0s"\n'
        proxy = self.start_with(shop(TREE, KEY + "max_keys = 2\n", after=more))
        policy = '"tree";q=60;w=3600, "all";q=3;w=3600'
        with Client(proxy.port) as client:
            def ask(org):
                answer = client.ask("/", fields=f"X-Org: {org}\r\nX-User: a\r\n")
                found = {name: re.sub(";(t=\\d+|pk=:[^:]*:)", "", value) for name, value in answer.fields}
                return answer.status, found["ratelimit-policy"], found["ratelimit"]
            self.assertEqual(ask("a"), (200, policy, '"tree";r=3, "all";r=2'))
            self.assertEqual(ask("b"), (503, policy, '"tree";r=0'))
            self.assertEqual([ask("a")[0] for _ in range(2)], [200, 200])
            self.assertEqual(ask("a"), (429, policy, '"all";r=0'))

    def test_the_admin_interface(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        admin = f'[admin]\naddress = "unix:{folder}/admin"\nwrite = true\n'
        proxy = self.start_with(admin + shop(TREE, KEY + "max_keys = 2\n"))
        self.assertEqual(self.granted(proxy, "acme", "ann", 1), 1)
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/", fields="X-Org: a\r\nX-User: b\r\n").status, 503)

        def ask(request, body=""):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(f"{folder}/admin")
                sock.sendall(f"{request} HTTP/1.0\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
                return b"".join(iter(lambda: sock.recv(65536), b"")).decode().split("\r\n\r\n", 1)

        found = json.loads(ask("GET /stats.json")[1])["limits"][0]
        self.assertEqual((found["keys"], found["max_keys"], found["granted"], found["rejected"]["too_many_keys"]), (2, 2, 1, 1))  # `a` and `ann`
        self.assertEqual(found["when_full"], "reject")
        self.assertEqual(proxy.process.stderr.readline(), "weir-proxy: limit tree: 2 of 2 keys are in use; requests with further keys are rejected\n")
        self.assertTrue(found["rule"].startswith("tree max_keys 2 / 60/1h burst 21, "))
        self.assertFalse({"memory", "max_memory", "capacity"} & set(found))
        self.assertIn('weir_limit_max_keys{limit="tree"} 2\n', ask("GET /metrics")[1])
        for request in ("PUT /limits/tree", "POST /limits/tree/preview"):
            head, text = ask(request, "5/1s")
            self.assertIn(" 409 ", head.splitlines()[0], request)
            self.assertIn("tree", text)

    def run_on(self, config, *options):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(self.filled(config))
            file.flush()
            return subprocess.run([PROXY, "--config", file.name, *options], capture_output=True, text=True)

    def test_the_printed_configuration_is_the_same(self):
        config = shop(TREE | {"/acme": "12/1h burst 6 most 60/1h burst 18 weight 3"}, KEY + "max_keys = 77\n")
        printed = self.run_on(config, "--print-config").stdout
        self.assertIn('"/acme" = "12/1h burst 6 most 60/1h burst 18 weight 3"', printed)
        again = self.run_on(printed, "--print-config")
        self.assertEqual(again.stdout, printed)

    def test_what_is_no_tree(self):
        def without(path):
            return {p: text for p, text in TREE.items() if p != path}
        for config, message in [
                (shop(without("/*/*")), "`/*` requires `/*/*`, for the other values of part 2 of `key`"),
                (shop(without("/acme/*")), "`/acme` requires `/acme/*`"),
                (shop(without("/*") , 'key = "client"\n'), "`/acme/*` has 2 names, but `key` has 1 parts"),
                (shop(without("/")), "`tree`"),
                (shop(TREE, ""), "`tree` requires a `key` with one part for each level"),
                (shop(TREE | {"/": "10/1h burst 21"}), "least of / is"),
                (shop(TREE | {"/a b": "1/1h"}), "`/a b` is"),
                (shop(TREE | {"/x": "most 1/1h, /y most 1/1h"}), "`/x` is"),
                (shop(TREE | {"/" + "x" * 65: "most 1/1h", "/" + "x" * 65 + "/*": "most 1/1h"}), "more than 64 characters"),
                (shop(TREE, 'key = ["header A", "header B or client"]\n'), "`client` cannot replace another value"),
                (shop(TREE, KEY + "cost = 22\n"), "`cost` is 22, but the limit grants at most 21"),
                *((shop(TREE, KEY + line + "\n"), f"`{line.split()[0]}` and `tree` exclude each other") for line in (
                    'rule = "1/1s"', 'overrides = { "10.0.0.1" = "5/1s" }', "max_memory = 1000000", 'when_full = "share"',
                    "count = 401")),
                ('[[store]]\nname = "s"\nurl = "redis://127.0.0.1"\n' + shop(TREE, KEY + 'store = "s"\n'),
                 "`store` and `tree` exclude each other: stores cannot count a tree")]:
            with self.subTest(message=message):
                done = self.run_on(config, "--check")
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(message, done.stderr)


if __name__ == "__main__":
    main(at_once=4)
