#!/usr/bin/env python3
"""A weir-proxy as the agent of a machine, on a real Redis server, and the proxies that ask it."""

import os
import re
import signal
import socket
import stat
import subprocess
import tempfile

from admin_support import request, stats
from store_servers import Redis
from support import PATIENCE, PROXY, Client, ProxyTest, in_parallel, main, wait_until

SHOP = '[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n'
ADMIN = '[admin]\naddress = "127.0.0.1:0"\n'


def store(name, url):
    return f'[[store]]\nname = "{name}"\nurl = "{url}"\n'


def limit(rule, name="rate", more=""):
    """A limit whose times end before no reply, however busy the machine is."""
    return (f'[[limit]]\nname = "{name}"\nrule = "{rule}"\nstore = "here"\ntimeout = "5s"\n'
            f'queue = "patience 15s"\n{more}')


class Agent:
    """A weir-proxy with an agent, and without clients unless `more` has some."""

    def __init__(self, url, more="", keys=""):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-proxy-agent-")
        self.file = os.path.join(self.folder.name, "weir.toml")
        self.path = os.path.join(self.folder.name, "agent.sock")
        self.write(url, more, keys)
        self.start()

    def write(self, url, more="", keys=""):
        with open(self.file, "w") as file:
            file.write(ADMIN + store("redis", url) + f'[agent]\npath = "{self.path}"\nstore = "redis"\n{keys}' + more)

    def start(self):
        self.process = subprocess.Popen([PROXY, "--config", self.file], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.greeting = self.process.stdout.readline()
        assert self.greeting, self.process.communicate()

    def stop(self, which=signal.SIGTERM):
        self.process.send_signal(which)
        _, said = self.process.communicate(timeout=PATIENCE)
        return said

    def close(self):
        if self.process.returncode is None:
            self.stop(signal.SIGKILL)
        self.folder.cleanup()


class Agents(ProxyTest):
    def setUp(self):
        super().setUp()
        self.redis = Redis()
        self.addCleanup(self.redis.close)

    def have(self, *options, **more):
        agent = Agent(self.redis.url, *options, **more)
        self.addCleanup(agent.close)
        return agent

    def proxy_of(self, agent, limits, more=""):
        return self.start_with(store("here", f"agent:{agent.path}") + SHOP + limits + more)

    def statuses(self, proxies, clients, each):
        found = []

        def work(i):
            with Client(proxies[i % len(proxies)].port) as client:
                for _ in range(each):
                    found.append(client.ask("/").status)

        in_parallel(clients, work)
        return found

    def test_a_slow_rate_is_exact(self):
        agent = self.have()
        proxies = [self.proxy_of(agent, limit("20/1h")) for _ in range(2)]
        found = self.statuses(proxies, 12, 5)
        self.assertEqual((found.count(200), found.count(429)), (20, 40))
        now = stats(agent)["agent"]
        self.assertEqual((now["path"], now["connections"], now["limits"]), (agent.path, 2, 0))
        self.assertTrue(0 < now["grants"] <= min(20, now["questions"]), now)  # a question may be for several requests

    def test_a_fast_rate_is_fetched_ahead(self):
        agent = self.have()
        proxies = [self.proxy_of(agent, limit("400/1s burst 400")) for _ in range(2)]
        before = self.questions_at_redis()
        self.assertEqual(self.statuses(proxies, 4, 50), [200] * 200)
        self.assertLess(self.questions_at_redis() - before, 100)
        metrics = request(agent, "/metrics").body.decode()
        found = {name: int(n) for name, n in re.findall(r"^weir_agent_(\w+) (\d+)$", metrics, re.MULTILINE)}
        self.assertEqual((found["connections_open"], found["limits"]), (2, 1))
        self.assertTrue(50 <= found["grants_total"] <= min(200, found["questions_total"]), found)
        said = agent.stop()
        self.assertIn("weir-proxy: agent: 2 processes, 1 limits ahead; ", said)

    def questions_at_redis(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(self.redis.socket))
            s.sendall(b"INFO commandstats\r\n")
            found = s.makefile("rb")
            text = found.read(int(found.readline()[1:])).decode()
        calls = [line for line in text.splitlines() if line.startswith(("cmdstat_evalsha:", "cmdstat_fcall:"))]
        return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in calls)

    def test_a_limit_by_user(self):
        agent = self.have()
        proxies = [self.proxy_of(agent, limit("2/1h burst 2", more='key = "header X-User"\n')) for _ in range(2)]
        with Client(proxies[0].port) as one, Client(proxies[1].port) as two:
            for user in ("ann", "bob"):
                found = [c.ask("/", fields=f"X-User: {user}\r\n").status for c in (one, two, one, two)]
                self.assertEqual(found, [200, 200, 429, 429], user)

    def test_a_proxy_may_ask_its_own_agent(self):
        folder = tempfile.TemporaryDirectory(prefix="weir-proxy-agent-")
        self.addCleanup(folder.cleanup)
        path = os.path.join(folder.name, "agent.sock")
        proxy = self.start_with(store("redis", self.redis.url) + store("here", f"agent:{path}") + SHOP
                                + f'[agent]\npath = "{path}"\nstore = "redis"\n' + limit("3/1h") + ADMIN)
        self.assertIn(f"; agent {path} for store `redis`; status page ", proxy.greeting)
        self.assertEqual(self.statuses([proxy], 1, 5), [200] * 3 + [429] * 2)
        self.assertFalse(proxy.stop().count("warning"))
        self.assertFalse(os.path.exists(path))

    def test_the_end_of_the_agent_is_an_outage(self):
        agent = self.have()
        closed, opened = (self.proxy_of(agent, limit("1000/1s burst 1000", more=f'on_failure = "{mode}"\n'))
                          for mode in ("closed", "open"))
        with Client(closed.port) as one, Client(opened.port) as two:
            self.assertEqual((one.ask("/").status, two.ask("/").status), (200, 200))
            agent.stop(signal.SIGKILL)
            wait_until(lambda: one.ask("/").status == 503)
            self.assertGreaterEqual(int(one.ask("/").get("retry-after")), 1)
            self.assertEqual(two.ask("/").status, 200)
            agent.start()  # the file of the killed agent is in its way
            wait_until(lambda: one.ask("/").status == 200)
        self.assertIn("the store is available again", closed.stop())

    def test_without_an_agent_the_proxy_starts_and_warns(self):
        agent = self.have()
        agent.stop()
        self.assertFalse(os.path.exists(agent.path))
        proxy = self.proxy_of(agent, limit("1000/1s burst 1000"))
        with Client(proxy.port) as client:
            wait_until(lambda: client.ask("/").status == 503)
            agent.start()
            wait_until(lambda: client.ask("/").status == 200)
        self.assertIn(f"weir-proxy: warning: the store is unavailable: {agent.path}: No such file or directory\n",
                      proxy.stop())

    def test_an_outage_of_its_store_reaches_the_proxies(self):
        agent = self.have()
        proxy = self.proxy_of(agent, limit("1000/1s burst 1000"))
        with Client(proxy.port) as client:
            wait_until(lambda: client.ask("/").status == 200)
            self.redis.kill()
            wait_until(lambda: client.ask("/").status == 503)
            self.redis.start()
            wait_until(lambda: client.ask("/").status == 200)

    def test_the_rights_of_its_socket(self):
        for keys, mode in (("", 0o600), ('mode = "0666"\n', 0o666)):
            agent = self.have(keys=keys)
            self.assertEqual(stat.S_IMODE(os.stat(agent.path).st_mode), mode)

    def test_a_path_that_another_agent_uses(self):
        agent = self.have()
        ended = subprocess.run([PROXY, "--config", agent.file], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(ended.returncode, 1)
        self.assertIn(f"agent: cannot listen at `{agent.path}`: ", ended.stderr)
        proxy = self.proxy_of(agent, limit("1/1h"))
        self.assertEqual(self.statuses([proxy], 1, 2), [200, 429])

    def test_a_folder_that_does_not_exist(self):
        agent = self.have()
        agent.stop()
        with open(agent.file) as file:
            text = file.read().replace("agent.sock", "nowhere/agent.sock")
        with open(agent.file, "w") as file:
            file.write(text)
        ended = subprocess.run([PROXY, "--config", agent.file], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("nowhere/agent.sock`: No such file or directory", ended.stderr)

    def test_a_reload_keeps_the_agent(self):
        agent = self.have(more='[[upstream]]\nname = "shop"\nservers = "127.0.0.1:1"\n'
                               '[[listen]]\naddress = "127.0.0.1:0"\n')
        proxy = self.proxy_of(agent, limit("3/1h"))
        self.assertEqual(self.statuses([proxy], 1, 1), [200])
        shop = '[[upstream]]\nname = "shop"\nservers = "127.0.0.1:2"\n[[listen]]\naddress = "127.0.0.1:0"\n'
        for url, keys, warns in ((self.redis.url, "", False), (self.redis.url, 'lease = "50ms"\n', True),
                                 ("redis://127.0.0.1:1", "", True), (self.redis.url, "", False)):
            agent.write(url, shop, keys)
            agent.process.send_signal(signal.SIGHUP)
            said = []
            wait_until(lambda: said.append(agent.process.stderr.readline()) or "reloaded" in said[-1])
            self.assertEqual("a change of [agent], or of its store, applies at the next start" in "".join(said), warns)
        self.assertEqual(self.statuses([proxy], 1, 3), [200, 200, 429])

    def test_a_drain_serves_processes_until_the_end(self):
        agent = self.have()
        proxy = self.proxy_of(agent, limit("3/1h"))
        self.assertEqual(self.statuses([proxy], 1, 1), [200])
        agent.stop()
        self.assertEqual(agent.process.returncode, 0)
        self.assertFalse(os.path.exists(agent.path))


if __name__ == "__main__":
    main()
