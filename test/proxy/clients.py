#!/usr/bin/env python3
"""Real clients and a real server: curl and wrk as clients, nginx as the upstream."""

import hashlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

import support
from support import Proxy, numbers, pattern, reserve, skip, wait_until

MIB = 1024 * 1024
SIZES = [0, 1, 64 * 1024, 64 * MIB]

NGINX = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        client_max_body_size 0;
        keepalive_requests 1000000;
        root {folder}/files;
        location / {{ }}
        location /gzip/ {{
            alias {folder}/files/;
            gzip on;            # of unknown length: chunked
            gzip_min_length 0;
            gzip_types *;
            gzip_comp_level 1;
        }}
        location /put/ {{ dav_methods PUT; }}
    }}
}}
"""


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


class Clients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="weir-proxy-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        os.chmod(cls.folder, 0o755)
        os.makedirs(f"{cls.folder}/files/put")
        os.chmod(f"{cls.folder}/files/put", 0o777)
        for size in SIZES:
            with open(f"{cls.folder}/files/{size}", "wb") as f:
                f.write(pattern(size))
        reservation = reserve()
        cls.addClassCleanup(reservation.close)
        cls.nginx_port = reservation.getsockname()[1]
        with open(f"{cls.folder}/nginx.conf", "w") as f:
            f.write(NGINX.format(folder=cls.folder, port=cls.nginx_port))
        cls.nginx = subprocess.Popen(
            [find("nginx"), "-c", f"{cls.folder}/nginx.conf", "-p", cls.folder],
            stderr=subprocess.DEVNULL)
        cls.addClassCleanup(cls.nginx.wait)
        cls.addClassCleanup(cls.nginx.terminate)

        def answers():
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", cls.nginx_port)) == 0

        wait_until(answers, "nginx")

    def start(self, *options):
        proxy = Proxy("--upstream", f"127.0.0.1:{self.nginx_port}", *options)
        self.addCleanup(self.finish, proxy)
        return proxy

    def finish(self, proxy):
        report = numbers(proxy.stop())
        proxy.process.stdout.close()
        proxy.process.stderr.close()
        for part in report.keys() & {"seats", "rate"}:
            self.assertEqual((report[part]["in use"], report[part]["waiting"]), (0, 0))

    def curl(self, *arguments):
        return subprocess.run(["curl", "-sS", "--max-time", "60", *arguments], check=True,
                              stdout=subprocess.PIPE).stdout

    def test_downloads_are_identical(self):
        proxy = self.start("--seats", 4)
        for size in SIZES:
            expected = hashlib.sha256(pattern(size)).digest()
            for path in ("", "gzip/"):
                with self.subTest(path, size=size):
                    got = self.curl("--compressed", f"http://127.0.0.1:{proxy.port}/{path}{size}")
                    self.assertEqual(hashlib.sha256(got).digest(), expected)
        got = self.curl("--http1.0", f"http://127.0.0.1:{proxy.port}/{64 * 1024}")
        self.assertEqual(got, pattern(64 * 1024))

    def test_uploads_are_identical(self):
        proxy = self.start("--seats", 4)
        for size in SIZES:
            for kind in ((), ("-H", "Transfer-Encoding: chunked"), ("-H", "Expect:")):
                if size == 0 and kind:
                    continue  # curl 7.88 never ends an empty upload in chunks
                with self.subTest(kind, size=size):
                    name = f"put/{size}-{len(kind)}"
                    status = self.curl("-T", f"{self.folder}/files/{size}", *kind, "-w", "%{http_code}",
                                       f"http://127.0.0.1:{proxy.port}/{name}")
                    self.assertIn(status[-3:], (b"201", b"204"))
                    with open(f"{self.folder}/files/{name}", "rb") as f:
                        self.assertTrue(f.read() == pattern(size))

    def test_curl_gets_the_same_as_without_a_proxy(self):
        proxy = self.start()
        url = f"http://127.0.0.1:{proxy.port}/1"
        head = self.curl("-I", url).decode()
        self.assertIn("HTTP/1.1 200 OK", head)
        self.assertIn("Content-Length: 1\r\n", head)
        etag = re.search(r"ETag: (\S+)", head)[1]
        status = self.curl("-o", "/dev/null", "-w", "%{http_code}", "-H", f"If-None-Match: {etag}", url)
        self.assertEqual(status, b"304")
        self.assertEqual(self.curl("-r", "0-9", f"http://127.0.0.1:{proxy.port}/65536"), pattern(10))
        self.assertEqual(self.curl(url, url, url), pattern(1) * 3)
        self.assertEqual(self.curl("--http2", url), pattern(1))

    def test_wrk_with_seats(self):
        proxy = self.start("--seats", 4, "--patience", "10s")
        out = subprocess.run(["wrk", "-t1", "-c64", "-d2", f"http://127.0.0.1:{proxy.port}/1"],
                             check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertNotIn("Non-2xx", out)
        self.assertNotIn("Socket errors", out)
        report = numbers(proxy.stop())
        self.assertGreater(report["seats"]["granted"], 100)
        self.assertGreater(report["seats"]["granted"], report["seats"]["immediately"])

    def test_wrk_with_a_rate(self):
        proxy = self.start("--rate", "50/500ms", "--patience", "0s")
        begun = time.monotonic()
        out = subprocess.run(["wrk", "-t1", "-c16", "-d2", f"http://127.0.0.1:{proxy.port}/1"],
                             check=True, stdout=subprocess.PIPE, text=True).stdout
        took = time.monotonic() - begun
        rejected = int(re.search(r"Non-2xx or 3xx responses: (\d+)", out)[1])
        total = int(re.search(r"(\d+) requests in", out)[1])
        report = numbers(proxy.stop())
        self.assertGreaterEqual(report["rate"]["granted"], total - rejected)
        self.assertGreaterEqual(report["rate"]["granted"], 200)
        self.assertLessEqual(report["rate"]["granted"], 50 * (took / 0.5 + 1))


if __name__ == "__main__":
    for program in ("curl", "wrk", "nginx"):
        if not find(program):
            skip(f"there is no {program}; test/setup proxy installs it")
    support.main()
