"""Proxies that run beside each other in one benchmark, with the processor time and the memory that each uses."""

import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess

WEIR = os.environ.get("WEIR_PROXY", str(pathlib.Path(__file__).resolve().parents[2] / "build/release/src/weir-proxy"))


def program(name):
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin")


def unused_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Proxy:
    """A started program and its workers. A weir-proxy tells its port in the first line of its output."""

    def __init__(self, name, command, port=None):
        self.name, self.port, self.figures = name, port, {}
        output = None if port else subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.DEVNULL, text=True)
        if output:
            self.port = int(re.search(r"://127\.0\.0\.1:(\d+)", self.process.stdout.readline())[1])

    def processes(self):
        pid = self.process.pid
        return [pid, *map(int, pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port))

    def processor_time(self):
        """In seconds, as the scheduler counts them."""
        return sum(int(task.read_text().split()[0]) for pid in self.processes()
                   for task in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9

    def memory(self):
        """In KiB, without the pages of files."""
        return sum(int(re.search(r"RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])
                   for pid in self.processes())

    def note(self, what, value):
        self.figures.setdefault(what, []).append(value)

    def end(self):
        self.process.terminate()
        self.process.wait()


def medians(proxies):
    """Prints a column for each proxy, and the median of the ratio of the first proxy to each other one in the same round."""
    print(f"{'':34}", *(f"{p.name:>12}" for p in proxies), *(f"{'/ ' + p.name:>12}" for p in proxies[1:]))
    for what, own in proxies[0].figures.items():
        ratios = (statistics.median(a / b if b else float("nan") for a, b in zip(own, p.figures[what])) for p in proxies[1:])
        print(f"{what:34}", *(f"{statistics.median(p.figures[what]):12.4g}" for p in proxies), *(f"{r:12.2f}" for r in ratios))
