#!/usr/bin/env python3
"""The report of weir-replay: alternatives, searches, spreads; and errors of the command line."""

import contextlib
import json
import os
import pty
import re
import signal
import subprocess

from support import BEGIN, NASA, PATIENCE, PROGRAM, ReplayTest, common, main, random_lines

WRONG = [
    ([], "missing LOG"),
    (["log", "--rate"], "--rate needs a value"),
    (["log", "--bogus"], "unknown option --bogus"),
    (["log"], "no limit given; use --limit, --seats, --rate or --config"),
    (["log", "--limit", "5"], "--limit is `5`, but must be a rule such as"),
    (["log", "--limit", "0/1s"], "--limit is `0/1s`, but must be a rule such as"),
    (["log", "--limit", "5/1s per moon"], "unknown key `moon`: use client, header NAME, path N"),
    (["log", "--limit", "5/1s per path 0"], "unknown key `path 0`: use"),
    (["log", "--seats", "many"], "--seats is `many`, but must be a number"),
    (["log", "--seats", "adaptive 9..4"], "--seats is `adaptive 9..4`, but must be a number from 1 to 1000000000, "
     "`adaptive` or `adaptive MIN..MAX` with MIN <= MAX in that range"),
    (["log", "--rate", "5/1s", "--patience", "1"], "--patience is `1`, but must be a time from 0s to 24h"),
    (["log", "--seats", "5", "--service-time", "1s", "--queue", "order shares"], "`order shares` is not supported here"),
    (["log", "--rate", "5/1s", "--queue", "long"], "--queue is `long`, but must be a number or queue options: "),
    (["log", "--rate", "5/1s", "--queue", "patience 2s", "--patience", "3s"],
     "--patience 3s contradicts `patience 2s` in --queue"),
    (["log", "--rate", "5/1s", "--spread", "butter"], "--spread is `butter`, but must be even, random"),
    (["log", "--rate", "5/1s", "--service-time", "ages"], "--service-time is `ages`, but must be a time"),
    (["log", "--rate", "5/1s", "--service-time", "9ms..4ms"], "--service-time is `9ms..4ms`, but must be a time"),
    (["log", "--rate", "5/1s", "--timestamp", "never"], "--timestamp is `never`, but must be start or end"),
    (["log", "--rate", "5/1s", "--max-unreadable", "101%"], "--max-unreadable is `101%`, but must be a share"),
    (["log", "--rate", "5/1s", "--max-rejected", "1%"], "--max-rejected requires --find"),
    (["log", "--rate", "5/1s", "--find", "5/1s", "--versus", "6/1s"], "--find and --versus exclude each other"),
    (["-", "--find", "5/1s"], "--find reads the log several times, so it cannot use standard input"),
    (["-", "-", "--rate", "5/1s"], "- (standard input) appears twice"),
    (["log", "--find", "quick"], "--find is `quick`, but must be a rule"),
    (["log", "--find", "patiences"], "--find is `patiences`, but must be a rule"),
    (["log", "--find", "3/1s & 4/1s"], "must start with the number"),
    (["log", "--rate", "5/1s", "--versus", "2 fast"], "--versus is `2 fast`, but must be a rule"),
    (["log", "--frobnicate"], "--frobnicate"),
]


class Answers(ReplayTest):
    def test_errors_of_the_command_line(self):
        for args, text in WRONG:
            with self.subTest(args):
                self.rejects(2, text, *args)
        log = self.write(random_lines(50))
        self.assertIn(f"cannot write `{self.path('none/page.html')}`: No such file or directory",
                      self.run_it(log, "--rate", "3/1s", "--report", self.path("none/page.html")).stderr)
        for args, text in ((["--seats", "3"], "the log has no service times; set --service-time"),
                           (["--rate", "3/1s", "--format", "odd"], "--format: unknown format `odd`"),
                           (["--limit", "3/1s per header Host"], "no field `http_host`; its fields are: remote_addr")):
            with self.subTest(args):
                self.rejects(2, text, log, *args)

    def test_options_may_precede_or_follow_logs(self):
        log = self.write(random_lines(100))
        found = self.replay(log, "--limit", "2/1s", "--versus", "3/1s", "--limit", "1/1s per client")
        self.assertEqual(self.replay("--limit", "2/1s", "--limit", "1/1s per client", "--versus", "3/1s", log), found)

    def test_an_alternative_gives_the_same_result_as_its_own_replay(self):
        log = self.write(random_lines(3000))
        base = ["--limit", "5/1s", "--limit", "2/1s burst 3 per client", "--seats", "3", "--service-time", "100ms..900ms"]
        both = self.replay(log, *base, "--versus", "8/1s", "--versus", "6 seats, patience 3s, queue 5")
        alone = [
            self.replay(log, *base),
            self.replay(log, "--rate", "8/1s", "--per-client-rate", "2/1s burst 3", *base[4:]),
            self.replay(log, *base[:4], "--seats", "6", *base[6:], "--patience", "3s", "--queue", "5"),
        ]
        for one, other in zip(both["outcomes"], alone, strict=True):
            del one["name"], other["outcomes"][0]["name"]
            self.assertEqual(one, other["outcomes"][0])
        rejected = [o["rejected"] for o in both["outcomes"]]
        self.assertEqual(len(set(rejected)), 3, rejected)
        self.assertEqual([r["rule"] for r in both["outcomes"][0]["rules"]],
                         ["2/1s burst 3 per client", "3 seats", "5/1s"])

    def test_patience_in_queue_options(self):
        log = self.write([common(BEGIN)] * 10)
        how = [log, "--limit", "1/1s", "--spread", "burst"]

        def granted(*args):
            return [o["granted_immediately"] + o["waited"] for o in self.replay(*how, *args)["outcomes"]]
        self.assertEqual(granted(), [2])  # the second waits for 1 s
        for text, n in (("patience 5s", 6), ("max_waiting 4 patience 5s", 5), ("patience forever", 10), ("max_waiting 5", 2)):
            with self.subTest(text):
                self.assertEqual(granted("--queue", text), [n])
                self.assertEqual(granted("--versus", f"queue {text}"), [2, n])
        for args in (["--patience", "5s"], ["--patience", "5s", "--queue", "max_waiting 9"],
                     ["--queue", "max_waiting 9", "--patience", "5s"], ["--queue", "patience 5s", "--patience", "5s"]):
            self.assertEqual(granted(*args), [6], args)
        # An alternative keeps the values that it does not set.
        self.assertEqual(granted("--patience", "5s", "--versus", "queue 3", "--versus", "queue max_waiting 4",
                                 "--versus", "queue 3, patience 2s", "--versus", "patience 2s, queue patience 3s"),
                         [6, 4, 5, 3, 4])

    def test_each_request_is_counted_once(self):
        log = self.write(random_lines(3000))
        for more in ([], ["--retry", "3"], ["--patience", "0s"]):
            o = self.replay(log, "--limit", "4/1s", "--limit", "1/1s per client", *more)["outcomes"][0]
            self.assertEqual(o["requests"], 3000)
            self.assertEqual(o["granted_immediately"] + o["waited"] + o["granted_after_retries"] + o["rejected"], 3000)
            by_rule = sum(sum(r["rejected"].values()) for r in o["rules"])
            self.assertEqual(by_rule, o["rejected"] + o["attempts"] - 3000)
            self.assertEqual(sum(k["rejected"] for k in o["top_rejected"]), o["rejected"])
            time = o["over_time"]
            self.assertEqual(sum(time["requests"]), o["attempts"])
            self.assertEqual(sum(time["granted"]), 3000 - o["rejected"])
            self.assertEqual(sum(time["rejected"]), by_rule)
            self.assertEqual(max(time["waiting"]), o["longest_queue"])

    def test_the_smallest_number_is_found(self):
        log = self.write(random_lines(3000))

        def rejected(*args):
            return self.replay(log, *args, "--spread", "even", "--service-time", "300ms")["outcomes"][0]["rejected_share"]

        for what, more in (("{}/1s", []), ("{} seats", []), ("{}/10s burst 3 per client", ["--rate", "9/1s"]),
                           ("patience {}ms", ["--rate", "8/1s"])):
            with self.subTest(what):
                found = self.replay(log, *more, "--find", what.format(5), "--max-rejected", "2%", "--service-time", "300ms")
                n = int(re.search(r"\d+", found["find"]["found"]).group())
                around = {o["name"]: o["rejected_share"] for o in found["outcomes"]}
                self.assertEqual(list(around), [what.format(i) for i in (n - 1, n, n + 1)])

                def part(i):
                    flag = ["--patience", f"{i}ms"] if "patience" in what else ["--limit", what.format(i)]
                    return rejected(*more, *flag)
                self.assertEqual(around[what.format(n)], part(n))
                self.assertLessEqual(part(n), 0.02)
                self.assertGreater(part(n - 1), 0.02)
        none = self.replay(log, "--rate", "1/1s", "--find", "5 seats", "--max-rejected", "1%", "--service-time", "1ms")
        self.assertEqual(none["find"]["not_found"], "5 seats")

    def test_the_smallest_rate_of_bytes_is_found(self):
        """A response of 100 kB in a second needs 84 kB/s, because 16 KiB may pass at once."""
        lines = [common(BEGIN + 10 * i, size=100_000) for i in range(50)]
        log = self.write(lines + [common(BEGIN + 1000, size=10_000_000)])
        usual = ["--service-time", "1s", "--spread", "even"]
        found = self.replay(log, "--find", "1kB/s down", "--max-slowed", "2%", *usual)
        self.assertEqual(found["find"], {"found": "84kB/s down", "max_slowed": 0.02})
        self.assertEqual([o["slowed"]["requests"] for o in found["outcomes"]], [51, 1, 1])
        # In bytes the number is far above the number of requests, where the search for a rate of requests ends.
        found = self.replay(log, "--find", "1B/s down", "--max-slowed", "2%", *usual)
        self.assertEqual(found["find"], {"found": "83616B/s down", "max_slowed": 0.02})
        found = self.replay(log, "--limit", "84kB/s down", "--versus", "83kB/s down", *usual)
        self.assertEqual([o["slowed"]["requests"] for o in found["outcomes"]], [1, 51])
        self.assertEqual([b["limit"] for o in found["outcomes"] for b in o["bandwidths"]], ["84kB/s down", "83kB/s down"])
        self.rejects(2, "--find reads the log several times", "-", "--find", "1kB/s down")

    def test_spreads(self):
        log = self.write([common(BEGIN + i // 4) for i in range(400)])  # 4 in each second
        found = self.replay(log, "--limit", "2/500ms", "--patience", "0s")
        parts = found["rejected_share_by_spread"]
        self.assertEqual(parts["even"], [0])
        self.assertEqual(parts["burst"], [0.5])
        self.assertTrue(0 < parts["random 1"][0] < 0.5, parts)
        again = self.replay(log, "--limit", "2/500ms", "--patience", "0s", "--spread", "random")
        self.assertEqual(again["outcomes"][0]["rejected_share"], parts["random 1"][0])
        other = self.replay(log, "--limit", "2/500ms", "--patience", "0s", "--spread", "random 2")
        self.assertNotEqual(other["outcomes"][0]["rejected"], again["outcomes"][0]["rejected"])
        self.assertTrue(any("With --spread burst, 50.00 % would be rejected" in n for n in found["notes"]))

    def test_retries(self):
        # 2 per second, and 10 requests at the start: 2 are granted, 8 retry after 1 s, 2 of these are granted, and so on.
        log = self.write([common(BEGIN)] * 10)
        how = [log, "--limit", "2/1s", "--patience", "0s", "--spread", "burst"]
        o = self.replay(*how, "--retry", "2")["outcomes"][0]
        self.assertEqual((o["granted_immediately"], o["granted_after_retries"], o["rejected"], o["attempts"]), (2, 4, 4, 24))
        o = self.replay(*how, "--retry", "100")["outcomes"][0]
        self.assertEqual((o["granted_immediately"], o["granted_after_retries"], o["rejected"], o["attempts"]), (2, 8, 0, 30))

    def test_keys(self):
        log = self.write([common(BEGIN, f"10.0.{i}.{j}", f"/{j}/a/{i}") for i in range(4) for j in range(6)])
        def rejected(*args):
            o = self.replay(log, *args, "--patience", "0s", "--spread", "burst")["outcomes"][0]
            return o["rejected"], {(k["of"], k["key"]): k["rejected"] for k in o["top_rejected"]}
        self.assertEqual(rejected("--limit", "1/1s per client"), (0, {}))
        n, by = rejected("--limit", "1/1s per client", "--client-prefix-v4", "24")
        self.assertEqual((n, by), (20, {("client", f"10.0.{i}.0/24"): 5 for i in range(4)}))
        n, by = rejected("--limit", "1/1s per path 1")
        self.assertEqual((n, by), (18, {("path 1", str(j)): 3 for j in range(6)}))
        self.assertEqual(rejected("--limit", "1/1s per path 2")[0], 23)
        self.assertEqual(rejected("--limit", "1/1s per path")[0], 0)
        self.assertEqual(rejected("--limit", "1/1s per field status")[1], {("field status", "200"): 23})

    def test_progress_bar_on_a_terminal_only(self):
        log = self.write(random_lines(20_000 if os.environ.get("WEIR_SANITIZED") else 200_000))  # about 100 ms
        self.assertEqual(self.run_it(log, "--limit", "4/1s").stderr, "")
        ours, theirs = pty.openpty()
        process = subprocess.Popen([PROGRAM, log, "--limit", "4/1s", "--versus", "5/1s", "--versus", "6/1s"],
                                   stderr=theirs, stdout=subprocess.DEVNULL)
        os.close(theirs)
        shown = ""
        with contextlib.suppress(OSError):  # raised when the terminal is closed
            while piece := os.read(ours, 1 << 16).decode():
                shown += piece
        os.close(ours)
        self.assertEqual(process.wait(PATIENCE), 0)
        self.assertRegex(shown, r"\[=* *\] +\d+ %  [\d,]+ lines, \d+\.\d million per second, \d+ s left")
        self.assertTrue(shown.endswith("\r\x1b[K"), shown[-50:])

    def test_ctrl_c_prints_a_partial_report(self):
        lines = "".join(line + "\n" for line in random_lines(100_000)).encode()
        process = subprocess.Popen([PROGRAM, "-", "--limit", "4/1s", "--json"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdin.write(lines)  # more than a pipe holds, so the program is reading
        process.stdin.flush()
        process.send_signal(signal.SIGINT)
        out, err = process.stdout.read(), process.stderr.read()  # while the pipe is open, without more data
        process.stdin.close()
        process.wait(PATIENCE)
        process.stdout.close()
        process.stderr.close()
        self.assertEqual((process.returncode, err), (130, b""))
        found = json.loads(out)
        self.assertTrue(found["interrupted"])
        self.assertIn("Interrupted: this report is partial.", found["notes"])
        self.assertTrue(1000 < found["outcomes"][0]["requests"] <= found["requests"] <= 100_000)

    def test_help_has_an_example_that_works(self):
        text = self.run_it("--help").stdout
        examples = re.findall(r"^  weir-replay (nasa.*)$", text, re.M)
        self.assertEqual(len(examples), 2)
        if not os.path.exists(NASA):
            self.skipTest(f"{NASA} does not exist")
        for example in examples:
            done = subprocess.run(f"{os.path.abspath(PROGRAM)} {example}", shell=True, cwd=os.path.dirname(NASA),
                                  capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("30,969 requests of 2,365 clients", done.stdout)


if __name__ == "__main__":
    main()
