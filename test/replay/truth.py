#!/usr/bin/env python3
"""Replays the access log of weir-proxy under wrk: the replay rejects as many requests as the proxy rejected.

The numbers differ slightly for two reasons. The log has milliseconds, so the order within a millisecond is unknown. A
request whose patience ends in the millisecond of its grant may be granted here and rejected there. At its end wrk
disconnects all waiting requests: the proxy drops these requests, but the replay does not know of it."""

import os
import re
import shutil
import signal
import subprocess

from support import PATIENCE, ReplayTest, main, skip

PROXY = os.environ.get("WEIR_PROXY", "build/release/src/weir-proxy")
CONNECTIONS = 40
ATTEMPTS = 3

# Clients that pause between requests: at most about 130 requests per second, since the demo takes 300 ms per request.
PAUSES = "function delay() return math.random(20, 180) end\n"

LIMITS = [
    ["--rate", "80/1s", "--patience", "100ms"],
    ["--rate", "60/1s burst 20", "--patience", "0s"],
    ["--seats", "20", "--patience", "150ms"],
    ["--per-client-rate", "70/1s", "--seats", "19", "--patience", "120ms", "--queue", "12"],
    # Both limits reject requests, and neither loses permits when the other rejects.
    ["--per-client-rate", "60/1s burst 5", "--seats", "15", "--patience", "0s"],
    ["--rate", "70/1s burst 5", "--seats", "16", "--patience", "200ms", "--queue", "9"],
]


# A configuration for an upstream that rejects no request: a demo with 1000 seats.
CONFIGURATION = """
access_log = "{log}"
threads = 1
[[listen]]
address = "127.0.0.1:0"
[[upstream]]
name = "demo"
servers = ["{demo}"]
[[limit]]
name = "seats"
rule = "19 seats"
queue = "max_waiting 15 patience 150ms"
[[limit]]
name = "client"
rule = "25/1s burst 5"
key = ["client", "path 1"]
queue = "max_waiting 8 patience 120ms"
[[limit]]
name = "dry_run"
rule = "10/1s"
dry_run = true
[[route]]
path = "/none"
respond = 403
[[route]]
path = "/drinks"
upstream = "demo"
limits = ["seats", "dry_run"]
[[route]]
method = ["GET"]
upstream = "demo"
limits = ["client", "seats"]
"""

PATHS = """local paths = { "/none/1", "/drinks/1", "/drinks/2", "/%64rinks/3", "/dish/1", "/dish//2", "/soup" }
function request() return wrk.format("GET", paths[math.random(#paths)]) end
"""


class Truth(ReplayTest):
    def start(self, *options):
        proxy = subprocess.Popen([PROXY, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(proxy.kill)
        return proxy, re.search(r"http://\S+", proxy.stdout.readline())[0].rstrip(":")

    def rejected_by_proxy(self, limits, log):
        return self.rejected_by(*self.start("--demo", "--listen", "127.0.0.1:0", "--access-log", log, *limits), PAUSES)

    def rejected_by(self, proxy, where, lua):
        with open(self.path("pauses.lua"), "w") as script:
            script.write(lua)
        subprocess.run(["wrk", "-t1", f"-c{CONNECTIONS}", "-d10s", "-s", script.name, where],
                       check=True, capture_output=True, timeout=PATIENCE)
        proxy.send_signal(signal.SIGINT)
        _, told = proxy.communicate(timeout=PATIENCE)

        def sum_of(what):
            return sum(int(n) for n in re.findall(rf"(\d+) {what}", told))
        told = "\n".join(line for line in told.splitlines() if "would be rejected" not in line)
        reasons = ("no permit", "queue full", "timed out", "wait too long")
        return sum(map(sum_of, reasons)), sum_of("disconnected")

    # On a busy machine, a request may get a later time in the log than that of its decision, and few requests may be sent.
    # This varies between attempts. An error of the replay is in each attempt.
    def assert_agreement(self, attempt):
        for _ in range(ATTEMPTS):
            rejected, hung_up, replayed = attempt()
            if rejected > 100 and hung_up <= CONNECTIONS and 0.99 * rejected <= replayed <= 1.01 * (rejected + hung_up):
                return
        self.fail(f"{ATTEMPTS} attempts; in the last one the proxy rejected {rejected} and the replay {replayed}, "
                  f"and {hung_up} clients disconnected")

    def test_rejects_as_many_as_the_proxy(self):
        for i, limits in enumerate(LIMITS):
            with self.subTest(limits):
                self.assert_agreement(lambda: self.by_options(limits, self.path(f"log{i}")))

    def by_options(self, limits, log):
        if os.path.exists(log):
            os.remove(log)
        rejected, hung_up = self.rejected_by_proxy(limits, log)
        with open(log) as lines:
            requests = sum(1 for _ in lines)
        found = self.replay(log, *limits)
        outcome = found["outcomes"][0]
        print(f"{' '.join(limits)}: {requests} requests, {rejected} rejected and {hung_up} disconnected in the proxy, "
              f"{outcome['rejected']} rejected by the replay")
        self.assertEqual((found["requests"], found["unreadable"]), (requests, 0))
        return rejected, hung_up, outcome["rejected"]

    def test_rejects_as_many_as_the_proxy_with_its_configuration(self):
        self.assert_agreement(self.by_file)

    def by_file(self):
        _, demo = self.start("--demo", "--listen", "127.0.0.1:0", "--seats", "1000")
        log = self.path("log")
        if os.path.exists(log):
            os.remove(log)
        config = self.write(CONFIGURATION.format(log=log, demo=demo.removeprefix("http://")).splitlines(), "weir.toml")
        rejected, hung_up = self.rejected_by(*self.start("--config", config), PAUSES + PATHS)
        with open(log) as lines:
            answered = sum(1 for line in lines if '" 403 ' in line)
        outcome = self.replay(log, "--config", config)["outcomes"][0]
        dry_run = sum(n for r in outcome["rules"] if r["dry_run"] for n in r["rejected"].values())
        print(f"{outcome['requests']} requests, {rejected} rejected and {hung_up} disconnected in the proxy, "
              f"{outcome['rejected']} rejected and {dry_run} counted by the dry run in the replay")
        self.assertGreater(answered, 100)
        self.assertEqual(outcome["answered_by_route"], answered)
        return rejected, hung_up, outcome["rejected"]


if __name__ == "__main__":
    if not shutil.which("wrk") or not os.access(PROXY, os.X_OK):
        skip("wrk or weir-proxy is missing")
    main()
