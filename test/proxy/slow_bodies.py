#!/usr/bin/env python3
"""Clients that send their bodies slowly do not shut out other clients: beside nginx, if that is installed."""

import contextlib
import os
import shutil
import subprocess
import tempfile
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
            finally:
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
