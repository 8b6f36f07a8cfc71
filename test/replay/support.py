"""Runs weir-replay, at the path in the environment variable WEIR_REPLAY, and writes logs for it."""

import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = os.environ.get("WEIR_REPLAY", "build/release/src/weir-replay")
HERE = os.path.dirname(os.path.abspath(__file__))
NASA = os.path.join(HERE, "../../../shared/data/nasa-1995-08-01.log.gz")
PATIENCE = 120.0  # seconds until a test fails; long enough for a busy machine
BEGIN = 807249600


def skip(why):
    """Reports to ctest that the test was skipped."""
    print("skipped:", why)
    sys.exit(77)


def main():
    if not os.access(PROGRAM, os.X_OK):
        skip(f"{PROGRAM} does not exist")
    unittest.main(verbosity=2)


def common(at, client="10.0.0.1", path="/", size=17):
    """A line in the common format, at a whole second."""
    when = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(at))
    return f'{client} - - [{when}] "GET {path} HTTP/1.0" 200 {size}'


def random_lines(count, seed=1, per_second=8, clients=9):
    chance = random.Random(seed)
    at = [BEGIN + chance.randrange(count // per_second) for _ in range(count)]
    return [common(t, f"10.0.0.{chance.randint(1, clients)}", f"/{chance.randint(1, 3)}/x") for t in sorted(at)]


class ReplayTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, lines, name="log", end="\n"):
        data = lines if isinstance(lines, bytes) else "".join(line + end for line in lines).encode("latin-1")
        with (gzip.open if name.endswith(".gz") else open)(self.path(name), "wb") as file:
            file.write(data)
        return self.path(name)

    def run_it(self, *args, **how):
        return subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=PATIENCE, **how)

    def replay(self, *args, **how):
        """Returns the report of --json, without the command and the files."""
        done = self.run_it(*args, "--json", **how)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 0)
        found = json.loads(done.stdout)
        del found["command"], found["files"]
        return found

    def rejects(self, status, text, *args, **how):
        """Checks that the program fails with the status, an error that contains the text, and no output."""
        done = self.run_it(*args, **how)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        self.assertTrue(done.stderr.startswith("weir-replay: "), done.stderr)
        self.assertIn(text, done.stderr)
