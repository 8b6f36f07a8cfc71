#!/usr/bin/env python3
"""The proxy follows its configuration: limits by key, several limits, routes, changes of header fields."""

import os
import signal
import subprocess
import tempfile
import threading
import unittest

from support import PATIENCE, PROXY, Client, ProxyTest, hangs_until, in_parallel, main, wait_until

GET = "GET %s HTTP/1.1\r\nHost: test\r\n%s\r\n"
ONE = '[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n'


def limit(name, rule, **more):
    lines = [f'[[limit]]\nname = "{name}"\nrule = "{rule}"\nqueue = "max_waiting 0 patience 0s"']
    for key, value in more.items():
        lines = [line for line in lines if not line.startswith(key)]
        if key == "queue":
            lines[0] = lines[0].rpartition("\n")[0]
        lines.append(f"{key} = {value}")
    return "\n".join(lines) + "\n"


def run(*arguments):
    return subprocess.run([PROXY, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-proxy-")
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "weir.toml")

    def write(self, text):
        with open(self.file, "w") as file:
            file.write(text)

    def test_all_errors_are_reported_together(self):
        self.write('threads = 0\n[[upstream]]\nname = "shop"\nservers = "nowhere"\nsize = 3\n')
        for mode in (["--check"], ["--print-config"], []):
            result = run("--config", self.file, *mode)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            lines = result.stderr.splitlines()
            self.assertEqual(len(lines), 4, lines)
            places = ["1:11", "2:1", "4:11", "5:1"]
            for line, place in zip(lines, places):
                self.assertTrue(line.startswith(f"weir-proxy: {self.file}:{place}: "), line)
            self.assertIn("`threads` is `0`, but must be a number from 1 to 256", lines[0])
            self.assertIn("unknown key `size`", lines[3])

    def test_a_valid_file_is_checked_without_output(self):
        self.write('[[upstream]]\nname = "shop"\nservers = "127.0.0.1:9"\n')
        result = run("--config", self.file, "--check")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    UNUSED = ('[[upstream]]\nname = "shop"\nservers = "127.0.0.1:9"\n[[limit]]\nname = "a"\nrule = "1/1h"\n'
              '[[route]]\nupstream = "shop"\n[[route]]\npath = "/admin"\nrespond = 403\n')

    def test_settings_without_effect_are_warnings_and_errors_with_strict(self):
        self.write(self.UNUSED)
        expected = (f"weir-proxy: {self.file}:5:8: warning: limit `a`: no route names it: it limits nothing\n"
                    f"weir-proxy: {self.file}:9:1: warning: route `/admin`: unused: route `/` in line 7 matches all of "
                    "its requests; put `/admin` before it\n")
        for options, status in ((["--check"], 0), (["--check", "--strict"], 1)):
            result = run("--config", self.file, *options)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (status, "", expected))
        self.write('[[upstream]]\nname = "shop"\nservers = "127.0.0.1:9"\n')
        result = run("--config", self.file, "--check", "--strict")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        result = run("--config", self.file, "--strict")
        self.assertEqual((result.returncode, result.stderr), (2, "weir-proxy: --strict requires --check\n"))

    def test_the_packaged_file_has_no_warning(self):
        packaged = os.path.join(os.path.dirname(__file__), "..", "..", "src", "package", "weir-proxy.toml")
        result = run("--config", packaged, "--check", "--strict")
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_the_check_finds_an_invalid_store(self):
        for url in ("mysql://secret@h", "redis://:secret@h:no", "redis://u:secret@h/x", "redis://%zzsecret@h",
                    "rediss://u:secret@h?tls=yes", "rediss://u:secret@h?authorities=/no/such", "redis://u:secret@h?insecure",
                    "redis+sentinel://u:secret@h", "postgresql://u:secret@h?colour=red", "postgresql://u:%zzsecret@h",
                    "postgresql://u:secret@[h", "postgresql://u:secret@h:no/d", "postgresql://u:secret@h/d?sslmode=on"):
            self.write('[[upstream]]\nname = "shop"\nservers = "127.0.0.1:9"\n'
                       f'[[store]]\nname = "e"\nurl = "{url}"\n')
            result = run("--config", self.file, "--check")
            self.assertEqual(result.returncode, 2, url)
            self.assertIn("store `e`: `url` ", result.stderr)
            self.assertNotIn("secret", result.stderr)

    def test_tls_in_the_url_of_a_store(self):
        def check(url):
            self.write('[[upstream]]\nname = "shop"\nservers = "127.0.0.1:9"\n'
                       f'[[store]]\nname = "e"\nurl = "mysql://{url}"\n'
                       '[[limit]]\nname = "a"\nrule = "1/1s"\nstore = "e"\n')
            result = run("--config", self.file, "--check")
            if "was built without" in result.stderr:
                self.skipTest(result.stderr)
            self.assertEqual(result.returncode, 2 if result.stderr else 0)
            return result.stderr

        for good in ("u@h/d?tls=never", "u:p@h:1/d?tls=required", "u@/d?tls=required&socket=%2Frun%2Fs"):
            self.assertEqual(check(good), "", good)
        for bad in ("u@h/d?tls", "u@h/d?tls=maybe", "u@h/d?tls=required&size=3", "u@h/d?&"):
            self.assertIn("optional parameters `tls=required`", check(bad), bad)
        self.assertIn("`url`: cannot read the authorities /no/such file: ",
                      check("u@h/d?authorities=/no/such%20file"))

    def test_redis_with_tls_and_with_sentinels(self):
        def check(url):
            self.write('[[upstream]]\nname = "shop"\nservers = "127.0.0.1:9"\n'
                       f'[[store]]\nname = "e"\nurl = "{url}"\n'
                       '[[limit]]\nname = "a"\nrule = "1/1s"\nstore = "e"\n')
            result = run("--config", self.file, "--check")
            if "was built without" in result.stderr:
                self.skipTest(result.stderr)
            self.assertEqual(result.returncode, 2 if result.stderr else 0)
            return result.stderr

        for good in ("rediss://h", "rediss://u:p@h:1/2?insecure", "redis+sentinel://a,b/main/2",
                     "rediss+sentinel://a/main?insecure&sentinel_password=p"):
            self.assertEqual(check(good), "", good)
        self.assertIn("`url` cannot be used: weir::redis: cannot use the authorities /no/such file: No such file",
                      check("rediss://h?authorities=/no/such%20file"))
        self.assertIn("exclude each other", check("rediss://h?authorities=/no&insecure"))

    def test_a_missing_file(self):
        result = run("--config", self.file)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"\Aweir-proxy: cannot read `\S+`: .+\n\Z")

    def test_a_folder(self):
        result = run("--config", os.path.dirname(self.file))
        self.assertEqual((result.returncode, result.stderr),
                         (2, f"weir-proxy: `{os.path.dirname(self.file)}` is a directory\n"))

    def test_a_file_without_an_end(self):
        result = run("--config", "/dev/zero")
        self.assertEqual((result.returncode, result.stderr),
                         (2, "weir-proxy: `/dev/zero` is too large; the maximum is 67108864 bytes\n"))

    def test_a_pid_file_that_cannot_be_written(self):
        self.write('pid_file = "/no/such/folder/pid"\n[admin]\naddress = "none"\n[[listen]]\naddress = "127.0.0.1:0"\n'
                   '[[upstream]]\nname = "shop"\nservers = "127.0.0.1:9"\n')
        result = run("--config", self.file)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"cannot write the pid file `/no/such/folder/pid`: .+\n\Z")

    def test_options_together_with_a_file(self):
        self.write("")
        result = run("--config", self.file, "--seats", "3")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--seats and --config exclude each other", result.stderr)

    def test_options_are_printed_as_a_file(self):
        options = ["--upstream", "127.0.0.1:9", "--seats", "3", "--rate", "100/1s burst 20", "--per-client-rate", "5/1s",
                   "--client-prefix-v4", "24", "--queue", "7", "--patience", "200ms", "--threads", "2"]
        printed = run(*options, "--print-config")
        self.assertEqual((printed.returncode, printed.stderr), (0, ""))
        self.assertEqual(printed.stdout, """threads = 2

[[listen]]
address = "127.0.0.1:8080"

[[upstream]]
name = "upstream"

[[upstream.server]]
address = "127.0.0.1:9"
max_connections = 3

[[limit]]
name = "per-client rate"
rule = "5/1s"
key = "client"
v4_prefix = 24
queue = "max_waiting 7 patience 200ms"

[[limit]]
name = "seats"
rule = "3 seats"
queue = "max_waiting 7 patience 200ms"

[[limit]]
name = "rate"
rule = "100/1s burst 20"
queue = "max_waiting 7 patience 200ms"

[[route]]
upstream = "upstream"
limits = ["per-client rate", "seats", "rate"]
""")
        self.write(printed.stdout)
        again = run("--config", self.file, "--print-config")
        self.assertEqual(again.stdout, printed.stdout)


class Limits(ProxyTest):
    def ask(self, proxy, target="/", fields="", source="127.0.0.1", method="GET"):
        with Client(proxy.port, source=source) as client:
            return client.ask(target, method, fields)

    def statuses(self, proxy, n, *what, **how):
        return [self.ask(proxy, *what, **how).status for _ in range(n)]

    def test_a_file_has_the_effect_of_the_options(self):
        proxy = self.start_with(ONE + limit("seats", "2 seats", queue='"max_waiting 100 patience 20s"'))

        def work(i):
            with Client(proxy.port) as client:
                for _ in range(10):
                    self.assertEqual(client.ask("/sleep/5").status, 200)

        in_parallel(8, work)
        self.assertEqual(self.upstream.most, 2)

    def test_a_key_is_a_header(self):
        proxy = self.start_with(ONE + limit("key", "2/60s", key='"header X-Api-Key"'))
        self.assertEqual(self.statuses(proxy, 3, "/", "X-Api-Key: a\r\n"), [200, 200, 429])
        self.assertEqual(self.statuses(proxy, 3, "/", "x-api-key: b\r\n"), [200, 200, 429])
        self.assertEqual(self.statuses(proxy, 3), [200, 200, 429])  # all requests without the header have one key
        self.assertEqual(proxy.numbers()["key"]["clients"], 3)

    def test_a_key_is_a_segment_of_the_path(self):
        proxy = self.start_with(ONE + limit("shop", "1/60s", key='"path 2"'))
        for path, status in (("/shop/a", 200), ("/shop/a/b?c", 429), ("/else//%61", 429), ("/shop/b", 200),
                             ("/x/../shop/./b", 429), ("/", 200), ("/shop", 429)):
            self.assertEqual(self.ask(proxy, path).status, status, path)

    def test_a_key_has_several_parts(self):
        proxy = self.start_with(ONE + limit("both", "1/60s", key='["client", "header X-A", "path 1"]'))
        asked = [("127.0.0.2", "/a", "X-A: 1\r\n"), ("127.0.0.3", "/a", "X-A: 1\r\n"), ("127.0.0.2", "/b", "X-A: 1\r\n"),
                 ("127.0.0.2", "/a", "X-A: 2\r\n")]
        for expected in (200, 429):
            for source, path, fields in asked:
                self.assertEqual(self.ask(proxy, path, fields, source).status, expected)

    def test_some_keys_have_their_own_rules(self):
        proxy = self.start_with(ONE + limit("key", "1/60s", key='"header X-Api-Key"') +
                                '[limit.overrides]\n"gold" = "3/60s"\n')
        self.assertEqual(self.statuses(proxy, 4, "/", "X-Api-Key: gold\r\n"), [200, 200, 200, 429])
        self.assertEqual(self.statuses(proxy, 2, "/", "X-Api-Key: tin\r\n"), [200, 429])

    def test_some_clients_have_their_own_rules(self):
        proxy = self.start_with(ONE + limit("client", "1/60s", key='"client"', v4_prefix="24") +
                                '[limit.overrides]\n"127.0.3.0/24" = "3/60s"\n"127.0.4.9" = "2/60s"\n')
        for source, expected in (("127.0.2.1", [200, 429]), ("127.0.3.7", [200, 200, 200, 429]),
                                 ("127.0.4.1", [200, 200, 429])):
            self.assertEqual(self.statuses(proxy, len(expected), source=source), expected)

    def test_several_limits_grant_all_or_none(self):
        proxy = self.start_with(ONE + limit("a", "2/60s") + limit("b", "9 seats") + limit("c", "1/60s", key='"header X"') +
                                limit("d", "100/60s burst 100") + limit("e", "100/60s"))
        self.assertEqual(self.statuses(proxy, 3), [200, 429, 429])
        self.assertEqual(self.statuses(proxy, 2, "/", "X: 1\r\n"), [200, 429])
        found = proxy.numbers()
        self.assertEqual([found[name]["granted"] for name in "abcde"], [2, 2, 2, 2, 2])

    def test_a_request_that_waits_for_several_limits_holds_no_permit(self):
        over = threading.Event()
        self.addCleanup(over.set)
        self.upstream.script["/hang"] = hangs_until(over)
        queue = '"max_waiting 10 patience 20s"'
        proxy = self.start_with(ONE + limit("client", "1 seats", key='"client"', queue=queue) +
                                limit("all", "2 seats", queue=queue))
        with Client(proxy.port, source="127.0.0.2") as first, Client(proxy.port, source="127.0.0.2") as second:
            first.send(GET % ("/hang", ""))
            wait_until(lambda: proxy.numbers()["all"]["in use"] == 1)
            second.send(GET % ("/", ""))
            wait_until(lambda: proxy.numbers()["client"]["waiting"] == 1)
            self.assertEqual(proxy.numbers()["all"]["in use"], 1)
            self.assertEqual(self.ask(proxy, source="127.0.0.3").status, 200)
            over.set()
            self.assertEqual((first.answer().status, second.answer().status), (200, 200))

    def test_a_dry_run_counts_and_does_not_delay(self):
        proxy = self.start_with(ONE + limit("new", "2/60s", dry_run="true") + limit("old", "4/60s"))
        self.assertEqual(self.statuses(proxy, 6), [200] * 4 + [429] * 2)
        found = proxy.numbers()
        self.assertEqual((found["new"]["granted"], found["new"]["no permit"]), (2, 2))

    def hold_up(self):
        """Responds to /hang when the event is set, and to /slow immediately. Returns the requested targets of /slow."""
        order = []
        over = threading.Event()
        self.addCleanup(over.set)
        answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        self.upstream.script["/slow"] = lambda sock, request, reader: (
            order.append(request.target), sock.sendall(answer))
        self.upstream.script["/hang"] = lambda sock, request, reader: (over.wait(30), sock.sendall(answer))
        return order, over

    def test_a_field_names_the_class_of_a_request(self):
        order, over = self.hold_up()
        proxy = self.start_with(ONE + limit("all", "1 seats", priority='"Priority"',
                                            queue='"max_waiting 10 order priority ageing 1h patience 20s"'))
        holder = Client(proxy.port)
        self.addCleanup(holder.close)
        holder.send(GET % ("/hang", ""))
        wait_until(lambda: proxy.numbers()["all"]["in use"] == 1)
        waiters = []
        for n, value in enumerate(("7", "u=5, i", "nonsense", "u=1")):
            waiters.append(Client(proxy.port))
            self.addCleanup(waiters[-1].close)
            waiters[-1].send(GET % (f"/slow?{n}", f"Priority: {value}\r\n"))
            wait_until(lambda: proxy.numbers()["all"]["waiting"] == n + 1)
        over.set()
        self.assertEqual([w.answer().status for w in waiters], [200] * 4)
        self.assertEqual(order, ["/slow?3", "/slow?2", "/slow?1", "/slow?0"])

    def test_clients_take_turns(self):
        order, over = self.hold_up()
        proxy = self.start_with(ONE + limit("all", "1 seats", queue='"max_waiting 10 order fair patience 20s"'))
        holder = Client(proxy.port)
        self.addCleanup(holder.close)
        holder.send(GET % ("/hang", ""))
        wait_until(lambda: proxy.numbers()["all"]["in use"] == 1)
        waiters = []
        for n, source in enumerate((2, 2, 2, 3)):
            waiters.append(Client(proxy.port, source=f"127.0.0.{source}"))
            self.addCleanup(waiters[-1].close)
            waiters[-1].send(GET % (f"/slow?{n}", ""))
            wait_until(lambda: proxy.numbers()["all"]["waiting"] == n + 1)
        over.set()
        self.assertEqual([w.answer().status for w in waiters], [200] * 4)
        self.assertLess(order.index("/slow?3"), order.index("/slow?2"))


class Overrides(ProxyTest):
    """Many overrides cost time in proportion to their number."""

    def seconds(self, n):
        """The processor time of a proxy with n overrides, for its start and for a reload with another one."""
        def config(first):
            return ONE + limit("client", "1000/1h burst 9", key='"client"', max_keys=200000) + "[limit.overrides]\n" + "".join(
                f'"{i >> 16}.{i >> 8 & 255}.{i & 255}.7" = "{first if i == 65536 else 500}/1h burst 5"\n'
                for i in range(65536, 65536 + n))

        proxy = self.start_with(config(100))
        proxy.write(self.filled(config(200)))
        proxy.process.send_signal(signal.SIGHUP)
        self.assertIn("reloaded", proxy.process.stderr.readline())
        with open(f"/proc/{proxy.process.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def test_ten_times_as_many_take_about_ten_times_as_long(self):
        few, many = self.seconds(10000), self.seconds(100000)
        self.assertLess(many, 30 * few, (few, many))


class Evasion(ProxyTest):
    """Requests that a service may take for others do not leave a route or a key."""

    def test_of_a_route(self):
        proxy = self.start_with(ONE + '[[route]]\nhost = "*.blocked.example"\nrespond = 410\n'
                                '[[route]]\npath = "/admin"\nrespond = 403\n[[route]]\nupstream = "shop"\n')
        for target, status in (("/admin;x=1", 403), ("/admin;", 403), ("/;/admin/x", 403), ("/admin%3bx/y", 403),
                               ("/administrator;x", 200), ("/x;admin", 200), ("/admin%00", 400), ("/admin#x", 400),
                               ("/x/..;/admin", 400), ("/x/%2e%2e;/admin", 400)):
            with Client(proxy.port) as client:
                self.assertEqual(client.ask(target).status, status, target)
        for host, status in (("x.blocked.example", 410), ("x.blocked.example.", 410), ("x.blocked.example.:80", 410),
                             ("x.blocked.example..", 400), ("x.blocked%2eexample", 400)):
            with Client(proxy.port) as client:
                client.send(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")
                self.assertEqual(client.answer().status, status, host)

    def test_of_a_key(self):
        proxy = self.start_with(ONE + limit("key", "1/60s", key='"header X-Api-Key"'))
        key = "X-Api-Key: a\r\n"
        self.assertEqual([self.status(proxy, fields) for fields in (
            key, key, key + "X-Api-Key: 1\r\n", key + "X-Api-Key: 2\r\n", key + "X-Api-Key:\r\n",
            "X-Api-Key: b\r\n")], [200, 429, 400, 400, 400, 200])

    def status(self, proxy, fields):
        with Client(proxy.port) as client:
            return client.ask("/", fields=fields).status


class Routes(ProxyTest):
    def ask(self, proxy, host, target="/", method="GET", fields=""):
        with Client(proxy.port) as client:
            client.send(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n")
            return client.answer(method)

    def test_the_first_route_that_matches(self):
        proxy = self.start_with(ONE + """
[[route]]
host = "static.example.org"
respond = 204
[[route]]
host = "*.example.org"
path = "/api"
respond = 410
[[route]]
path = "/admin/"
respond = 403
[[route]]
method = ["DELETE", "PUT"]
respond = 405
[[route]]
host = "[::1]"
respond = 418
[[route]]
host = "example.org"
upstream = "shop"
""")
        for host, target, method, status in (
                ("static.example.org", "/", "GET", 204), ("STATIC.Example.ORG:80", "/api", "GET", 204),
                ("a.example.org", "/api", "GET", 410), ("a.b.example.org", "/api/x?y", "GET", 410),
                ("example.org", "/api", "GET", 200), ("a.example.org", "/apis", "GET", 404),
                ("example.org", "/admin", "GET", 403), ("example.org", "/admin/x", "GET", 403),
                ("example.org", "/%61dmin", "GET", 403), ("example.org", "//admin", "GET", 403),
                ("example.org", "/x/../admin/", "GET", 403), ("example.org", "/./admin", "GET", 403),
                ("example.org", "/administrator", "GET", 200), ("example.org.", "/", "GET", 200),
                ("example.org", "/", "PUT", 405), ("example.org", "/", "POST", 200), ("[::1]:80", "/", "GET", 418),
                ("other.org", "/", "GET", 404), ("notexample.org", "/", "GET", 404)):
            self.assertEqual(self.ask(proxy, host, target, method).status, status, (host, target, method))
        self.assertEqual(proxy.numbers()["proxy"]["answered by a route"], 15)

    def test_a_connection_continues_after_the_response_of_a_route(self):
        proxy = self.start_with(ONE + '[[route]]\npath = "/no"\nrespond = 403\n[[route]]\nupstream = "shop"\n')
        with Client(proxy.port) as client:
            answer = client.ask("/no", "POST", "Content-Length: 5\r\n", b"hello")
            self.assertEqual((answer.status, answer.body), (403, b"Forbidden\n"))
            self.assertEqual(client.ask("/").status, 200)

    def test_each_route_has_its_limits(self):
        proxy = self.start_with(ONE + limit("a", "1/60s") + limit("b", "2/60s") + """
[[route]]
path = "/a"
upstream = "shop"
limits = ["a", "b"]
[[route]]
path = "/b"
upstream = "shop"
limits = "b"
[[route]]
upstream = "shop"
""")
        self.assertEqual([self.ask(proxy, "h", t).status for t in ("/a", "/a", "/b", "/b", "/", "/")],
                         [200, 429, 200, 429, 200, 200])

    def test_fields_are_added_and_removed(self):
        self.upstream.script["/"] = lambda sock, request, reader: sock.sendall(
            b"HTTP/1.1 200 OK\r\nServer: secret\r\nX-A: upstream\r\nContent-Length: 0\r\n\r\n") or True
        proxy = self.start_with(ONE + """
[[route]]
upstream = "shop"
[route.request_headers]
remove = ["cookie"]
[route.request_headers.add]
"X-Through" = "weir"
[route.response_headers]
remove = ["server"]
[route.response_headers.add]
"x-a" = "proxy"
""")
        answer = self.ask(proxy, "h", "/", "GET", "Cookie: x\r\nx-through: forged\r\nX-Other: y\r\n")
        self.assertEqual((answer.get("server"), answer.get("x-a")), (None, "proxy"))
        self.assertEqual([name for name, _ in answer.fields].count("x-a"), 1)
        sent = self.upstream.requests[0].fields
        self.assertEqual([f for f in sent if f[0] in ("cookie", "x-through", "x-other")],
                         [("x-other", "y"), ("x-through", "weir")])

    def test_a_route_has_its_own_timeout(self):
        proxy = self.start_with(ONE + '[[route]]\npath = "/sleep"\nupstream = "shop"\nupstream_timeout = "100ms"\n'
                                '[[route]]\nupstream = "shop"\n')
        self.assertEqual(self.ask(proxy, "h", "/sleep/1000").status, 504)


if __name__ == "__main__":
    main()
