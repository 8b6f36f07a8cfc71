#!/usr/bin/env python3
"""nginx, Caddy and haproxy ask weir-proxy before they forward requests: with the recipes of the documentation."""

import os
import re
import shutil
import subprocess
import tempfile
import time

from support import Client, ProxyTest, in_parallel, main, rejects, skip, stopped, wait_until

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../src/docs/how-to/check-for-another-proxy.md")


def recipe(language):
    with open(PAGE) as page:
        return re.search(rf"```{language}\n(.*?)```", page.read(), re.DOTALL)[1]


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin")


class Askers(ProxyTest):
    def setUp(self):
        super().setUp()
        self.ports = {port: self.unused_port() for port in ("8081", "8082", "8083", "80")}
        self.ports["9000"] = self.upstream.port
        folder = tempfile.TemporaryDirectory(prefix="weir-askers-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def fill(self, text):
        """Replaces the ports of a recipe."""
        for port in ("8081", "8082", "8083", "9000"):
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{self.ports[port]}")
        return text

    def weir(self, rule="3/1h", queue="patience 0s"):
        config = self.fill(recipe("toml")).replace("20/1s burst 50", rule).replace("patience 300ms", queue)
        self.proxy = self.start_with(config)

    def run_asker(self, program, *arguments, config, name):
        if not find(program):
            self.skipTest(f"there is no {program}; test/setup proxy installs it")
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(config)
        with open(os.path.join(self.folder, "output"), "w") as output:
            process = subprocess.Popen([find(program), *arguments], cwd=self.folder, stdout=output,
                                       stderr=output, env={**os.environ, "HOME": self.folder})

        def end():
            process.terminate()
            process.wait()

        self.addCleanup(end)
        wait_until(lambda: not rejects(self.ports["80"]) or process.poll() is not None, program)
        with open(os.path.join(self.folder, "output")) as output:
            self.assertIsNone(process.poll(), output.read())

    def nginx(self):
        paths = "".join(f"{kind}_temp_path {self.folder}/{kind};" for kind in
                        ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        config = (f"daemon off; worker_processes 2; pid {self.folder}/pid; error_log {self.folder}/error.log;"
                  f"events {{ }} http {{ access_log off; {paths}\n" + self.fill(recipe("nginx")) + "}")
        config = config.replace("listen 80;", f"listen 127.0.0.1:{self.ports['80']};")
        self.run_asker("nginx", "-c", f"{self.folder}/nginx.conf", "-p", self.folder, config=config, name="nginx.conf")

    def caddy(self):
        config = self.fill(recipe("caddy")).replace("example.org", f"http://:{self.ports['80']}")
        config = "{\n admin off\n auto_https off\n}\n" + config
        self.run_asker("caddy", "run", "--adapter", "caddyfile", "--config", "Caddyfile", config=config, name="Caddyfile")

    def haproxy(self):
        with open(os.path.join(self.folder, "weir.lua"), "w") as file:
            file.write(self.fill(recipe("lua")))
        config = self.fill(recipe("haproxy")).replace("bind :80", f"bind 127.0.0.1:{self.ports['80']}")
        self.run_asker("haproxy", "-db", "-f", "haproxy.cfg", config=config, name="haproxy.cfg")

    def client(self):
        return Client(self.ports["80"])

    def all_are_limited(self, has_fields):
        with self.client() as client:
            for i in range(3):
                # The client's own description has no effect.
                lie = "X-Forwarded-Uri: /lie\r\nX-Forwarded-Method: LIE\r\nX-Forwarded-For: 192.0.2.9\r\n"
                answer = client.ask(f"/path/{i}?a=b", method="POST", fields=f"{lie}Content-Length: 2\r\n", body=b"hi")
                self.assertEqual((answer.status, answer.body), (200, b"hello\n"))
            refused = client.ask("/path")
            self.assertEqual(refused.status, 429)
            self.assertGreater(int(refused.get("retry-after")), 3500)
            if has_fields:
                self.assertIn(";r=0", refused.get("ratelimit"))
        # Nor does a request that weir-proxy does not accept pass.
        for line, host in [("GET /x?" + 9000 * "a", "test"), ("GET /x%00", "test"), ("GET /x#y", "test"), ("OPTIONS *", "test"),
                           ("GET /x", 'a"b'), ("GET /x", "a@b"), ("GET /x", "a|b"), ("GET /x", "a..b")]:
            with self.subTest(line=line[:20], host=host), self.client() as client:
                client.send(f"{line} HTTP/1.1\r\nHost: {host}\r\n\r\n")
                status = client.answer().status
                self.assertTrue(status >= 400 or line == "OPTIONS *", status)  # to which Caddy itself responds
        self.assertEqual(self.upstream.targets(), [f"/path/{i}?a=b" for i in range(3)])

    def test_nginx(self):
        self.weir()
        self.nginx()
        self.all_are_limited(True)

    def test_caddy(self):
        self.weir()
        self.caddy()
        self.all_are_limited(True)

    def test_haproxy(self):
        self.weir()
        self.haproxy()
        self.all_are_limited(False)

    def test_the_described_request_selects_the_route(self):
        for asker in (self.nginx, self.caddy, self.haproxy):
            with self.subTest(asker=asker.__name__):
                self.setUp()
                self.proxy = self.start_with(self.fill(recipe("toml")).replace(
                    "[[route]]", '[[route]]\ncheck = true\npath = "/open"\nmethod = "PUT"\n[[route]]').replace(
                    "20/1s burst 50", "1/1h").replace("patience 300ms", "patience 0s"))
                asker()
                with self.client() as client:
                    for _ in range(3):
                        self.assertEqual(client.ask("/open/a", method="PUT", fields="Content-Length: 0\r\n").status, 200)
                    self.assertEqual(client.ask("/open/a").status, 200)
                    self.assertEqual(client.ask("/open/a").status, 429)

    def test_the_rate_is_exact_over_two_workers(self):
        self.weir(rule="200/1h")
        self.nginx()
        granted = []

        def ask(i):
            with self.client() as client:
                for _ in range(20):
                    granted.append(client.ask(f"/{i}").status == 200)

        in_parallel(16, ask)
        self.assertEqual(sum(granted), 200)

    def test_a_check_waits_in_line(self):
        self.weir(rule="1/500ms", queue="patience 10s")
        self.nginx()
        with self.client() as client:
            self.assertEqual(client.ask("/").status, 200)
            began = time.monotonic()
            self.assertEqual(client.ask("/").status, 200)
            self.assertGreater(time.monotonic() - began, 0.3)

    def beside_each_asker(self, check):
        """Calls `check` with a client of each asker, whose first request passed."""
        for asker in (self.nginx, self.caddy, self.haproxy):
            with self.subTest(asker=asker.__name__):
                self.setUp()
                self.weir()
                asker()
                with self.client() as client:
                    self.assertEqual(client.ask("/").status, 200)
                    check(client)
                self.proxy.stop()

    def all_pass(self, client, n):
        self.assertEqual([client.ask("/").status for _ in range(n)], [200] * n)

    def test_requests_pass_while_weir_is_down(self):
        def check(client):
            self.proxy.stop()
            self.all_pass(client, 2)
            began = time.monotonic()
            self.all_pass(client, 20)
            self.assertLess(time.monotonic() - began, 20 * 3)  # which haproxy's client tries to connect

        self.beside_each_asker(check)

    def test_requests_pass_while_weir_hangs(self):
        def check(client):
            with stopped(self.proxy.process):
                self.all_pass(client, 3)

        self.beside_each_asker(check)


if __name__ == "__main__":
    if not any(map(find, ("nginx", "caddy", "haproxy"))):
        skip("there is none of nginx, caddy and haproxy; test/setup proxy installs them")
    main()
