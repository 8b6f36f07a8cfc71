#!/usr/bin/env python3
"""Several servers of an upstream, and several listeners."""

import contextlib
import os
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import time

from support import PROXY, PATIENCE, Client, ProxyTest, Reader, Upstream, in_parallel, main, wait_until

EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Servers(ProxyTest):
    def setUp(self):
        super().setUp()
        self.other = Upstream()
        self.addCleanup(self.other.close)
        self.over = threading.Event()

    def both(self, more=""):
        return (f'[[upstream]]\nname = "shop"\nservers = ["127.0.0.1:{self.upstream.port}", '
                f'"127.0.0.1:{self.other.port}"]\n{more}')

    def start_with(self, config, **how):
        proxy = super().start_with(config, **how)
        self.addCleanup(self.over.set)
        return proxy

    def hang(self, upstream):
        def wait(sock, request, reader):
            self.over.wait(30)
            sock.sendall(EMPTY)
            return True

        upstream.script["/hang"] = wait

    def test_the_server_with_the_fewest_requests_gets_the_next_one(self):
        for upstream in (self.upstream, self.other):
            self.hang(upstream)
        proxy = self.start_with(self.both())
        clients = [Client(proxy.port) for _ in range(10)]
        for n, client in enumerate(clients):
            self.addCleanup(client.close)
            client.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: len(self.upstream.requests) + len(self.other.requests) == n + 1)
            self.assertLessEqual(abs(len(self.upstream.requests) - len(self.other.requests)), 1)
        self.over.set()
        self.assertEqual({client.answer().status for client in clients}, {200})

    def test_each_server_has_seats(self):
        config = '[[upstream]]\nname = "shop"\n# seats: reported\n'
        for upstream, seats in ((self.upstream, 1), (self.other, 3)):
            config += f'[[upstream.server]]\naddress = "127.0.0.1:{upstream.port}"\nseats = {seats}\n'
        proxy = self.start_with(config)

        def work(i):
            with Client(proxy.port) as client:
                for _ in range(20):
                    self.assertEqual(client.ask("/sleep/5").status, 200)

        in_parallel(16, work)
        self.assertEqual((self.upstream.most, self.other.most), (1, 3))
        self.assertEqual(len(self.upstream.requests) + len(self.other.requests), 320)
        self.assertEqual(proxy.numbers()["upstream shop"]["granted"], 320)

    def test_the_wait_for_seats_of_servers_follows_the_limits(self):
        server = f'[[upstream.server]]\naddress = "127.0.0.1:{self.upstream.port}"\nseats = 1\n'
        for limits, least, status in (('[[limit]]\nname = "rate"\nrule = "99/1s"\nqueue = "max_waiting 9 patience 20s"\n', 1.5, 200),
                                      ('[[limit]]\nname = "rate"\nrule = "99/1s"\nqueue = "patience forever"\n', 1.5, 200),
                                      ('[[limit]]\nname = "rate"\nrule = "99/1s"\nqueue = "patience 100ms"\n', 0.1, 503),
                                      ("", 1.0, 503)):  # as without any patience
            with self.subTest(limits):
                self.over.clear()
                self.hang(self.upstream)
                before = len(self.upstream.requests)
                proxy = self.start_with('[[upstream]]\nname = "shop"\n# seats: reported\n' + server + limits)
                with Client(proxy.port) as holder, Client(proxy.port) as waiter:
                    holder.send("GET /hang HTTP/1.1\r\nHost: test\r\n\r\n")
                    wait_until(lambda: len(self.upstream.requests) == before + 1)
                    begun = time.monotonic()
                    if status == 200:
                        threading.Timer(least, self.over.set).start()
                    self.assertEqual(waiter.ask("/").status, status)
                    self.assertGreater(time.monotonic() - begun, 0.99 * least)
                    self.over.set()
                    self.assertEqual(holder.answer().status, 200)

    def test_a_request_that_was_not_sent_goes_to_another_server(self):
        config = (f'[[upstream]]\nname = "shop"\nservers = ["127.0.0.1:{self.unused_port()}", "127.0.0.1:{self.unused_port()}", '
                  f'"127.0.0.1:{self.upstream.port}"]\n')
        proxy = self.start_with(config)
        with Client(proxy.port) as client:
            answers = [client.ask("/digest", "POST", "Content-Length: 5\r\n", b"hello").status for _ in range(9)]
        self.assertEqual(answers, [200] * 9)

    def test_requests_wait_for_the_seats_of_the_server_that_can_be_reached(self):
        config = '[[limit]]\nname = "rate"\nrule = "9999/1s"\nqueue = "max_waiting 99 patience 20s"\n'
        config += '[[upstream]]\nname = "shop"\n# seats: reported\n'
        for port in (self.upstream.port, self.unused_port()):
            config += f'[[upstream.server]]\naddress = "127.0.0.1:{port}"\nseats = 2\n'
        proxy = self.start_with(config)

        def work(i):
            with Client(proxy.port) as client:
                for _ in range(4):
                    self.assertEqual(client.ask("/sleep/20").status, 200)

        in_parallel(12, work)
        self.assertEqual(self.upstream.most, 2)

    def test_no_reachable_server(self):
        proxy = self.start_with(f'[[upstream]]\nname = "shop"\nservers = ["127.0.0.1:{self.unused_port()}", '
                                f'"127.0.0.1:{self.unused_port()}"]\n')
        with Client(proxy.port) as client:
            self.assertEqual([client.ask("/").status for _ in range(3)], [502] * 3)

    def test_a_server_is_down_and_then_up_again(self):
        for path in ("", 'path = "/healthz", '):
            with self.subTest(path):
                healthy = threading.Event()
                healthy.set()
                reached = []

                def health(sock, request, reader):
                    reached.append(request)
                    sock.sendall(EMPTY if healthy.is_set() else EMPTY.replace(b"200", b"503"))

                self.other.script["/healthz"] = health
                proxy = self.start_with(self.both(
                    f'health = {{ {path}every = "20ms", timeout = "30s", fall = 2, rise = 2 }}\n'))
                if path:
                    wait_until(lambda: len(reached) > 3)
                    healthy.clear()
                else:
                    port = self.other.port
                    self.other.close()
                line = proxy.process.stderr.readline()
                while "is down" not in line:
                    line = proxy.process.stderr.readline()
                self.assertIn("weir-proxy: upstream shop: server 127.0.0.1:", line)
                before = len([t for t in self.other.targets() if t == "/"])
                with Client(proxy.port) as client:
                    self.assertEqual([client.ask("/").status for _ in range(10)], [200] * 10)
                self.assertEqual(len([t for t in self.other.targets() if t == "/"]), before)
                if path:
                    healthy.set()
                else:
                    self.other = Upstream(port)
                    self.addCleanup(self.other.close)
                self.assertIn("is up", proxy.process.stderr.readline())
                with Client(proxy.port) as client:
                    self.assertEqual([client.ask("/").status for _ in range(10)], [200] * 10)
                self.assertIn("/", self.other.targets())

    def test_a_backup_serves_only_during_an_outage(self):
        port = self.other.port
        proxy = self.start_with(
            '[[upstream]]\nname = "shop"\nhealth = { every = "20ms", timeout = "30s", fall = 1, rise = 1 }\n'
            f'[[upstream.server]]\naddress = "127.0.0.1:{port}"\n'
            f'[[upstream.server]]\naddress = "127.0.0.1:{self.upstream.port}"\nbackup = true\n')

        firsts = [self.other]  # an earlier one may still serve a connection that the proxy kept

        def counts():
            return sum(len(one.requests) for one in firsts), len(self.upstream.requests)

        def served():
            before = counts()
            with Client(proxy.port) as client:
                self.assertEqual([client.ask("/").status for _ in range(10)], [200] * 10)
            return [now - then for now, then in zip(counts(), before)]

        self.assertEqual(served(), [10, 0])
        self.other.close()
        self.assertIn(f"server 127.0.0.1:{port} is down", proxy.process.stderr.readline())
        self.assertEqual(served(), [0, 10])
        firsts.append(Upstream(port))
        self.addCleanup(firsts[-1].close)
        self.assertIn(f"server 127.0.0.1:{port} is up", proxy.process.stderr.readline())
        self.assertEqual(served(), [10, 0])

    def test_failed_requests_count_as_failed_checks(self):
        # No check happens meanwhile.
        dead = self.unused_port()
        proxy = self.start_with(f'[[upstream]]\nname = "shop"\nservers = ["127.0.0.1:{dead}", '
                                f'"127.0.0.1:{self.upstream.port}"]\nhealth = {{ every = "1h", fall = 2 }}\n')
        with Client(proxy.port) as client:
            for _ in range(3):  # after a failure, the server gets no requests for a second
                self.assertEqual([client.ask("/").status for _ in range(4)], [200] * 4)
                time.sleep(1.1)
        line = proxy.process.stderr.readline()
        while "is down" not in line:
            line = proxy.process.stderr.readline()
        self.assertIn(f"server 127.0.0.1:{dead} is down", line)

    def test_when_all_servers_are_down_requests_are_still_sent(self):
        self.upstream.script["/healthz"] = lambda sock, request, reader: sock.sendall(EMPTY.replace(b"200", b"500"))
        proxy = self.start_with('[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n'
                                'health = { path = "/healthz", every = "1h", fall = 1 }\n')
        self.assertIn("is down", proxy.process.stderr.readline())
        with Client(proxy.port) as client:
            self.assertEqual(client.ask("/").status, 200)


class Listeners(ProxyTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="weir-proxy-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "socket")
        self.shop = '[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n'

    @contextlib.contextmanager
    def local(self):
        client = Client.__new__(Client)
        client.sock = socket.socket(socket.AF_UNIX)
        client.sock.settimeout(PATIENCE)
        client.sock.connect(self.path)
        client.reader = Reader(client.sock)
        with client:
            yield client

    def test_several_addresses(self):
        proxy = self.start_with('[[listen]]\naddress = "127.0.0.1:0"\n[[listen]]\naddress = "127.0.0.2:0"\n'
                                f'[[listen]]\naddress = "unix:{self.path}"\n' + self.shop)
        self.assertIn("http://127.0.0.2:", proxy.greeting)
        self.assertIn(f"unix:{self.path} -> ", proxy.greeting)
        with Client(proxy.port) as client, self.local() as local:
            self.assertEqual(client.ask("/").status, 200)
            self.assertEqual(local.ask("/").status, 200)
            self.assertEqual(local.ask("/bytes/1000000").status, 200)
        proxy.stop()
        self.assertFalse(os.path.exists(self.path))

    def test_the_mode_of_a_unix_socket(self):
        def config(mode):
            return (f'[[listen]]\naddress = "127.0.0.1:0"\n[[listen]]\naddress = "unix:{self.path}"\nmode = "{mode}"\n'
                    + self.shop)

        proxy = self.start_with(config("0602"))
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o602)
        with self.local() as local:
            self.assertEqual(local.ask("/").status, 200)
            proxy.write(self.filled(config("0660")))
            proxy.process.send_signal(signal.SIGHUP)
            wait_until(lambda: stat.S_IMODE(os.stat(self.path).st_mode) == 0o660)
            self.assertEqual(local.ask("/").status, 200)

    def test_an_upstream_at_a_unix_socket(self):
        other = socket.socket(socket.AF_UNIX)
        other.bind(self.path)
        other.listen(10)
        self.addCleanup(other.close)

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    sock, _ = other.accept()
                    threading.Thread(target=self.upstream.serve, args=(sock,), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        proxy = self.start_with(f'[[upstream]]\nname = "shop"\nservers = "unix:{self.path}"\n')
        with Client(proxy.port) as client:
            self.assertEqual([client.ask(t).status for t in ("/", "/bytes/1000000", "/")], [200] * 3)
        self.assertEqual(len(self.upstream.requests), 3)

    def test_sockets_from_systemd(self):
        script = ('import os, sys\nfds = [int(f) for f in sys.argv[2:4]]\n'
                  'fds = [os.dup(f) for f in fds]\nfds = [__import__("fcntl").fcntl(f, 0, 20 + f) for f in fds]\n'
                  'for i, f in enumerate(fds): os.dup2(f, 3 + i)\n'
                  'os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="2", LISTEN_FDNAMES=sys.argv[1])\n'
                  'os.execv(sys.argv[4], sys.argv[4:])\n')
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[[listen]]\naddress = "systemd:web"\n' + self.filled(self.shop))
            file.flush()
            for names, used in (("web:other", (0,)), ("other:web", (1,)), ("web:web", (0, 1))):
                with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
                    sockets = [one, two]
                    command = ["python3", "-c", script, names, str(one.fileno()), str(two.fileno()), PROXY, "--config",
                               file.name]
                    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                          pass_fds=(one.fileno(), two.fileno())) as process:
                        try:
                            self.assertIn(", ".join(["systemd:web"] * len(used)) + " -> ", process.stdout.readline())
                            for i in used:
                                with Client(sockets[i].getsockname()[1]) as client:
                                    self.assertEqual(client.ask("/").status, 200, names)
                        finally:
                            process.terminate()
                        self.assertEqual(process.wait(PATIENCE), 0)

    def test_a_socket_that_systemd_did_not_pass(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write('[[listen]]\naddress = "systemd:web"\n' + self.filled(self.shop))
            file.flush()
            result = subprocess.run([PROXY, "--config", file.name], capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((result.returncode, result.stderr),
                             (1, "weir-proxy: cannot listen on systemd:web: systemd passed no socket of that name\n"))


if __name__ == "__main__":
    main()
