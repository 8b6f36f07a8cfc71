#!/usr/bin/env python3
"""The state of limits over a restart, by SIGTERM and by SIGKILL: no client has a full quota again."""

import os
import signal
import stat
import tempfile
import time

from admin_support import limit_of
from support import Client, Proxy, ProxyTest, in_parallel, main, wait_until

LIMITS = """
[[limit]]
name = "hour"
rule = "5/1h"
key = "client"
queue = "max_waiting 0 patience 0s"
[[limit]]
name = "day"
rule = "4/day"
key = "header X-Key"
queue = "max_waiting 0 patience 0s"
[[limit]]
name = "all"
rule = "1000/24h burst 9"
queue = "max_waiting 0 patience 0s"
[[limit]]
name = "seats"
rule = "9 seats & 1000/1h"
[[route]]
path = "/hour/*"
upstream = "shop"
limits = ["hour", "seats"]
[[route]]
path = "/day/*"
upstream = "shop"
limits = "day"
[[route]]
path = "/all/*"
upstream = "shop"
limits = "all"
"""


class State(ProxyTest):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory(prefix="weir-state-")
        self.addCleanup(self.folder.cleanup)
        self.file = os.path.join(self.folder.name, "state")

    def config(self, limits=LIMITS, every="1h"):
        return (f'[[upstream]]\nname = "shop"\nservers = "UPSTREAM"\n'
                f'[state]\nfile = "{self.file}"\nevery = "{every}"\n{limits}')

    def start_mortal(self, config):
        """A proxy that `kill` ends without a report."""
        proxy = Proxy(config=self.filled(config))
        self.addCleanup(proxy.folder.cleanup)
        self.addCleanup(self.kill, proxy)
        return proxy

    @staticmethod
    def kill(proxy):
        proxy.process.send_signal(signal.SIGKILL)
        proxy.process.wait()
        proxy.process.stdout.close()
        proxy.process.stderr.close()

    def granted(self, proxy, path, most=20, fields=""):
        """How many requests in a row are granted, at most `most`."""
        with Client(proxy.port) as client:
            for n in range(most):
                answer = client.ask(path, fields=fields)
                if answer.status != 200:
                    self.assertEqual(answer.status, 429)
                    return n
        return most

    def use(self, proxy):
        self.assertEqual(self.granted(proxy, "/hour/x", 3), 3)
        self.assertEqual(self.granted(proxy, "/day/x", 1, "X-Key: one\r\n"), 1)
        self.assertEqual(self.granted(proxy, "/day/x", 4, "X-Key: two\r\n"), 4)
        self.assertEqual(self.granted(proxy, "/all/x", 5), 5)

    def check(self, proxy):
        self.assertEqual(self.granted(proxy, "/hour/x"), 2)
        self.assertEqual(self.granted(proxy, "/day/x", fields="X-Key: one\r\n"), 3)
        self.assertEqual(self.granted(proxy, "/day/x", fields="X-Key: two\r\n"), 0)
        self.assertEqual(self.granted(proxy, "/day/x", fields="X-Key: three\r\n"), 4)
        self.assertEqual(self.granted(proxy, "/all/x"), 4)

    def said(self, proxy):
        return proxy.process.stderr.readline()

    def test_a_graceful_stop_and_a_start_continue(self):
        proxy = self.start_with(self.config())
        self.use(proxy)
        self.assertFalse(os.path.exists(self.file))
        proxy.stop()
        self.assertEqual(stat.S_IMODE(os.stat(self.file).st_mode), 0o600)
        proxy = self.start_with(self.config())
        self.assertEqual(self.said(proxy), f"weir-proxy: state file `{self.file}`: 4 limits and 3 keys continue\n")
        self.check(proxy)
        # Keys whose hash has a random seed are found again after another restart, too.
        proxy.stop()
        proxy = self.start_with(self.config())
        self.assertEqual(self.granted(proxy, "/day/x", fields="X-Key: one\r\n"), 0)
        self.assertEqual(os.listdir(self.folder.name), ["state"])

    def test_a_crash_loses_what_came_after_the_last_writing(self):
        proxy = self.start_mortal(self.config(every="1s"))
        self.use(proxy)
        # The second file was begun after all requests.
        wait_until(lambda: os.path.exists(self.file), "the first file")
        first = os.stat(self.file).st_ino
        wait_until(lambda: os.stat(self.file).st_ino != first, "the second file")
        self.kill(proxy)
        proxy = self.start_with(self.config())
        self.said(proxy)
        self.check(proxy)

    def test_a_damaged_file_is_refused_and_kept(self):
        proxy = self.start_with(self.config())
        self.use(proxy)
        proxy.stop()
        with open(self.file, "r+b") as file:
            file.seek(40)
            byte = file.read(1)
            file.seek(40)
            file.write(bytes([byte[0] ^ 1]))
        with open(self.file, "rb") as file:
            damaged = file.read()
        proxy = self.start_with(self.config())
        self.assertEqual(self.said(proxy),
                         f"weir-proxy: state file `{self.file}`: byte 26: the checksum of a block is wrong; all limits start "
                         f"with nothing used; the file is now `{self.file}.refused`\n")
        self.assertEqual(self.granted(proxy, "/hour/x"), 5)
        with open(self.file + ".refused", "rb") as file:
            self.assertEqual(file.read(), damaged)

    def test_other_files_are_refused(self):
        for content, reason in ((b"", "byte 0: this is not a saved state"),
                                (b"#!/bin/sh\n", "byte 0: this is not a saved state"),
                                (b"WEIRSTAT", "byte 8: the file ends in its header")):
            with open(self.file, "wb") as file:
                file.write(content)
            proxy = self.start_with(self.config())
            self.assertIn(reason, self.said(proxy))
            self.assertEqual(self.granted(proxy, "/hour/x"), 5)
            proxy.stop()
            os.remove(self.file)

    def test_other_limits_start_with_nothing_used(self):
        proxy = self.start_with(self.config())
        self.use(proxy)
        proxy.stop()
        changed = (LIMITS.replace('rule = "5/1h"', 'rule = "7/1h"')  # the same kind
                   .replace('"1000/24h burst 9"', '"9/24h"')         # another kind
                   .replace('key = "header X-Key"', 'key = "query key"')
                   .replace('"seats"', '"chairs"'))
        proxy = self.start_with(self.config(changed))
        about = f"weir-proxy: state file `{self.file}`: "
        self.assertEqual(self.said(proxy),
                         "weir-proxy: state of limit `all`: the saved rule `1000/24h burst 9` cannot become `9/24h`; "
                         "it starts with nothing used\n")
        self.assertEqual(self.said(proxy),
                         "weir-proxy: state of limit `day`: its key or an override is another one; these clients start with "
                         "nothing used\n")
        self.assertEqual(self.said(proxy), about + "no limit has the name `seats`\n")
        self.assertEqual(self.said(proxy), about + "1 limits and 1 keys continue\n")
        self.assertEqual(self.granted(proxy, "/hour/x"), 4)
        self.assertEqual(self.granted(proxy, "/all/x"), 9)

    def test_adaptive_seats_continue_with_their_number(self):
        def config(seats, both="4 aimd min 1 max 60 slow_start 0 samples 5 & 1000/24h bucket burst 900"):
            return ('[admin]\naddress = "127.0.0.1:0"\n' + self.config(
                f'[[limit]]\nname = "seats"\nrule = "{seats}"\n[[limit]]\nname = "both"\nrule = "{both}"\n'))

        def seats(proxy):
            return [limit_of(proxy, name)["capacity"] for name in ("seats", "both")]

        def work(_):
            with Client(proxy.port) as client:
                for _ in range(20):
                    client.ask("/sleep/5")

        proxy = self.start_with(config("4 aimd min 1 max 50 slow_start 0 samples 5"))
        self.assertEqual(seats(proxy), [4, 4])
        in_parallel(16, work)
        learned = seats(proxy)
        self.assertGreater(min(learned), 8)
        proxy.stop()
        proxy = self.start_with(config("4 aimd min 1 max 50 slow_start 0 samples 5"))
        self.assertEqual(self.said(proxy), f"weir-proxy: state file `{self.file}`: 2 limits and 0 keys continue\n")
        self.assertEqual(seats(proxy), learned)
        proxy.stop()
        proxy = self.start_with(config("6 aimd min 6 max 7"))
        self.assertEqual(seats(proxy), [7, learned[1]])

    def test_overrides_continue(self):
        limits = LIMITS.replace('key = "client"\n', 'key = "client"\noverrides = { "127.0.0.1" = "6/1h", "10.0.0.0/8" = "8/1h" }\n')
        proxy = self.start_with(self.config(limits))
        self.assertEqual(self.granted(proxy, "/hour/x", 4), 4)
        proxy.stop()
        proxy = self.start_with(self.config(limits))
        self.said(proxy)
        self.assertEqual(self.granted(proxy, "/hour/x"), 2)

    def test_a_reload_keeps_writing(self):
        proxy = self.start_mortal(self.config(every="1s"))
        self.use(proxy)
        proxy.write(self.filled(self.config(LIMITS.replace('rule = "5/1h"', 'rule = "50/1h"'), every="2h")))
        proxy.process.send_signal(signal.SIGHUP)
        self.assertEqual(self.said(proxy), "weir-proxy: configuration reloaded\n")
        self.assertEqual(self.granted(proxy, "/hour/x", 10), 10)
        first = time.time()
        wait_until(lambda: os.path.exists(self.file) and os.stat(self.file).st_mtime > first + 1, "a file")
        self.kill(proxy)
        proxy = self.start_with(self.config(LIMITS.replace('rule = "5/1h"', 'rule = "50/1h"')))
        self.said(proxy)
        self.assertEqual(self.granted(proxy, "/hour/x", 50), 37)

    def test_a_failure_to_write_is_reported_once(self):
        proxy = self.start_with(self.config(every="1s"))
        os.rename(self.folder.name, self.folder.name + ".moved")
        self.addCleanup(os.rename, self.folder.name + ".moved", self.folder.name)
        self.assertEqual(self.said(proxy),
                         f"weir-proxy: cannot write the state file `{self.file}`: cannot open it: No such file or directory\n")
        time.sleep(2.5)
        self.assertEqual(self.granted(proxy, "/hour/x", 5), 5)
        report = proxy.stop()
        self.assertEqual(report.count("cannot write"), 1)  # at the end

    def test_a_folder_that_cannot_be_written_is_an_error_at_the_start(self):
        self.file = "/proc/state"
        with self.assertRaises(AssertionError) as error:
            self.start_with(self.config())
        self.assertIn("cannot write the state file `/proc/state`", str(error.exception))

    def status(self):
        found = os.lstat(self.file)
        return found.st_mode, found.st_ino, found.st_mtime_ns  # another program may read the directory

    def test_a_directory_or_a_pipe_is_an_error_at_the_start_and_stays(self):
        os.mkdir(self.file + ".folder")
        for make in (os.mkdir, os.mkfifo, lambda path: os.symlink(path + ".folder", path)):
            make(self.file)
            before = self.status()
            with self.assertRaises(AssertionError) as error:
                self.start_with(self.config())
            self.assertIn(f"cannot write the state file `{self.file}`: it is not a regular file", str(error.exception))
            self.assertEqual(self.status(), before)
            self.assertEqual(sorted(os.listdir(self.folder.name)), ["state", "state.folder"])
            (os.rmdir if make is os.mkdir else os.remove)(self.file)


if __name__ == "__main__":
    main(at_once=4)
