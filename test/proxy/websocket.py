#!/usr/bin/env python3
"""WebSocket through the proxy, with the client and the server of python3-websockets."""

import asyncio
import hashlib
import sys
import threading

from support import PATIENCE, ProxyTest, main, pattern, skip, wait_until

try:
    import websockets
except ImportError:
    sys.path.append("/usr/lib/python3/dist-packages")  # of Debian; this may be another Python
    try:
        import websockets
    except ImportError:
        skip("there is no websockets; to mend it, run test/setup")

CONFIG = """
[[upstream]]
name = "shop"
servers = "127.0.0.1:PORT"
[[limit]]
name = "seats"
rule = "3 seats"
queue = "max_waiting 0 patience 0s"
[[limit]]
name = "rate"
rule = "100/1h"
[[route]]
path = "/plain"
upstream = "shop"
[[route]]
upstream = "shop"
limits = ["seats", "rate"]
upgrade = { to = "websocket" }
"""


class Websockets(ProxyTest):
    def setUp(self):
        super().setUp()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.addCleanup(self.loop.call_soon_threadsafe, self.loop.stop)
        self.server = self.run_there(self.listen())
        self.addCleanup(lambda: self.run_there(self.end()))
        port = self.server.sockets[0].getsockname()[1]
        self.proxy = self.start_with(CONFIG.replace("PORT", str(port)))
        self.address = f"ws://127.0.0.1:{self.proxy.port}/chat"

    async def rejected(self):
        """Status and fields of the response. Versions of the library have them in different places."""
        with self.assertRaises(websockets.InvalidHandshake) as rejected:
            await self.connect()
        answer = getattr(rejected.exception, "response", rejected.exception)
        return answer.status_code, answer.headers

    def run_there(self, what):
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(PATIENCE)

    async def listen(self):
        self.seen = []
        return await websockets.serve(self.serve, "127.0.0.1", 0, max_size=None, ping_interval=None)

    async def end(self):
        self.server.close()
        await self.server.wait_closed()

    async def serve(self, peer, *_):
        """Sends messages back. Some words end the connection, each in its own way."""
        try:
            async for message in peer:
                if message == "abort":
                    peer.transport.abort()
                elif message == "close":
                    await peer.close(4001, "as asked")
                elif message == "ping":
                    await (await peer.ping(b"by the server"))
                    await peer.send("pong")
                else:
                    await peer.send(message)
        except websockets.ConnectionClosed:
            pass
        self.seen.append(peer.close_code)

    def connect(self, **how):
        how.setdefault("max_size", None)
        return websockets.connect(self.address, ping_interval=None, **how)

    def in_use(self):
        return self.proxy.numbers()["seats"]["in use"]

    def test_messages_in_both_directions(self):
        async def talk():
            async with self.connect() as one:
                for message in ("hello", b"\0\1\2", "", "ü" * 1000, b"x" * 65536):
                    await one.send(message)
                    self.assertEqual(await one.recv(), message)
                self.assertEqual(self.in_use(), 1)

        self.run_there(talk())
        wait_until(lambda: self.in_use() == 0)
        wait_until(lambda: self.seen == [1000])

    def test_large_messages(self):
        data = pattern(8_000_000)

        async def talk(compression):
            async with self.connect(compression=compression) as one:
                await one.send(data)
                got = await one.recv()
                self.assertEqual(hashlib.sha256(got).digest(), hashlib.sha256(data).digest())

        for compression in (None, "deflate"):
            self.run_there(talk(compression))

    def test_pings_of_either_side(self):
        async def talk():
            async with self.connect() as one:
                await (await one.ping(b"by the client"))
                await one.send("ping")
                self.assertEqual(await one.recv(), "pong")

        self.run_there(talk())

    def test_concurrent_connections_up_to_the_seats(self):
        async def talk():
            ones = [await self.connect() for _ in range(3)]
            status, fields = await self.rejected()
            self.assertEqual((status, fields["Retry-After"]), (503, "1"))
            for n in range(100):
                for i, one in enumerate(ones):
                    await one.send(f"{i} {n}")
                self.assertEqual([await one.recv() for one in ones], [f"{i} {n}" for i in range(3)])
            await ones[0].close()
            await asyncio.get_running_loop().run_in_executor(None, wait_until, lambda: self.in_use() == 2)
            async with self.connect() as again:
                await again.send("x")
                self.assertEqual(await again.recv(), "x")
            for one in ones:
                await one.close()

        self.run_there(talk())
        wait_until(lambda: self.in_use() == 0)

    def test_the_reason_of_a_close_arrives(self):
        async def talk():
            async with self.connect() as one:
                await one.send("close")
                with self.assertRaises(websockets.ConnectionClosed):
                    await one.recv()
                return one.close_code, one.close_reason

        self.assertEqual(self.run_there(talk()), (4001, "as asked"))

        async def close():
            one = await self.connect()
            await one.close(4002, "enough")

        self.run_there(close())
        wait_until(lambda: self.seen == [4001, 4002])

    def test_aborts_of_either_side(self):
        async def talk():
            one = await self.connect()
            await one.send("abort")
            with self.assertRaises(websockets.ConnectionClosedError):
                await one.recv()
            self.assertEqual(one.close_code, 1006)
            two = await self.connect()
            await two.send("x")
            await two.recv()
            two.transport.abort()

        self.run_there(talk())
        wait_until(lambda: self.seen == [1006, 1006])
        wait_until(lambda: self.in_use() == 0)

    def test_a_route_that_does_not_allow_it(self):
        self.address = f"ws://127.0.0.1:{self.proxy.port}/plain"

        async def talk():
            return (await self.rejected())[0]

        self.assertEqual(self.run_there(talk()), 426)  # the status of the server


if __name__ == "__main__":
    main()
