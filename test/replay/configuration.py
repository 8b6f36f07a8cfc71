#!/usr/bin/env python3
"""Limits and routes from a configuration file of weir-proxy."""

from support import BEGIN, ReplayTest, common, main

UPSTREAM = """
[[upstream]]
name = "shop"
servers = ["127.0.0.1:9000"]
"""


def limit(name, rule, more=""):
    return f'[[limit]]\nname = "{name}"\nrule = "{rule}"\nqueue = "max_waiting 9 patience 0s"\n{more}\n'


def route(limits, more=""):
    return f'[[route]]\nupstream = "shop"\nlimits = {limits}\n{more}\n'


class Configuration(ReplayTest):
    def file(self, *tables, name="weir.toml"):
        return self.write([UPSTREAM, *tables], name)

    def outcome(self, lines, config, *more):
        """Replays lines of one instant; returns the numbers granted immediately, rejected and answered by a route."""
        found = self.replay(self.write(lines), "--spread", "burst", "--config", config, *more)
        self.notes = "\n".join(found["notes"])
        outcome = found["outcomes"][0]
        self.by_rule = {r["rule"].split(":")[0]: sum(r["rejected"].values()) for r in outcome["rules"]}
        return [outcome[what] for what in ("granted_immediately", "rejected", "answered_by_route")]

    def test_the_first_matching_route(self):
        config = self.file(limit("posts", "1/1s"), limit("all", "2/1s"),
                           '[[route]]\npath = "/admin"\nrespond = 403\n',
                           route(["posts"], 'method = "POST"'), route(["all"]))
        lines = [common(BEGIN, path=p) for p in ("/%61dmin/x", "/a/../admin", "/administrator", "/", "/x", "/y?/admin")]
        lines += [common(BEGIN).replace("GET", "POST")] * 3
        self.assertEqual(self.outcome(lines, config), [3, 4, 2])
        self.assertEqual(self.by_rule, {"posts": 2, "all": 2})
        self.assertNotIn("host", self.notes)

    def test_a_log_without_host(self):
        config = self.file(limit("shop", "1/1s"), route(["shop"], 'host = "*.example.org"'))
        lines = [common(BEGIN)] * 3
        self.assertEqual(self.outcome(lines, config), [0, 0, 3])
        self.assertEqual(self.notes.count("no host"), 1)
        self.assertEqual(self.outcome(lines, config, "--host", "www.example.org:80"), [1, 2, 0])
        self.assertIn("www.example.org", self.notes)
        named = [f"{BEGIN} {host} 10.0.0.1 \"GET / HTTP/1.1\" 200"
                 for host in ("www.example.org", "example.org", "a.example.org")]
        form = "$msec $host $remote_addr \"$request\" $status"
        self.assertEqual(self.outcome(named, config, "--format", form), [1, 1, 1])
        self.assertNotIn("host", self.notes)

    def test_networks_of_clients_and_overrides(self):
        config = self.file(limit("network", "1/1s", """key = "client"
v4_prefix = 24
[limit.overrides]
"10.0.1.0/24" = "3/1s"
"2001:0DB8:0::/64" = "2/1s"
"""))
        lines = [common(BEGIN, c) for c in ["10.0.0.1", "10.0.0.2"] + ["10.0.1.7"] * 4]
        self.assertEqual(self.outcome(lines, config), [4, 2, 0])
        lines = [common(BEGIN, c) for c in ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:1::1", "2001:db8:1::2"]]
        self.assertEqual(self.outcome(lines, config), [3, 2, 0])

    def test_networks_with_a_rule_or_without_one(self):
        config = self.file(limit("client", "1/1s", """key = "client"
[limit.overrides]
"10.0.0.0/8" = "2/1s"
"10.1.0.0/16" = "unlimited"
"10.1.1.1" = "3/1s"
"""))
        lines = [common(BEGIN, c) for c in ("10.0.0.1", "10.0.0.2", "10.1.0.1", "10.1.1.1", "11.0.0.1") for _ in range(5)]
        self.assertEqual(self.outcome(lines, config), [2 + 2 + 5 + 3 + 1, 3 + 3 + 0 + 2 + 4, 0])
        self.assertEqual(self.by_rule, {"client": 12})

    def test_weights_of_clients(self):
        """Of 9 requests in 8 seconds the first is granted at once, and the others by weight."""
        log = self.write([common(BEGIN, c) for _ in range(8) for c in ("10.0.0.1", "10.0.1.1")])

        def rejected(weights):
            config = self.file(f"""[[limit]]
name = "all"
rule = "1/1s"
queue = "max_waiting 99 order fair patience 8s"
weights = {weights}
""", route(["all"]))
            found = self.replay(log, "--spread", "burst", "--config", config)["outcomes"][0]
            return {k["key"]: k["rejected"] for k in found["top_rejected"]}

        self.assertEqual(rejected("{}"), {"10.0.0.1": 3, "10.0.1.1": 4})
        self.assertEqual(rejected('{ "10.0.1.0/24" = 3 }'), {"10.0.0.1": 5, "10.0.1.1": 2})

    def test_an_unlimited_limit(self):
        config = self.file(limit("all", "unlimited"), limit("dry", "unlimited", "dry_run = true"),
                           limit("some", "unlimited", 'key = "client"\n[limit.overrides]\n"10.0.0.1" = "1/1s"'))
        lines = [common(BEGIN, c) for c in ("10.0.0.1", "10.0.0.2") for _ in range(3)]
        self.assertEqual(self.outcome(lines, config), [4, 2, 0])
        self.assertEqual(self.by_rule, {"all": 0, "dry": 0, "some": 2})
        log = self.write(lines)
        one = self.file(limit("all", "2/1s"), name="one.toml")
        found = self.replay(log, "--spread", "burst", "--config", one, "--versus", "all: unlimited")
        self.assertEqual([o["rejected"] for o in found["outcomes"]], [4, 0])
        found = self.replay(log, "--spread", "burst", "--config", self.file(limit("all", "unlimited"), name="off.toml"),
                            "--versus", "all: 5 seats", "--service-time", "1s")
        self.assertEqual([o["rejected"] for o in found["outcomes"]], [0, 1])

    def test_routes_of_clients_and_headers(self):
        config = self.file(limit("all", "1/1s"), '[[route]]\nclient = ["10.0.0.0/8", "2001:db8::/32"]\nrespond = 403\n',
                           '[[route]]\nupstream = "shop"\nheader = { "X-Plan" = ["gold", "silver"] }\n', route(["all"]))
        lines = [f"{BEGIN} {client} \"GET / HTTP/1.1\" 200 {plan}" for client, plan in (
            ("10.0.0.1", "gold"), ("2001:db8:1::1", "-"), ("11.0.0.1", "gold"), ("11.0.0.1", "silver"), ("11.0.0.1", "Gold"),
            ("example.org", "-"))]
        form = '$msec $remote_addr "$request" $status $http_x_plan'
        self.assertEqual(self.outcome(lines, config, "--format", form), [3, 1, 2])
        self.assertEqual(self.notes.count("X-Plan"), 0)
        self.assertEqual(self.outcome([common(BEGIN, "11.0.0.1")] * 2, config), [1, 1, 0])
        self.assertEqual(self.notes.count("X-Plan"), 1)

    def test_keys_that_replace_a_missing_value(self):
        config = self.file(limit("key", "1/1s", """key = "header X-Api-Key or query key or client"
[limit.overrides]
"gold" = "3/1s"
"10.0.0.0/8" = "2/1s"
"""))
        form = '$msec $remote_addr "$request" $status $http_x_api_key'
        values = {  # the client, the target and the header: the granted ones of five requests
            ("11.0.0.1", "/", "-"): 1, ("11.0.0.2", "/", ""): 1, ("10.0.0.1", "/", "-"): 2, ("10.0.0.2", "/", "-"): 2,
            ("10.0.0.3", "/", "a"): 1, ("10.0.0.4", "/?key=b", "-"): 1, ("10.0.0.5", "/?key=%62", "-"): 0,
            ("11.0.0.3", "/?x", "gold"): 3, ("11.0.0.4", "/", "10.0.0.1"): 1, ("11.0.0.5", "/?key=client+10.0.0.9", "-"): 1}
        lines = [f'{BEGIN} {client} "GET {target} HTTP/1.1" 200 {header}'
                 for client, target, header in values for _ in range(5)]
        self.assertEqual(self.outcome(lines, config, "--format", form)[0], sum(values.values()))

    def test_keys_that_a_log_lacks(self):
        config = self.file(limit("token", "2/1s", 'key = "claim sub"'), limit("session", "9/1s", 'key = "cookie session or reject"'))
        self.assertEqual(self.outcome([common(BEGIN)] * 3, config), [2, 1, 0])
        self.assertEqual(self.notes.count("The log has no `claim sub`: all requests count as requests without it."), 1)
        self.assertEqual(self.notes.count("The log has no `cookie session`"), 1)
        self.assertEqual(self.notes.count("rejects requests without a value for the key of `session`"), 1)
        config = self.file(limit("session", "1/1s", 'key = "cookie session"'))
        lines = [f'{BEGIN} 10.0.0.1 "GET / HTTP/1.1" 200 {cookie}' for cookie in ("a", "a", "b", "-")]
        self.assertEqual(self.outcome(lines, config, "--format", '$msec $remote_addr "$request" $status $cookie_session'),
                         [3, 1, 0])
        self.assertNotIn("cookie", self.notes)

    def test_keys_of_several_parts(self):
        config = self.file(limit("both", "1/1s", 'key = ["client", "path 2"]'))
        lines = [common(BEGIN, c, p) for c in ("10.0.0.1", "10.0.0.2") for p in ("/a/x", "/b//%78", "/a/y")]
        self.assertEqual(self.outcome(lines, config), [4, 2, 0])
        self.assertEqual(self.by_rule, {"both": 2})

    def test_keys_of_several_parts_with_commas(self):
        config = self.file(limit("both", "1/1s", 'key = ["header X-Org", "header X-User"]'))
        keys = [("a, b", "c"), ("a", "b, c"), ("", "a"), ("a", ""), ("-", "-"), ("", "")]
        lines = [f'{BEGIN} 10.0.0.1 "GET / HTTP/1.1" 200 "{org}" "{user}"' for org, user in keys for _ in range(2)]
        form = '$msec $remote_addr "$request" $status "$http_x_org" "$http_x_user"'
        self.assertEqual(self.outcome(lines, config, "--format", form), [5, 7, 0])

    def test_a_log_without_a_header(self):
        config = self.file(limit("key", "2/1s", 'key = "header X-Api-Key"'))
        self.assertEqual(self.outcome([common(BEGIN)] * 3, config), [2, 1, 0])
        self.assertEqual(self.notes.count("X-Api-Key"), 1)

    def test_a_dry_run_counts_and_rejects_no_request(self):
        config = self.file(limit("all", "4/1s"), limit("strict", "1/1s", "dry_run = true"))
        self.assertEqual(self.outcome([common(BEGIN)] * 6, config), [4, 2, 0])
        self.assertEqual(self.by_rule, {"all": 2, "strict": 3})

    def test_a_penalty(self):
        penalty = '[[limit]]\nname = "logins"\nrule = "3/1min penalty first 5s"\nkey = "client"\ncount = 401\n'
        lines = [common(BEGIN + i).replace(" 200 ", " 401 ") for i in range(3)]
        lines += [common(BEGIN + 3), common(BEGIN + 3, "10.0.0.2"), common(BEGIN + 6), common(BEGIN + 8)]
        config = self.file(penalty)
        self.assertEqual(self.outcome(lines, config), [5, 2, 0])
        self.assertEqual(self.by_rule, {"logins": 2})
        for more in ("queue 5", "patience 9s"):
            found = self.replay(self.path("log"), "--spread", "burst", "--config", config, "--versus", more,
                                "--versus", "logins: 4/1min penalty")
            self.assertEqual([o["rejected"] for o in found["outcomes"]], [2, 2, 0])
        self.rejects(2, "a penalty requires `count`", self.path("log"), "--limit", "3/1min penalty per client")

    def test_a_penalty_for_rejections(self):
        penalty = '[[limit]]\nname = "deaf"\nrule = "2/1min penalty first 1h"\nkey = "client"\ncount = 429\n'
        rate = limit("rate", "1/3s", 'key = "client"')
        lines = [common(BEGIN)] * 2 + [common(BEGIN + 4)] * 2 + [common(BEGIN + 8), common(BEGIN + 8, "10.0.0.2")]
        self.assertEqual(self.outcome(lines, self.file(rate)), [4, 2, 0])
        self.assertEqual(self.outcome(lines, self.file(rate, penalty)), [3, 3, 0])
        self.assertEqual(self.by_rule, {"rate": 2, "deaf": 1})

    def test_seats_of_servers_are_a_limit(self):
        config = self.write(["""
[[upstream]]
name = "shop"
[[upstream.server]]
address = "127.0.0.1:9000"
seats = 2
[[upstream.server]]
address = "127.0.0.1:9001"
seats = 1
"""], "weir.toml")
        lines = [common(BEGIN)] * 5
        self.assertEqual(self.outcome(lines, config, "--service-time", "2s"), [3, 2, 0])
        self.assertEqual(self.by_rule, {"upstream shop": 2})

    def tree(self, root, name):
        return self.file(f"""[[limit]]
name = "api"
key = ["header X-Org", "header X-User"]
queue = "patience 0s"
[limit.tree]
"/" = "{root}"
"/acme" = "2/1s burst 4 most 5/1s burst 8"
"/acme/*" = "most 5/1s burst 5"
"/*" = "most 5/1s burst 6"
"/*/*" = "most 5/1s burst 3"
""", name=name)

    def test_a_tree_of_rates(self):
        """Of 15 permits 4 are for `acme`. Each other organisation gets at most 6, and each of its users at most 3."""
        leaves = [(org, user) for org in "ab" for user in "xy"] + [("c", "x"), ("acme", "ann")]
        log = self.write([f'{BEGIN}.000 10.0.0.1 "GET / HTTP/1.1" 200 {org} {user}' for org, user in leaves for _ in range(9)])
        one, other = self.tree("10/1s burst 15", "one.toml"), self.tree("10/1s burst 16", "other.toml")
        form = ("--format", '$msec $remote_addr "$request" $status $http_x_org $http_x_user')
        rule = "api: tree of 10/1s burst 15 per header X-Org, header X-User"
        page = self.path("page.html")
        found = self.replay(log, *form, "--config", one, "--versus", other, "--report", page)
        self.assertEqual([o["granted_immediately"] for o in found["outcomes"]], [3 + 3 + 3 + 2 + 4, 3 + 3 + 3 + 3 + 4])
        first = found["outcomes"][0]
        self.assertEqual(first["rules"], [{"rule": rule, "dry_run": False, "rejected": {"no permit": 54 - 15}}])
        self.assertEqual([(k["of"], k["key"], k["requests"], k["rejected"]) for k in first["top_rejected"]],
                         [("header X-Org, header X-User", f"{org}, {user}", 9, n)
                          for org, user, n in (("c", "x", 9), ("b", "y", 7), ("a", "x", 6), ("a", "y", 6), ("b", "x", 6),
                                               ("acme", "ann", 5))])
        text = self.run_it(log, *form, "--config", one).stdout
        self.assertRegex(text, r"rejected by +" + rule)
        self.assertRegex(text, r"header X-Org, header X-User acme, ann +5 of 9")
        with open(page, encoding="utf-8") as file:
            html = file.read()
        self.assertIn(rule, html)
        self.assertIn("acme, ann", html)

        # The other organisations get 8 permits per second, since `acme` saves 2.
        found = self.replay(log, *form, "--config", one, "--find", "patience 9s", "--max-rejected", "70%")
        self.assertEqual(found["find"]["found"], "patience 250ms")
        for option in ("--versus", "--find"):
            self.rejects(2, "limit `api` has a tree: its rates change only in a file, which --versus compares",
                         log, *form, "--config", one, option, "api: 20/1s")

    def test_compare_files_and_changes(self):
        one = self.file(limit("all", "1/1s"))
        other = self.file(limit("all", "3/1s"), name="other.toml")
        log = self.write([common(BEGIN)] * 6)
        found = self.replay(log, "--spread", "burst", "--config", one, "--versus", other, "--versus", "all: 2/1s",
                            "--versus", "all: 2/1s, patience 1s")
        self.assertEqual([o["rejected"] for o in found["outcomes"]], [5, 3, 4, 2])
        found = self.replay(log, "--spread", "burst", "--config", one, "--find", "all: 9/1s", "--max-rejected", "50%")
        self.assertEqual(found["find"]["found"], "all: 3/1s")

    def test_compare_rates_of_bytes(self):
        text = "[[limit]]\nname = 'bytes'\nbandwidth = { down = '10kB/s burst 10kB' }\n"
        one = self.file(text, route(["bytes"]))
        log = self.write([common(BEGIN, size=30_000)])
        usual = ["--spread", "even", "--service-time", "1ms", "--config", one]
        found = self.replay(log, *usual, "--versus", "bytes: 20kB/s burst 10kB down", "--versus", "bytes: unlimited",
                            "--versus", "bytes: 5kB/s up")
        self.assertEqual([round(o.get("slowed", {"max": 0})["max"], 1) for o in found["outcomes"]], [2.0, 1.0, 0, 2.0])
        found = self.replay(log, *usual, "--find", "bytes: 1kB/s burst 10kB down")
        # 10 kB at once, and the other 20 kB in the service time of 1 ms.
        self.assertEqual(found["find"]["found"], "bytes: 20000kB/s burst 10kB down")
        for wrong in ("bytes: 3/1s", "bytes: 1MB/s down per client"):
            self.rejects(2, "a rate of bytes and a direction, such as", log, "--config", one, "--versus", wrong)
        self.rejects(2, "the name of a limit (bytes)", log, "--config", one, "--versus", "1MB/s down")

    def test_a_limit_name_that_starts_with_patience(self):
        config = self.file(limit("patience-free", "1/1s"))
        found = self.replay(self.write([common(BEGIN)] * 6), "--spread", "burst", "--config", config,
                            "--find", "patience-free: 9/1s", "--max-rejected", "50%")
        self.assertEqual(found["find"]["found"], "patience-free: 3/1s")

    def test_an_unlimited_patience(self):
        text = limit("all", "1/1s").replace("patience 0s", "patience forever")
        log = self.write([common(BEGIN)] * 6)
        found = self.replay(log, "--spread", "burst", "--config", self.file(text),
                            "--versus", "queue max_waiting 3", "--versus", "patience 2s")
        self.assertEqual([o["rejected"] for o in found["outcomes"]], [0, 2, 3])

    def test_errors(self):
        log = self.write([common(BEGIN)])
        good = self.file(limit("all", "1/1s"))
        bad = self.file(limit("all", "many"), route(["none"]), name="bad.toml")
        done = self.run_it(log, "--config", bad)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"(?m)^weir-replay: .*bad.toml:8:8: limit `all`: `rule` is `many`")
        self.assertRegex(done.stderr, r"(?m)^weir-replay: .*bad.toml:\d+:11: route `/`: unknown limit `none`")
        self.rejects(2, "cannot read", log, "--config", self.path("none.toml"))
        self.rejects(2, "--limit and --config exclude each other", log, "--config", good, "--limit", "1/1s")
        self.rejects(2, "--versus is `2/1s`, but must be `NAME: RULE`", log, "--config", good, "--versus", "2/1s")
        self.rejects(2, "but must be a rule of the same kind as `1/1s`", log, "--config", good, "--versus", "all: 2 seats")


if __name__ == "__main__":
    main()
