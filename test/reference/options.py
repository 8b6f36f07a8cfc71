"""weir-proxy.md and weir-replay.md agree with the programs: commands, keys, conditions of options and exit statuses."""

import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

PAGES = pathlib.Path(__file__).resolve().parents[2] / "src/docs/reference"
PROGRAMS = {name: os.path.abspath(os.environ.get("WEIR_" + name[5:].upper(), f"build/release/src/{name}"))
            for name in ("weir-proxy", "weir-replay")}
LINE = '10.0.0.1 - - [01/Aug/1995:00:00:01 +0000] "GET /a HTTP/1.0" 200 5\n'
CONFIG = '[[upstream]]\nname = "a"\nservers = "a:1"\n[[limit]]\nname = "a"\nrule = "1/1s"\n'


class Options(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-reference-")
        self.addCleanup(self.folder.cleanup)
        self.write("access.log", LINE * 3)
        self.write("weir.toml", CONFIG)

    def write(self, name, text):
        pathlib.Path(self.folder.name, name).write_text(text)

    def run_in_folder(self, program, *arguments):
        environment = {key: value for key, value in os.environ.items() if key != "WEIR_STORE"}
        return subprocess.run([PROGRAMS[program], *arguments], cwd=self.folder.name, env=environment,
                              capture_output=True, text=True, timeout=60)

    def status(self, expected, because, program, *arguments):
        done = self.run_in_folder(program, *arguments)
        self.assertEqual(done.returncode, expected, done.stderr)
        self.assertIn(because, done.stdout + done.stderr)

    def test_commands_of_the_pages(self):
        commands = 0
        for name in PROGRAMS:
            for block in re.findall("```sh\n(.*?)```", (PAGES / f"{name}.md").read_text(), re.S):
                for line in block.splitlines():
                    program, *arguments = shlex.split(line.partition(" >")[0])
                    if program == "weir-proxy" and not {"--check", "--print-config"} & set(arguments):
                        arguments.append("--check")
                    done = self.run_in_folder(program, *arguments)
                    self.assertEqual(done.returncode, 0, (line, done.stderr))
                    commands += 1
        self.assertGreater(commands, 7)

    def test_settings_name_their_keys(self):
        rows = re.findall(r"^\| `(--\S+)(?: \S+)?` \|.* \| (.*) \|$", (PAGES / "weir-proxy.md").read_text(), re.M)
        self.assertGreater(len(rows), 30)
        without_key = {option for option, key in rows if not key}
        self.assertEqual(without_key, {"--help", "--version", "--config", "--check", "--strict", "--reload", "--print-config",
                                       "--demo", "--tls"})

    def test_conditions_of_weir_proxy(self):
        base = ("--check", "--upstream", "a:1")
        for because, *arguments in (
            ("missing --upstream HOST:PORT, --demo or --config FILE", "--check"),
            ("exclude each other", *base, "--demo"),
            ("exclude each other", "--config", "weir.toml", "--seats", "3"),
            ("exclude each other", "--config", "weir.toml", "--check", "--print-config"),
            ("--max-keys requires --per-client-seats or --per-client-rate", *base, "--max-keys", "5"),
            ("--client-prefix-v4 requires", *base, "--client-prefix-v4", "5"),
            ("--client-prefix-v6 requires", *base, "--client-prefix-v6", "5"),
            ("--store requires --rate", *base, "--store", "redis://a"),
            ("requires --store", *base, "--shared-as", "a"),
            ("requires --store", *base, "--on-failure", "open"),
            ("requires --store", *base, "--store-timeout", "1s"),
            ("requires --store", *base, "--prefetch", "1"),
        ):
            self.status(2, because, "weir-proxy", *arguments)
        for one in ("--check", "--print-config"):
            self.status(0, "", "weir-proxy", "--config", "weir.toml", one)

    def test_conditions_of_weir_replay(self):
        for option in ("--limit", "--seats", "--rate", "--per-client-seats", "--per-client-rate", "--max-keys",
                       "--client-prefix-v4", "--client-prefix-v6", "--queue", "--patience"):
            value = "1s" if option == "--patience" else "1/1s" if option.endswith(("rate", "limit")) else "5"
            self.status(2, "exclude each other", "weir-replay", "access.log", "--config", "weir.toml", option, value)
        self.status(2, "no limit given", "weir-replay", "access.log")
        self.status(0, "is the smallest value", "weir-replay", "access.log", "--find", "1/1s")
        self.status(2, "exclude each other", "weir-replay", "access.log", "--find", "1/1s", "--versus", "2/1s")
        self.status(2, "--max-rejected requires --find", "weir-replay", "access.log", "--limit", "1/1s", "--max-rejected", "1%")
        self.status(2, "must not be repeated", "weir-replay", "access.log", "--seats", "1", "--seats", "1")

    def test_exit_statuses(self):
        self.write("junk.log", "junk\n" * 5)
        self.write("wrong.toml", "x = 1\n")
        with socket.create_server(("127.0.0.1", 0)) as other:
            address = f"127.0.0.1:{other.getsockname()[1]}"
            self.status(1, "cannot listen", "weir-proxy", "--upstream", "127.0.0.1:1", "--listen", address)
        self.status(2, "unknown key", "weir-proxy", "--config", "wrong.toml")
        self.status(1, "No such file", "weir-replay", "missing.log", "--limit", "1/1s")
        self.status(1, "unreadable", "weir-replay", "junk.log", "--limit", "1/1s", "--format", "common")
        self.status(2, "unknown key", "weir-replay", "access.log", "--config", "wrong.toml")

    def test_a_signal_ends_a_replay_with_130(self):
        replay = subprocess.Popen([PROGRAMS["weir-replay"], "-", "--limit", "1/1s", "--format", "common"],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(replay.wait)
        for number in range(20000):  # more than a pipe holds, so the program has started to read
            replay.stdin.write(LINE)
        replay.stdin.flush()
        replay.send_signal(signal.SIGINT)
        out, err = replay.communicate(timeout=60)
        self.assertEqual(replay.returncode, 130, err)
        self.assertIn("partial", out + err)


if __name__ == "__main__":
    for program in PROGRAMS.values():
        if not os.access(program, os.X_OK):
            print("skipped: there is no", program)
            sys.exit(77)
    unittest.main()
