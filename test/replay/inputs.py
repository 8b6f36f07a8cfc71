#!/usr/bin/env python3
"""Valid and invalid logs of all kinds."""

import collections
import gzip
import os
import subprocess

from support import BEGIN, NASA, PROGRAM, ReplayTest, common, main, random_lines

LIMIT = ["--limit", "6/1s", "--limit", "1/1s per client"]


class Inputs(ReplayTest):
    def test_compressed_piped_or_split_logs_give_the_same_result(self):
        lines = random_lines(4000)
        whole = self.replay(self.write(lines), *LIMIT)
        self.assertEqual(whole["requests"], 4000)
        self.assertGreater(whole["outcomes"][0]["rejected"], 100)
        self.assertEqual(self.replay(self.write(lines, "log.gz"), *LIMIT), whole)
        self.assertEqual(self.replay(self.write(lines, "crlf", "\r\n"), *LIMIT), whole)
        text = "".join(line + "\n" for line in lines)
        self.assertEqual(self.replay("-", *LIMIT, input=text), whole)
        self.assertEqual(self.replay("-", *LIMIT, input=text.rstrip("\n")), whole)
        # Split into files; and two gzip streams in one file.
        parts = [self.write(lines[:1000], "a"), self.write(lines[1000:3000], "b.gz"), self.write(lines[3000:], "c")]
        self.assertEqual(self.replay(*parts, *LIMIT), whole)
        with open(self.path("joined.gz"), "wb") as joined:
            for part in (lines[:1000], lines[1000:]):
                joined.write(gzip.compress("".join(line + "\n" for line in part).encode()))
        self.assertEqual(self.replay(self.path("joined.gz"), *LIMIT), whole)

    def test_files_of_several_servers_are_merged_by_time(self):
        lines = [line.replace(":00 +0000", ":00.%03d +0000" % (i % 997)) for i, line in
                 enumerate(common(BEGIN + i // 20 * 60) for i in range(2000))]
        lines.sort(key=lambda line: line[line.index("["):])
        whole = self.replay(self.write(lines), *LIMIT)
        self.assertGreater(whole["outcomes"][0]["rejected"], 100)
        for kind in ("a", "b.gz"):
            split = [self.write(lines[i::3], f"{i}{kind}") for i in range(3)]
            self.assertEqual(self.replay(*split, *LIMIT), whole)

    def test_lines_slightly_out_of_order(self):
        lines = random_lines(2000)
        whole = self.replay(self.write(lines), *LIMIT)
        mixed = [line for i in range(0, 2000, 10) for line in reversed(lines[i:i + 10])]
        self.assertNotEqual(mixed, lines)
        found = self.replay(self.write(mixed, "mixed"), *LIMIT)
        for each in (found, whole):  # the order within one second may differ
            self.assertEqual(each["requests"], 2000)
        self.assertEqual(found["outcomes"][0]["over_time"]["requests"], whole["outcomes"][0]["over_time"]["requests"])

    def test_invalid_requests_meet_no_limit(self):
        weir = '2024-05-01T12:00:{:02}.000Z 127.0.0.1 "{}" {} 9 0.001 0.000 {} "-" x'
        common = '1.2.3.4 - - [01/May/2024:12:00:{:02} +0000] "{}" {} 9'
        json = ('{{"time":"2024-05-01T12:00:{:02}.000Z","remote_addr":"1.2.3.4","request":"{}","status":{},"request_time":0.001,'
                '"waited":0,"upstream":{}}}')
        get = "GET / HTTP/1.1"
        for line, none, some in ((weir, "-", "10.0.0.7:9000"), (common, "", ""), (json, "null", '"10.0.0.7:9000"')):
            rows = [(get, 200, some), ("-", 400, none), ("GET /", 414, none), (get, 400, some), (get, 429, none), ("-", 200, some),
                    (get, 400, none), ("hello to all", 400, none)]
            log = self.write([line.format(n, *row) for n, row in enumerate(rows)])
            found = self.replay(log, *LIMIT)
            # Only weir-proxy tells whether it forwarded a request.
            invalid = 3 if line is common else 4
            self.assertEqual((found["lines"], found["requests"], found["invalid_requests"]), (8, 8 - invalid, invalid), line)

    def test_connections_of_other_protocols_are_no_requests(self):
        line = '2024-05-01T12:00:{:02}.000Z 127.0.0.1 "{}" {} 9 0.001 0.000 10.0.0.7:9000 "-" x'
        rows = [("GET / HTTP/1.1", 200), ("tcp 0.0.0.0:3306", 200), ("tcp 0.0.0.0:5432 db.example.org", 429), ("GET / HTTP/1.1", 200)]
        log = self.write([line.format(n, *row) for n, row in enumerate(rows)])
        found = self.replay(log, *LIMIT)
        self.assertEqual((found["lines"], found["requests"], found["connections"], found["invalid_requests"]), (4, 2, 2, 0))
        done = self.run_it(log, *LIMIT)
        self.assertIn("2 connections of other protocols were left out: they have no requests.", done.stdout)
        only = self.write([line.format(n, "tcp 0.0.0.0:3306", 200) for n in range(3)], "only")
        done = self.run_it(only, *LIMIT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("has no valid request; 3 lines are connections of other protocols, which have no requests", done.stderr)

    def test_unreadable_lines_are_counted_and_shown(self):
        lines = random_lines(200)
        whole = self.replay(self.write(lines), *LIMIT)
        dirty = lines[:]
        for at, line in ((150, "x" * 10_000_000), (100, "\x01\xff dirt"), (50, ""), (20, lines[0][:40]), (3, "dirt")):
            dirty.insert(at, line)
        log = self.write(dirty, "dirty")
        found = self.replay(log, *LIMIT)
        self.assertEqual((found["lines"], found["unreadable"]), (204, 4))  # an empty line does not count
        self.assertEqual([bad["line"] for bad in found["unreadable_lines"]], [4, 22, 104])
        self.assertEqual(found["unreadable_lines"][2]["text"], "\\x01\\xFF dirt")
        self.assertEqual(found["outcomes"], whole["outcomes"])
        text = self.run_it(log, *LIMIT).stdout
        self.assertIn("4 of 204 lines were skipped:\n", text)
        self.assertIn(f"  {log}:4: does not match the format: dirt\n", text)
        self.rejects(1, "4 of 204 lines are unreadable (limit 1 %)", log, *LIMIT, "--max-unreadable", "1%")
        half = self.write(lines + ["dirt"] * 150, "half")
        self.rejects(1, f"\n  {half}:201: does not match the format: dirt\n", half, *LIMIT)
        self.assertEqual(self.replay(half, *LIMIT, "--max-unreadable", "0.5")["unreadable"], 150)
        long = self.write(lines + ["x" * 70_000], "long")
        self.assertIn("longer than 65536 bytes", self.replay(long, *LIMIT)["unreadable_lines"][0]["why"])

    def test_json_escapes_do_not_change_the_result(self):
        def lines(client, request):
            return ['{"time":"%s","remote_addr":"%s","request":"%s","status":200}' % (BEGIN, client, request)] * 3

        config = self.write(["[[upstream]]", 'name = "shop"', 'servers = "127.0.0.1:9000"',
                             "[[limit]]", 'name = "a"', 'rule = "1/60s"', 'queue = "patience 0s"',
                             "[[route]]", 'path = "/a"', 'upstream = "shop"', 'limits = "a"',
                             "[[route]]", 'upstream = "shop"'], "weir.toml")
        plain = lines("1.2.3.4", "GET /a/b HTTP/1.1")
        for line in (plain[0], r'{"time":"%s","remote_addr":"\u0031.2.3.4","request":"GET \/a\/b HTTP\/1.1"}' % BEGIN):
            log = self.write([*plain[:2], line])
            found = self.replay(log, "--config", config, "--spread", "burst")
            self.assertEqual((found["requests"], found["clients"], found["unreadable"]), (3, 1, 0))
            self.assertEqual((found["outcomes"][0]["granted_immediately"], found["outcomes"][0]["rejected"]), (1, 2))
        found = self.replay(self.write(lines("1.2.3.4", r"GET \/a\/b HTTP\/1.1")), "--config", config)
        self.assertEqual((found["outcomes"][0]["granted_immediately"], found["outcomes"][0]["rejected"]), (1, 2))
        wrong = self.replay(self.write([*plain, plain[0].replace("GET", "\\x47ET")]), "--limit", "1/1s",
                            "--max-unreadable", "0.5")
        self.assertEqual((wrong["requests"], wrong["unreadable"]), (3, 1))

    def test_times_that_run_backwards(self):
        lines = random_lines(1000)
        back = self.write(lines + lines, "back")
        self.rejects(1, "back:1001: ", back, *LIMIT)
        self.rejects(1, "out of order by more than --slack", back, *LIMIT)
        found = self.replay(self.write([*lines, common(BEGIN - 3600)], "one"), *LIMIT)
        self.assertEqual((found["requests"], found["unreadable"]), (1000, 1))
        # After a line that is far ahead, all other lines are out of order.
        self.rejects(1, "out of order by more than --slack", self.write([common(BEGIN + 10**9), *lines], "ahead"), *LIMIT)

    def test_invalid_logs(self):
        self.rejects(1, f"{self.path('none')}: No such file", self.path("none"), *LIMIT)
        self.rejects(1, "is a directory", self.folder, *LIMIT)
        self.rejects(1, "is empty", self.write(b"", "empty"), *LIMIT)
        self.rejects(1, "is empty", self.write(b"", "empty.gz"), *LIMIT)
        self.rejects(1, "standard input is empty", "-", *LIMIT, input="")
        self.rejects(1, "an empty line", self.write(b"\n\n\n", "blank"), *LIMIT)
        self.rejects(1, "is a binary file", PROGRAM, *LIMIT)
        self.rejects(1, "is compressed with zstd; use: zstd -dc ", self.write(b"\x28\xb5\x2f\xfd...", "z"), *LIMIT)
        self.rejects(1, "cannot detect the log format", self.write(["hello", "world"]), *LIMIT)
        self.rejects(1, "it begins with: hello", self.write(["hello", "world"]), *LIMIT)
        syslog = self.write(["Feb  6 12:14:14 host nginx: 10.0.0.1 GET / 200"] * 3)
        self.rejects(1, "its times have no year (syslog)", syslog, *LIMIT)
        packed = gzip.compress("\n".join(random_lines(4000)).encode())
        self.rejects(1, "truncated gzip data", self.write(packed[:-100], "short"), *LIMIT)
        self.rejects(1, "corrupt gzip data", self.write(packed[:100] + b"x" * 100 + packed[200:], "hurt"), *LIMIT)

    def test_a_log_of_one_line(self):
        found = self.replay(self.write([common(BEGIN)]), *LIMIT)
        self.assertEqual((found["requests"], found["outcomes"][0]["granted_immediately"]), (1, 1))

    def test_memory_does_not_grow_with_the_log(self):
        def memory(lines):
            log = self.write(lines)
            script = ('import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); '
                      'print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)')
            done = subprocess.run(["python3", "-c", script, PROGRAM, log, *LIMIT], check=True, capture_output=True)
            return int(done.stdout)

        if os.environ.get("WEIR_SANITIZED"):
            self.skipTest("sanitizers delay the release of memory")
        few = memory(random_lines(20_000))
        many = memory(random_lines(400_000))
        self.assertLess(many, few + 2000)  # KiB; the second log is 30 MB longer

    def test_a_day_of_1995(self):
        if not os.path.exists(NASA):
            self.skipTest(f"{NASA} does not exist")
        with gzip.open(NASA, "rt", encoding="latin-1") as file:
            times = [line.split("[")[1][12:20] for line in file]
        seconds = [int(t[:2]) * 3600 + int(t[3:5]) * 60 + int(t[6:]) for t in times]
        sizes = collections.Counter(seconds)
        for spread in ("burst", "even"):
            # At most 3 in any second, without waiting.
            granted, rejected = [], 0
            for i, second in enumerate(seconds):
                first = i
                while first and seconds[first - 1] == second:
                    first -= 1
                at = second * 10**9
                if spread == "even":
                    at += 10**9 * (i - first) // sizes[second]
                if len(granted) >= 3 and granted[-3] > at - 10**9:
                    rejected += 1
                else:
                    granted.append(at)
            found = self.replay(NASA, "--limit", "3/1s", "--patience", "0s", "--spread", spread)
            self.assertEqual((found["requests"], found["clients"], found["unreadable"]), (30969, 2365, 0))
            self.assertEqual(found["outcomes"][0]["rejected"], rejected)
            self.assertGreater(rejected, 100)


if __name__ == "__main__":
    main()
