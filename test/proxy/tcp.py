#!/usr/bin/env python3
"""Listeners with `tcp`: limits, refusals, ends and bytes of connections of any protocol, in front of real servers."""

import contextlib
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from admin_support import stats
from support import (KEEPS_MEMORY, OVER_TLS, PATIENCE, Client, Proxy, Upstream, full_backlog, in_parallel, main, pattern,
                     plain_only, rejects, reset, wait_until)
from ports import reserve

DATABASE = '[[upstream]]\nname = "database"\nservers = [SERVERS]\n'


def limit(rule, queue="patience 0s", more="", name="connections"):
    return f'[[limit]]\nname = "{name}"\nrule = "{rule}"\nqueue = "{queue}"\n{more}'


def config(servers, limits="", names=(), more="", top="", upstream=""):
    listen = f'[[listen]]\naddress = "127.0.0.1:0"\n[listen.tcp]\nupstream = "database"\nlimits = {list(names)}\n{more}'
    ports = [server.port if isinstance(server, Server) else server for server in servers]
    database = DATABASE.replace("SERVERS", ", ".join(f'"127.0.0.1:{port}"' for port in ports))
    return f'{top}[admin]\naddress = "127.0.0.1:0"\n{database}{upstream}{limits}{listen}'


class Server:
    """Accepts connections for the test."""

    def __init__(self, case, receive_buffer=None):
        self.reservation = reserve(0)
        self.port = self.reservation.getsockname()[1]
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if receive_buffer:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.listener.bind(("127.0.0.1", self.port))
        self.listener.listen(4096)
        self.listener.settimeout(PATIENCE)
        case.addCleanup(self.listener.close)
        self.case = case

    def accept(self):
        sock, _ = self.listener.accept()
        sock.settimeout(PATIENCE)
        self.case.addCleanup(sock.close)
        return sock

    def is_asked(self):
        return bool(select.select([self.listener], [], [], 0)[0])


def receive_all(sock):
    pieces = []
    while piece := sock.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def exactly(sock, n):
    data = b""
    while len(data) < n:
        piece = sock.recv(n - len(data))
        assert piece, f"the connection ended after {data!r}"
        data += piece
    return data


def is_reset(sock):
    poll = select.poll()
    poll.register(sock, 0)
    return any(events & select.POLLERR for _, events in poll.poll(0))


def send_until_cut(sock):
    with contextlib.suppress(OSError):
        while True:
            sock.sendall(pattern(65536))


def memory(proxy):
    """Resident, in KiB."""
    with open(f"/proc/{proxy.process.pid}/status") as status:
        return int(status.read().split("VmRSS:")[1].split()[0])


class TcpTest(unittest.TestCase):
    def proxy(self, servers, **how):
        proxy = Proxy(config=config(servers, **how))
        self.addCleanup(proxy.stop)
        for server in servers:
            if isinstance(server, Server):
                server.accept().close()  # at its start the proxy tries each server
        return proxy

    def client(self, proxy, **how):
        client = Client(proxy.port, **how)
        self.addCleanup(client.close)
        return client

    def assert_reset(self, proxy, **how):
        with self.assertRaises(ConnectionResetError):  # already while it connects, or later
            self.client(proxy, **how).sock.recv(1)

    def counts(self, proxy):
        return stats(proxy)["tcp"][0]


class Bytes(TcpTest):
    def test_pass_in_both_directions_at_once(self):
        server = Server(self)
        proxy = self.proxy([server])
        client, data = self.client(proxy), pattern(20_000_000)
        other = server.accept()

        def send(sock):
            sock.sendall(data)
            sock.shutdown(socket.SHUT_WR)

        senders = [threading.Thread(target=send, args=(sock,)) for sock in (client.sock, other)]
        for t in senders:
            t.start()
        got = []
        reader = threading.Thread(target=lambda: got.append(receive_all(client.sock)))
        reader.start()
        self.assertEqual(receive_all(other), data)
        reader.join()
        self.assertEqual(got[0], data)
        for t in senders:
            t.join()
        wait_until(lambda: self.counts(proxy)["served"] == 1)
        self.assertEqual((self.counts(proxy)["bytes_up"], self.counts(proxy)["bytes_down"]), (len(data), len(data)))

    def test_stay_whole_wherever_the_end_of_a_direction_cuts_them(self):
        """The end is sent with or after any part of the data, in both directions."""
        self.stay_whole("1MB/s burst 20kB", pattern(100_000),
                        (0, 1, 17_440, 20_000, 20_001, 32_767, 32_768, 32_769, 65_536, 99_999, 100_000))

    def test_stay_whole_with_a_cut_at_each_byte(self):
        self.stay_whole("100kB/s burst 20B", pattern(64), range(65))

    def stay_whole(self, rate, data, cuts):
        server = Server(self)
        bandwidth = f'[[limit]]\nname = "bytes"\nbandwidth = {{ up = "{rate}", down = "{rate}" }}\n'
        proxy = self.proxy([server], limits=bandwidth, names=["bytes"])
        for cut in cuts:
            for up in (True, False):
                with self.subTest(cut=cut, up=up):
                    client = self.client(proxy)
                    other = server.accept()
                    sender, receiver = (client.sock, other) if up else (other, client.sock)
                    sender.sendall(data[:cut])
                    time.sleep(0.002)
                    sender.sendall(data[cut:])
                    sender.shutdown(socket.SHUT_WR)
                    self.assertEqual(receive_all(receiver), data)
                    receiver.sendall(b"thanks")
                    receiver.shutdown(socket.SHUT_WR)
                    self.assertEqual(receive_all(sender), b"thanks")

    def test_pass_at_the_rate_of_the_bandwidth_of_a_client(self):
        server = Server(self)
        bandwidth = '[[limit]]\nname = "bytes"\nkey = "client"\nbandwidth = { down = "2MB/s" }\n'
        proxy = self.proxy([server], limits=bandwidth, names=["bytes"])
        client = self.client(proxy)
        other = server.accept()
        began = time.monotonic()
        threading.Thread(target=lambda: (other.sendall(pattern(1_000_000)), other.close())).start()
        self.assertEqual(receive_all(client.sock), pattern(1_000_000))
        self.assertGreaterEqual(time.monotonic() - began, 0.9 / 2)

    def test_wait_for_a_peer_that_never_reads(self):
        server = Server(self)
        proxy = self.proxy([server], limits=limit("1 seats"), names=["connections"], more='idle = "3s"\n')
        client = self.client(proxy, receive_buffer=4096)
        other = server.accept()
        other.settimeout(0.5)
        sent = 0
        with contextlib.suppress(socket.timeout, ConnectionResetError):
            while sent < 100_000_000:
                sent += other.send(pattern(65536))
        self.assertLess(sent, 50_000_000)
        if not KEEPS_MEMORY:
            self.assertLess(memory(proxy), 100_000)
        # Without movement the idle limit ends the connection, and its seat is free.
        wait_until(lambda: self.counts(proxy)["active"] == 0)
        self.client(proxy).send("next")
        self.assertEqual(exactly(server.accept(), 4), b"next")

    def test_a_reset_reaches_the_other_side(self):
        server = Server(self)
        proxy = self.proxy([server])
        for up in (True, False):
            client = self.client(proxy)
            other = server.accept()
            wait_until(lambda: self.counts(proxy)["active"] == 1)
            if up:
                client.abort()
                self.assertRaises(ConnectionResetError, other.recv, 1)
            else:
                reset(other)
                self.assertRaises(ConnectionResetError, client.sock.recv, 1)
            wait_until(lambda: self.counts(proxy)["active"] == 0)

    def test_a_reset_reaches_the_other_side_after_the_end_of_a_direction(self):
        server = Server(self)
        proxy = self.proxy([server])
        for up in (True, False):
            client = self.client(proxy)
            other = server.accept()
            one, two = (client.sock, other) if up else (other, client.sock)
            time.sleep(0.5)  # the connection is idle
            one.shutdown(socket.SHUT_WR)
            self.assertEqual(two.recv(1), b"")
            reset(one)
            wait_until(lambda: self.counts(proxy)["active"] == 0)
            wait_until(lambda: is_reset(two))

    def test_are_no_whole_if_the_proxy_ends_the_connection(self):
        """A side that has got a part of the bytes does not take it for all of them."""
        def stop(proxy):
            proxy.process.send_signal(signal.SIGTERM)

        def leave_the_file(proxy):
            proxy.write(proxy.config.replace(f":{server.port}", f":{Server(self).port}"))
            proxy.process.send_signal(signal.SIGHUP)

        slow = '[[limit]]\nname = "bytes"\nbandwidth = { down = "20kB/s burst 16kB" }\n'
        data = pattern(300_000)
        for end in (stop, leave_the_file):
            with self.subTest(end.__name__):
                server = Server(self)
                proxy = self.proxy([server], limits=slow, names=["bytes"], top='drain = "500ms"\n')
                client = self.client(proxy)
                other = server.accept()
                other.sendall(data)
                other.close()
                exactly(client.sock, 16_000)
                end(proxy)
                self.assertRaises(ConnectionResetError, receive_all, client.sock)
        with self.subTest("idle"):  # the client reads late
            server = Server(self)
            proxy = self.proxy([server], more='idle = "3s"\n')
            client = self.client(proxy, receive_buffer=4096)
            other = server.accept()
            threading.Thread(target=send_until_cut, args=(other,), daemon=True).start()
            wait_until(lambda: self.counts(proxy)["served"] == 1)
            self.assertRaises(ConnectionResetError, receive_all, client.sock)

    @plain_only("the end of an idle connection is not announced")
    def test_are_whole_if_the_connection_was_idle(self):
        server = Server(self)
        proxy = self.proxy([server], more='idle = "3s"\n')
        client = self.client(proxy)
        other = server.accept()
        other.sendall(b"all")
        self.assertEqual(receive_all(client.sock), b"all")


class Limits(TcpTest):
    def test_a_rejected_connection_is_reset(self):
        server = Server(self)
        proxy = self.proxy([server], limits=limit("1 seats"), names=["connections"])
        first = self.client(proxy)
        server.accept()
        self.assert_reset(proxy)
        self.assertFalse(server.is_asked())
        first.close()

    def test_a_rejected_client_reads_the_refusal_though_it_sent_bytes(self):
        server = Server(self)
        proxy = self.proxy(
            [server], limits=limit("1 seats"), names=["connections"], more=r'refusal = "-ERR too many\r\n"' + "\n"
        )
        self.client(proxy)
        server.accept()
        for _ in range(20):
            client = self.client(proxy)
            client.send(b"x" * 50_000)
            time.sleep(0.002)
            with contextlib.suppress(OSError):
                client.send(b"more")
            self.assertEqual(receive_all(client.sock), b"-ERR too many\r\n")
            client.close()
        wait_until(lambda: stats(proxy)["connections"]["open"] == 1)

    def test_addresses_have_limits_of_their_own(self):
        server = Server(self)
        proxy = self.proxy(
            [server], limits=limit("1 seats", more='key = "client"\n'), names=["connections"]
        )
        self.client(proxy)
        server.accept()
        self.client(proxy, source="127.0.0.2").send("a")
        self.assertEqual(exactly(server.accept(), 1), b"a")
        self.assert_reset(proxy, source="127.0.0.2")

    @plain_only("the example has no TLS")
    def test_a_listener_before_a_listener_for_http_limits_the_connections_of_its_clients(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        upstream = Upstream()
        self.addCleanup(upstream.close)
        with open(os.path.join(os.path.dirname(__file__), "../../src/docs/how-to/limit-per-client.md")) as page:
            text = re.search(r"```toml\n(\[\[listen\]\]\naddress = \"0.*?)```", page.read(), re.DOTALL)[1]
        for before, after in (("0.0.0.0:8080", "127.0.0.1:0"), ("/run/weir-proxy", folder.name),
                              ("127.0.0.1:9000", f"127.0.0.1:{upstream.port}"), ("100 seats", "2 seats")):
            text = text.replace(before, after)
        proxy = Proxy(config='[admin]\naddress = "127.0.0.1:0"\n' + text)
        self.addCleanup(proxy.stop)
        idle = [self.client(proxy), self.client(proxy)]
        self.assertEqual(idle[1].ask("/").status, 200)
        self.assert_reset(proxy)
        self.assertEqual(self.client(proxy, source="127.0.0.2").ask("/").status, 200)
        self.assertEqual([dict(r.fields)["x-forwarded-for"] for r in upstream.requests], ["127.0.0.1", "127.0.0.2"])
        self.assertEqual(self.counts(proxy)["rejected"], 1)
        idle[0].close()
        wait_until(lambda: self.counts(proxy)["active"] == 2)
        self.assertEqual(self.client(proxy).ask("/").status, 200)

    def test_connections_wait_in_the_order_of_their_arrival(self):
        server = Server(self)
        proxy = self.proxy([server], limits=limit("1 seats", "patience 20s"), names=["connections"])
        first = self.client(proxy)
        now = server.accept()
        waiting = []
        for i in range(10):
            waiting.append(self.client(proxy))
            waiting[-1].send(f"{i}")
            wait_until(lambda: self.counts(proxy)["waiting"] == i + 1)
        first.close()
        for i, client in enumerate(waiting):
            now.close()
            now = server.accept()
            self.assertEqual(exactly(now, 1), b"%d" % i)
            client.close()

    @plain_only("its clients have no TLS")
    def test_many_that_wait_and_leave_take_nothing(self):
        server = Server(self)
        proxy = self.proxy([server], limits=limit("1 seats", "max_waiting 100000 patience 60s"), names=["connections"])
        first = self.client(proxy)
        other = server.accept()
        for which in range(3):
            crowd = []
            for i in range(1000):
                crowd.append(socket.create_connection(("127.0.0.1", proxy.port)))
                if i % 2:
                    crowd[-1].sendall(b"hello")
            wait_until(lambda: self.counts(proxy)["waiting"] == len(crowd))
            for i, sock in enumerate(crowd):
                if which == 1 and i % 3 == 0:
                    reset(sock)
                sock.close()
            wait_until(lambda: self.counts(proxy)["waiting"] == 0)
            before = memory(proxy) if which == 0 else before  # the first crowd leaves memory for the next ones
        wait_until(lambda: stats(proxy)["connections"]["open"] == 1)
        self.assertEqual(self.counts(proxy)["disconnected"], 3000)
        self.assertEqual(stats(proxy)["limits"][0]["in_use"], 1)
        if not KEEPS_MEMORY:
            wait_until(lambda: memory(proxy) < before + 4000)
        first.close()
        other.close()
        self.client(proxy).send("next")
        self.assertEqual(exactly(server.accept(), 4), b"next")


@unittest.skipIf(KEEPS_MEMORY, "a sanitizer keeps freed memory")
class Memory(TcpTest):
    def test_an_idle_pair_takes_little(self):
        server = Server(self)
        proxy = self.proxy([server], top="threads = 1\n")
        pairs = []

        def add(n):
            for _ in range(n):
                client = self.client(proxy)
                other = server.accept()
                for sender, receiver in ((client.sock, other), (other, client.sock)):
                    sender.sendall(b"x" * 10_000)
                    exactly(receiver, 10_000)
                pairs.append((client, other))

        add(50)
        time.sleep(1.5)  # the buffers of silent connections return their memory after a second
        before = memory(proxy)
        add(300)
        wait_until(lambda: memory(proxy) - before < 300 * (30 if OVER_TLS else 6))
        for client, other in pairs:
            client.close()
            other.close()


class Servers(TcpTest):
    def test_a_dead_server_is_replaced(self):
        dead, live = reserve(0), Server(self)
        self.addCleanup(dead.close)
        proxy = self.proxy([dead.getsockname()[1], live])
        for _ in range(4):
            self.client(proxy).send("a")
            self.assertEqual(exactly(live.accept(), 1), b"a")

    def test_without_a_server_the_client_is_reset(self):
        dead = reserve(0)
        self.addCleanup(dead.close)
        proxy = self.proxy([dead.getsockname()[1]], limits=limit("1/1h"), names=["connections"])
        for _ in range(3):
            self.assert_reset(proxy)
        self.assertEqual(self.counts(proxy)["failed"], 3)

    def test_a_client_that_leaves_while_the_connect_hangs_frees_its_seat(self):
        with full_backlog() as (listener, _):
            proxy = self.proxy([listener.getsockname()[1]], limits=limit("1 seats"), names=["connections"],
                               top='[timeouts]\nupstream = "20s"\n')
            client, began = self.client(proxy), time.monotonic()
            wait_until(lambda: proxy.numbers()["connections"]["in use"] == 1)
            client.abort()
            wait_until(lambda: proxy.numbers()["connections"]["in use"] == 0)
            self.assertLess(time.monotonic() - began, 10)

    def test_a_shutdown_lets_connections_end(self):
        server = Server(self)
        proxy = self.proxy([server], top='drain = "30s"\n')
        client = self.client(proxy)
        other = server.accept()
        proxy.process.send_signal(signal.SIGTERM)
        wait_until(lambda: stats(proxy)["draining"])
        client.send("still")
        self.assertEqual(exactly(other, 5), b"still")
        other.close()
        client.close()
        self.assertEqual(proxy.process.wait(PATIENCE), 0)

    def test_a_shutdown_ends_connections_after_the_drain(self):
        server = Server(self)
        proxy = self.proxy([server], top='drain = "100ms"\n')
        client = self.client(proxy)
        server.accept()
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(client.ended(), b"")
        self.assertEqual(proxy.process.wait(PATIENCE), 0)

    def test_a_reload_keeps_connections(self):
        server = Server(self)
        proxy = self.proxy([server], limits=limit("1 seats"), names=["connections"])
        client = self.client(proxy)
        other = server.accept()
        proxy.write(proxy.config.replace("1 seats", "2 seats"))
        proxy.process.send_signal(signal.SIGHUP)
        self.assertIn("configuration reloaded", proxy.process.stderr.readline())
        self.client(proxy).send("second")
        self.assertEqual(exactly(server.accept(), 6), b"second")
        client.send("first")
        self.assertEqual(exactly(other, 5), b"first")
        self.assert_reset(proxy)


@plain_only("its client has no TLS")
@unittest.skipUnless(shutil.which("redis-server") and shutil.which("redis-cli"), "redis is not installed")
class Redis(TcpTest):
    def setUp(self):
        with reserve(0) as free:
            self.port = free.getsockname()[1]
            self.server = subprocess.Popen(
                ["redis-server", "--port", str(self.port), "--save", "", "--bind", "127.0.0.1"], stdout=subprocess.DEVNULL
            )
            self.addCleanup(self.server.wait)
            self.addCleanup(self.server.kill)
            wait_until(lambda: socket.socket().connect_ex(("127.0.0.1", self.port)) == 0)

    def ask(self, proxy, *words):
        done = subprocess.run(["redis-cli", "-p", str(proxy.port), *words], capture_output=True, text=True, timeout=PATIENCE)
        return (done.stdout + done.stderr).strip()

    def test_its_client(self):
        proxy = self.proxy(
            [self.port], limits=limit("1 seats"), names=["connections"], more=r'refusal = "-ERR too many connections\r\n"' + "\n"
        )
        self.assertEqual(self.ask(proxy, "set", "a", "1"), "OK")
        wait_until(lambda: self.counts(proxy)["active"] == 0)
        self.assertEqual(self.ask(proxy, "get", "a"), "1")
        wait_until(lambda: self.counts(proxy)["active"] == 0)
        subscriber = self.client(proxy)
        subscriber.send("SUBSCRIBE news\r\n")
        subscriber.reader.until(b":1\r\n")
        self.assertIn("ERR too many connections", self.ask(proxy, "get", "a"))


NGINX = """
daemon off; pid FOLDER/pid; error_log FOLDER/error; worker_processes 1;
events {}
http {
    access_log off; client_body_temp_path FOLDER/1; proxy_temp_path FOLDER/2; fastcgi_temp_path FOLDER/3;
    uwsgi_temp_path FOLDER/4; scgi_temp_path FOLDER/5;
    server { listen 127.0.0.1:PORT proxy_protocol; return 200 "$proxy_protocol_addr $proxy_protocol_port $proxy_protocol_server_port"; }
}
"""


@unittest.skipUnless(shutil.which("nginx"), "nginx is not installed")
class Nginx(TcpTest):
    def test_reads_the_proxy_protocol(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="weir-tcp-"))
        port = self.enterContext(reserve(0)).getsockname()[1]
        with open(f"{folder}/conf", "w") as file:
            file.write(NGINX.replace("FOLDER", folder).replace("PORT", str(port)))
        nginx = subprocess.Popen(["nginx", "-c", f"{folder}/conf"], stderr=subprocess.DEVNULL)
        self.addCleanup(nginx.wait)
        self.addCleanup(nginx.terminate)
        wait_until(lambda: not rejects(port))
        for version in (1, 2):
            proxy = self.proxy([port], upstream=f"proxy_protocol = {version}\n")
            client = self.client(proxy, source="127.0.0.9")
            found = client.ask().body.decode()
            self.assertEqual(found, f"127.0.0.9 {client.sock.getsockname()[1]} {proxy.port}")


SCRIPTS = next((p for p in ("/usr/share/mysql", "/usr/share/mariadb") if os.path.exists(f"{p}/mysql_system_tables.sql")), None)


@plain_only("its client has no TLS")
@unittest.skipUnless(shutil.which("mariadbd") and SCRIPTS, "mariadb is not installed")
class MariaDB(TcpTest):
    def test_its_client(self):
        folder = self.enterContext(tempfile.TemporaryDirectory(prefix="weir-tcp-"))
        port = self.enterContext(reserve(0)).getsockname()[1]
        for name in ("data", "tmp"):
            os.mkdir(f"{folder}/{name}")
        command = ["mariadbd", "--no-defaults", "--user=root", "--skip-name-resolve", f"--datadir={folder}/data",
                   f"--tmpdir={folder}/tmp", f"--socket={folder}/s", f"--port={port}", "--bind-address=127.0.0.1",
                   "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M"]
        bootstrap = "create database mysql;\nuse mysql;\nset @auth_root_socket = null;\n"
        for name in ("mysql_system_tables.sql", "mysql_system_tables_data.sql"):
            with open(f"{SCRIPTS}/{name}") as script:
                bootstrap += script.read()
        bootstrap += "\ncreate database weir;\n"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([*command, "--bootstrap"], input=bootstrap, text=True, check=True, **quiet)
        server = subprocess.Popen(command, **quiet)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        wait_until(lambda: not rejects(port))
        proxy = self.proxy([port], limits=limit("2 seats", "patience 10s"), names=["connections"])
        self.assertIn(b"MariaDB", self.client(proxy).sock.recv(1000))  # the server speaks first
        self.check_a_store(self.proxy([port], limits=limit("10 seats"), names=["connections"]).port)
        client = shutil.which("mariadb") or shutil.which("mysql")
        if not client:
            self.skipTest("the client of mariadb is not installed; a store of weir-proxy was its client")
        ask = [client, "--no-defaults", "-h127.0.0.1", f"-P{proxy.port}", "-uroot", "--skip-ssl", "-NBe"]
        self.assertEqual(subprocess.check_output([*ask, "select 6 * 7"], text=True).strip(), "42")
        # 6 clients with 0.2 s each and 2 seats take three times that.
        wait_until(lambda: self.counts(proxy)["active"] <= 1)
        began = time.monotonic()
        in_parallel(6, lambda _: subprocess.check_output([*ask, "select sleep(0.2)"]))
        self.assertGreaterEqual(time.monotonic() - began, 0.6)


    def check_a_store(self, port):
        """Two proxies share a rate in the database, to which they connect through the port."""
        url = f"mysql://root@127.0.0.1:{port}/weir"
        upstream = Upstream()
        self.addCleanup(upstream.close)
        statuses = []
        for _ in range(2):
            sharer = Proxy("--upstream", f"127.0.0.1:{upstream.port}", "--store", url, "--rate", "3/1h", "--threads", 1)
            self.addCleanup(sharer.stop)
            with Client(sharer.port) as client:
                statuses += [client.ask().status for _ in range(2)]
        self.assertEqual(statuses, [200, 200, 200, 429])


if __name__ == "__main__":
    main(at_once=8)
