#!/usr/bin/env python3
"""Clients that send their bodies slowly do not shut out other clients: beside nginx, if that is installed."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time

from support import Client, ProxyTest, main, reserve, wait_until

SEATS = 8
NGINX = """daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log; events {{ }}
http {{
    access_log off; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
    uwsgi_temp_path {folder}; scgi_temp_path {folder};
    upstream shop {{ zone shop 64k; server 127.0.0.1:{upstream} max_conns={seats}; }}
    server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://shop; }} }}
}}
"""


class SlowBodies(ProxyTest):
    def statuses_beside_slow_clients(self, port):
        """The statuses of another client, while one client for each seat sends a byte of its body now and then."""
        with contextlib.ExitStack() as slow:
            clients = [slow.enter_context(Client(port)) for _ in range(SEATS)]
            for client in clients:
                client.send("POST /digest HTTP/1.1\r\nHost: test\r\nContent-Length: 1000000\r\n\r\nx")
            time.sleep(0.3)
            found = []
            for _ in range(10):
                for client in clients:
                    client.send("x")
                with Client(port) as other:
                    found.append(other.ask("/").status)
                time.sleep(0.05)
        return found

    def statuses_beside_slow_uploads(self, port, begun):
        """The statuses of other clients, while one client for each seat sends a long body at 600 bytes a second. Its first
        part is more than a proxy may buffer. `begun` waits until all of them were accepted."""
        with contextlib.ExitStack() as slow:
            clients = [slow.enter_context(Client(port)) for _ in range(SEATS)]
            for client in clients:
                client.send("POST /digest HTTP/1.1\r\nHost: test\r\nContent-Length: 300000\r\n\r\n" + "x" * 100_000)
            begun()
            ended = threading.Event()

            def go_on():
                while not ended.wait(0.1):
                    for client in clients:
                        with contextlib.suppress(OSError):
                            client.send("x" * 60)

            sender = threading.Thread(target=go_on)
            sender.start()
            try:
                found = []
                for _ in range(SEATS):
                    with Client(port) as other:
                        found.append(other.ask("/").status)
            finally:
                ended.set()
                sender.join()
        return found

    def test_slow_uploads_do_not_keep_their_seats(self):
        proxy = self.start("--seats", SEATS, "--patience", "1h")
        seats = lambda: proxy.numbers()["seats"]["in use"]
        begun = lambda: wait_until(lambda: seats() == SEATS, "the slow uploads")
        self.assertEqual(self.statuses_beside_slow_uploads(proxy.port, begun), [200] * SEATS)

    def test_other_clients_are_served(self):
        proxy = self.start("--seats", SEATS, "--patience", "100ms")
        self.assertEqual(self.statuses_beside_slow_clients(proxy.port), [200] * 10)
        # The connections of the slow clients ended.
        wait_until(lambda: proxy.numbers()["proxy"]["open"] == 0, "the end of the slow clients")

    def test_nginx_serves_them_too(self):
        nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
        if not nginx:
            self.skipTest("nginx is not installed")
        reservation = reserve()
        self.addCleanup(reservation.close)
        port = reservation.getsockname()[1]
        with tempfile.TemporaryDirectory(prefix="weir-nginx-") as folder:
            os.chmod(folder, 0o777)
            with open(f"{folder}/nginx.conf", "w") as file:
                file.write(NGINX.format(folder=folder, port=port, upstream=self.upstream.port, seats=SEATS))
            process = subprocess.Popen([nginx, "-c", f"{folder}/nginx.conf", "-p", folder], stderr=subprocess.DEVNULL)
            try:
                def listens():
                    with contextlib.suppress(OSError), Client(port) as client:
                        return client.ask("/").status == 200

                wait_until(listens, "nginx")
                self.assertEqual(self.statuses_beside_slow_clients(port), [200] * 10)
                self.assertEqual(self.statuses_beside_slow_uploads(port, lambda: None), [200] * SEATS)
            finally:
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
