#!/usr/bin/env python3
"""Responses of the proxy itself: text, application/problem+json (RFC 9457), or the body of a file. The client's Accept
selects one (RFC 9110, 12.5.1)."""

import json
import os
import signal
import subprocess
import tempfile
import threading

from support import LAST_OF_HOUR, PATIENCE, PROXY, Client, ProxyTest, main, wait_until

TYPES = "https://iana.org/assignments/http-problem-types#"
PROBLEM = "application/problem+json"
SHOP = '[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n'
ROUTES = ('[[route]]\npath = "/no"\nrespond = 403\n[[route]]\npath = "/none"\nrespond = 204\n[[route]]\npath = "/same"\nrespond = 304\n'
          '[[route]]\npath = "/a"\nupstream = "shop"\nlimits = ["rate", "seats", "client"]\n')


def limit(name, rule, more=""):
    return f'[[limit]]\nname = "{name}"\nrule = "{rule}"\nqueue = "max_waiting 0 patience 0s"\n{more}'


LIMITS = limit("rate", "3/1h") + limit("seats", "1 seats") + limit("client", "100/1h", 'key = "client"\n')


class Problems(ProxyTest):
    def rejected(self, accept=None, config=SHOP + limit("rate", "1/1h"), target="/"):
        proxy = self.start_with(config)
        fields = "" if accept is None else f"Accept: {accept}\r\n"
        with Client(proxy.port) as client:
            client.ask(target)
            return client.ask(target, fields=fields)

    def test_accept_chooses(self):
        proxy = self.start_with(SHOP + limit("rate", "1/1h"))
        with Client(proxy.port) as client:
            client.ask("/")
            for accept, wanted in (
                    (None, "text/plain"), ("*/*", "text/plain"), ("", "text/plain"), ("text/plain", "text/plain"),
                    (PROBLEM, PROBLEM), ("application/json", PROBLEM), ("application/*", PROBLEM),
                    ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/plain"),
                    ("text/*;q=0.5, application/problem+json;q=0.4", "text/plain"),
                    ("text/*;q=0.5, application/problem+json;q=0.6", PROBLEM),
                    ("text/plain;q=0, */*;q=0.1", PROBLEM), ("*/*, text/plain;q=0.9", PROBLEM),
                    ("application/problem+json;q=0, application/json", "text/plain"),
                    ("application/json;q=0.2, text/plain;q=0.1", PROBLEM),
                    # The client accepts none of the bodies. An unwanted body is better than none.
                    ("image/png", "text/plain"), ("*/*;q=0", "text/plain")):
                with self.subTest(accept):
                    answer = client.ask("/", fields="" if accept is None else f"Accept: {accept}\r\n")
                    self.assertEqual((answer.status, answer.get("content-type")), (429, wanted))
                    self.assertEqual(answer.get("vary"), "Accept")
                    self.assertEqual(answer.body[:1] == b"{", wanted == PROBLEM)
            answer = client.ask("/", fields="Accept: text/plain;q=0.5\r\nAccept: application/problem+json\r\n")
            self.assertEqual(answer.get("content-type"), PROBLEM)

    def test_an_exceeded_quota(self):
        answer = self.rejected(PROBLEM, SHOP + limit("wide", "100/1h") + limit('a b', "1/1h", 'key = "client"\n'))
        self.assertEqual(answer.status, 429)
        self.assertIn(int(answer.get("retry-after")), LAST_OF_HOUR)
        self.assertEqual(json.loads(answer.body), {
            "type": TYPES + "quota-exceeded", "title": "Request cannot be satisfied as assigned quota has been exceeded",
            "status": 429, "detail": "too many requests from this client", "violated-policies": ["a b"]})

    def test_names_agree_with_the_header_fields(self):
        config = SHOP + "[[limit]]\nname = 'Küche \"\\%'\nrule = \"1/1h\"\nqueue = \"max_waiting 0 patience 0s\"\n"
        answer = self.rejected(PROBLEM, config)
        self.assertEqual(json.loads(answer.body)["violated-policies"], ['K%c3%bcche "\\%25'])
        self.assertIn('"K%c3%bcche \\"\\\\%25";r=0', answer.get("ratelimit"))

    def test_seats_in_use(self):
        proxy = self.start_with(SHOP + limit("seats", "1 seats"))
        over = threading.Event()
        self.addCleanup(over.set)

        def hang(sock, request, reader):
            over.wait(PATIENCE)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return True

        self.upstream.script["/hang"] = hang
        with Client(proxy.port) as holder, Client(proxy.port) as client:
            holder.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: "/hang" in self.upstream.targets())
            answer = client.ask("/", fields=f"Accept: {PROBLEM}\r\n")
            self.assertEqual((answer.status, answer.get("retry-after")), (503, "1"))
            self.assertEqual(json.loads(answer.body), {
                "type": TYPES + "temporary-reduced-capacity",
                "title": "Request cannot be satisfied due to temporary server capacity constraints",
                "status": 503, "detail": "all seats are in use", "violated-policies": ["seats"]})
            over.set()
            self.assertEqual(holder.answer().status, 200)

    def test_a_route_that_responds_changes_the_header(self):
        proxy = self.start_with(SHOP + (
            '[[route]]\npath = "/old"\nrespond = 301\nresponse_headers = { add = { Location = "/new" } }\n'
            '[[route]]\npath = "/down"\nrespond = 503\n[route.response_headers]\nremove = "Vary"\n'
            'add = { Retry-After = "120", Server = "shop" }\n'
            '[[route]]\nupstream = "shop"\nresponse_headers = { add = { X-Of = "shop" } }\n'))
        with Client(proxy.port) as client:
            moved = client.ask("/old")
            self.assertEqual((moved.status, moved.get("location"), moved.get("server")), (301, "/new", "weir-proxy"))
            down = client.ask("/down")
            self.assertEqual((down.status, down.get("retry-after"), down.get("server"), down.get("vary")),
                             (503, "120", "shop", None))
            self.assertEqual(client.ask("/").get("x-of"), "shop")

    def test_a_route_that_responds_has_its_own_body(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("down.html", "<p>Until noon\n"), ("busy.html", "<p>Busy\n")):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)
            proxy = self.start_with(SHOP + (
                f'[[body]]\nstatus = 503\nfile = "{folder}/busy.html"\n'
                '[[route]]\npath = "/down"\nrespond = 503\nlimits = "none"\n'
                f'body = {{ file = "{folder}/down.html" }}\nresponse_headers = {{ add = {{ Retry-After = "600" }} }}\n'
                '[[route]]\npath = "/busy"\nrespond = 503\n'
                '[[route]]\nupstream = "shop"\n'
                '[[limit]]\nname = "none"\nrule = "2/1h"\nqueue = "patience 0s"\n'))
            with Client(proxy.port) as client:
                for fields in ("", "Accept: text/html\r\n"):
                    down = client.ask("/down", fields=fields)
                    self.assertEqual((down.status, down.get("content-type"), down.body),
                                     (503, "text/html; charset=utf-8", b"<p>Until noon\n"))
                    self.assertEqual(down.get("retry-after"), "600")
                # A limit that rejects the request has another response.
                rejected = client.ask("/down")
                self.assertEqual((rejected.status, rejected.body), (429, b"too many requests\n"))
                self.assertEqual(client.ask("/busy").body, b"<p>Busy\n")

    def test_a_response_that_is_not_about_a_limit_has_the_type_about_blank(self):
        proxy = self.start_with(SHOP + LIMITS + ROUTES)
        self.upstream.script["/a/drop"] = lambda *_: False
        with Client(proxy.port) as client:
            for target, status, title in (("/nowhere", 404, "Not Found"), ("/no", 403, "Forbidden"), ("/a/drop", 502, "Bad Gateway")):
                answer = client.ask(target, "POST", f"Accept: {PROBLEM}\r\nContent-Length: 0\r\n")
                found = json.loads(answer.body)
                self.assertEqual((answer.status, answer.get("content-type")), (status, PROBLEM))
                self.assertEqual((set(found), found["type"], found["title"], found["status"]),
                                 ({"type", "title", "status", "detail"}, "about:blank", title, status))

    def test_a_body_that_arrives_later_does_not_change_the_choice(self):
        # The body overwrites the head in the buffer.
        proxy = self.start_with(SHOP)

        def drop(sock, request, reader):
            return False

        self.upstream.script["/digest"] = drop
        with Client(proxy.port) as client:
            client.send(f"POST /digest HTTP/1.1\r\nHost: test\r\nAccept: {PROBLEM}\r\nContent-Length: 200000\r\n\r\n")
            client.send(b"y" * 200000)
            answer = client.answer()
            self.assertEqual((answer.status, answer.get("content-type")), (502, PROBLEM))

    def test_the_response_to_an_invalid_request_is_text(self):
        proxy = self.start_with(SHOP)
        with Client(proxy.port) as client:
            client.ask("/", fields=f"Accept: {PROBLEM}\r\n")
            client.send(f"GET / HTTP/1.1\r\nAccept: {PROBLEM}\r\n\r\n")
            answer = client.answer()
            self.assertEqual((answer.status, answer.get("content-type")), (400, "text/plain"))

    def test_without_a_body(self):
        proxy = self.start_with(SHOP + limit("rate", "100/1h") + limit("one", "1/1h") + ROUTES.replace('"seats", "client"', '"one"'))
        with Client(proxy.port) as client:
            client.ask("/a")
            for fields in ("", f"Accept: {PROBLEM}\r\n"):
                sizes = [client.ask("/a", method, fields).get("content-length") for method in ("HEAD", "GET", "HEAD")]
                self.assertEqual(len(set(sizes)), 1)
                self.assertNotEqual(sizes[0], "0")
            # RFC 9110, 8.6 and 15.3.5: there is no body, and no header field that announces one.
            for target, status in (("/none", 204), ("/same", 304), ("/none", 204)):
                answer = client.ask(target)
                self.assertEqual((answer.status, answer.get("content-length"), answer.get("content-type")), (status, None, None))


class Files(ProxyTest):
    def setUp(self):
        super().setUp()
        self.folder = self.enterContext(tempfile.TemporaryDirectory(prefix="weir-proxy-"))

    def put(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def body(self, status, file, more=""):
        return f'[[body]]\nstatus = {status}\nfile = "{file}"\n{more}'

    def check(self, config):
        """The errors in a configuration."""
        file = self.put("weir.toml", self.filled(config))
        result = subprocess.run([PROXY, "--config", file, "--check"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, 2 if result.stderr else 0)
        return [line.replace(file, "FILE") for line in result.stderr.splitlines()]

    def test_files_replace_the_text(self):
        page = self.put("busy.html", "<h1>busy</h1>\n")
        note = self.put("busy.json", '{"busy": true}')
        proxy = self.start_with(SHOP + limit("rate", "1/1h") + self.body("[429, 403]", page) + self.body(429, note) + ROUTES.replace("[\"rate\", \"seats\", \"client\"]", '"rate"'))
        html, js, text = ("text/html; charset=utf-8", b"<h1>busy</h1>\n"), ("application/json", b'{"busy": true}'), ("text/plain", b"too many requests\n")
        with Client(proxy.port) as client:
            client.ask("/a")
            for accept, wanted in ((None, html), ("text/html", html), ("application/json", js), ("text/plain", text),
                                   ("text/html;q=0.5, application/json;q=0.6", js), ("*/*", html), ("image/png", html)):
                answer = client.ask("/a", fields="" if accept is None else f"Accept: {accept}\r\n")
                self.assertEqual((answer.status, answer.get("content-type"), answer.body), (429, *wanted), accept)
                self.assertIsNotNone(answer.get("retry-after"))
            self.assertEqual(client.ask("/a", fields=f"Accept: {PROBLEM}\r\n").get("content-type"), PROBLEM)
            self.assertEqual(client.ask("/no").body, html[1])
            self.assertEqual(client.ask("/nowhere").get("content-type"), "text/plain")
            answer = client.ask("/no", "HEAD")
            self.assertEqual(answer.get("content-length"), str(len(html[1])))

    def test_a_large_file(self):
        text = "x" * 1_048_576
        proxy = self.start_with(SHOP + self.body(403, self.put("large.txt", text)) + ROUTES.replace("[\"rate\", \"seats\", \"client\"]", "[]"))
        with Client(proxy.port, receive_buffer=4096) as client:
            for _ in range(2):
                self.assertEqual(client.ask("/no").body, text.encode())

    def test_the_type_follows_from_the_name(self):
        proxy = self.start_with(SHOP + self.body(404, self.put("a.xml", "<a/>"), 'type = "application/xml"\n') + '[[route]]\npath = "/x"\nupstream = "shop"\n')
        with Client(proxy.port) as client:
            answer = client.ask("/")
        self.assertEqual((answer.status, answer.get("content-type"), answer.body), (404, "application/xml", b"<a/>"))

    def test_a_name_is_relative_to_the_folder_of_the_configuration(self):
        self.put("no.txt", "no\n")
        self.assertEqual(self.check(SHOP + self.body(403, "no.txt")), [])

    def test_errors_name_their_position(self):
        large = self.put("large.txt", "x" * 1_048_577)
        good = self.put("good.txt", "")
        for body, why in (
                (self.body(429, self.folder + "/nothing.txt"), f"6:8: body: cannot read `{self.folder}/nothing.txt`: No such file or directory"),
                (self.body(429, "/dev/zero", 'type = "a/b"\n'), "6:8: body: `/dev/zero` is not a regular file"),
                (self.body(429, self.folder, 'type = "a/b"\n'), "is not a regular file"),
                (self.body(429, large), "6:8: body: `" + large + "` has more than 1048576 bytes"),
                ('[[body]]\nstatus = 429\n', "4:1: body: missing `file`"),
                (f'[[body]]\nfile = "{good}"\n', "4:1: body: missing `status`"),
                (self.body(99, good), "5:10: body: `status` is `99`, but must be a number from 200 to 599"),
                (self.body(429, self.put("x.bin", "")), "4:1: body: missing `type`"),
                (self.body(429, good, 'type = "text"\n'), "7:8: body: `type` is `text`, but must be a media type"),
                (self.body(429, good, 'type = "text/plain;\\n"\n'), "7:8: body: `type` is "),
                (self.body(429, good) + self.body("[503, 429]", good), "8:10: body: duplicate body of this type for status 429")):
            found = self.check(SHOP + body)
            self.assertEqual(len(found), 1, found)
            self.assertIn(why, found[0])

    def test_a_reload_reads_files_again(self):
        page = self.put("no.txt", "old")
        routes = ROUTES.replace("[\"rate\", \"seats\", \"client\"]", "[]")
        proxy = self.start_with(SHOP + self.body(403, page) + routes)

        def reload():
            proxy.process.send_signal(signal.SIGHUP)
            return proxy.process.stderr.readline()

        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/no").body, b"old")
            self.put("no.txt", "new")
            self.assertEqual(client.ask("/no").body, b"old")
            self.assertIn("configuration reloaded", reload())
            self.assertEqual(client.ask("/no").body, b"new")
            os.unlink(page)
            self.assertIn("cannot read `", reload())
            self.assertIn("reload failed", proxy.process.stderr.readline())
            self.assertEqual(client.ask("/no").body, b"new")


if __name__ == "__main__":
    main()
