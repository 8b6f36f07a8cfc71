#!/usr/bin/env python3
"""Adaptive seats follow the capacity of the upstream."""

import threading
import time

from support import Client, ProxyTest, main, wait_until


def busy(sock, request, reader):
    sock.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    return True


class Adaptive(ProxyTest):
    def seats_while(self, proxy, path, clients, condition):
        """Waits until the number of seats meets the condition, while `clients` clients request a path."""
        over = threading.Event()

        def work():
            with Client(proxy.port) as client:
                while not over.is_set():
                    client.ask(path)

        threads = [threading.Thread(target=work) for _ in range(clients)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: condition(proxy.numbers()["seats"]["seats"]), f"seats at {path}")
        finally:
            over.set()
            for thread in threads:
                thread.join()

    def test_seats_grow_while_the_upstream_does_not_slow_down(self):
        proxy = self.start("--seats", "adaptive 2..50", "--patience", "20s")
        self.assertEqual(proxy.numbers()["seats"]["seats"], 4)
        self.seats_while(proxy, "/sleep/100", 45, lambda seats: seats > 20)
        self.assertLessEqual(self.upstream.most, 50)

    def test_seats_follow_the_workers_of_the_upstream(self):
        workers = threading.Semaphore(16)

        def work(sock, request, reader):
            with workers:
                time.sleep(0.02)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return True

        self.upstream.script["/work"] = work
        proxy = self.start("--seats", "adaptive", "--patience", "20s")
        self.seats_while(proxy, "/work", 40, lambda seats: seats >= 14)
        for _ in range(14):
            workers.acquire()
        self.seats_while(proxy, "/work", 40, lambda seats: seats <= 4)

    def test_seats_shrink_when_the_upstream_responds_503(self):
        self.upstream.script["/busy"] = busy
        proxy = self.start("--seats", "adaptive")
        self.seats_while(proxy, "/busy", 4, lambda seats: seats < 4)

    def test_seats_shrink_when_the_upstream_is_not_reachable(self):
        proxy = self.start("--seats", "adaptive 2..50")
        with Client(proxy.port) as client:  # afterwards the proxy has reached the upstream once
            self.assertEqual(client.ask("/").status, 200)
        self.upstream.close()
        self.seats_while(proxy, "/", 4, lambda seats: seats < 4)

    def test_a_client_that_disconnects_does_not_change_the_seats(self):
        held = threading.Event()

        def hold(sock, request, reader):
            held.wait(20)
            return False

        self.upstream.script["/hold"] = hold
        proxy = self.start("--seats", "adaptive 2..50", "--abort-on-hang-up")
        # This lasts longer than a window. No request gets a response, and all seats are in use.
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            clients = [Client(proxy.port) for _ in range(4)]
            for client in clients:
                client.send("GET /hold HTTP/1.1\r\nHost: test\r\n\r\n")
            wait_until(lambda: proxy.numbers()["seats"]["in use"] == 4)
            for client in clients:
                client.abort()
            wait_until(lambda: proxy.numbers()["seats"]["in use"] == 0)
        held.set()
        self.assertEqual(proxy.numbers()["seats"]["seats"], 4)


if __name__ == "__main__":
    main()
