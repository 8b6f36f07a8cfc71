#!/usr/bin/env python3
"""Measures the cost of the library to the compilation of a file that uses it, with the libraries of weir::weir and with
the headers alone.

Each file has one coroutine for each limiter. It is compared with the same file without weir, in which the coroutines
await a timer only. Each round compiles each file once, in turns. The script prints the lowest user time, its ratio to
the file without weir, and the additional size of the machine code.

usage: test/bench/compile.py [ROUNDS] [COMPILER AND OPTIONS]...
default: test/bench/compile.py 5 g++ -O2
"""

import os
import pathlib
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

ASIO = """
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <string>
"""

# The jobs of a file: each has a type, an argument of its coroutine, and what it awaits first.
SEATS = ("weir::seats", "workers", "{.seats = 4}", "workers.enter()")
BUCKET = ("weir::token_bucket", "calls", "{.rate = {10, std::chrono::seconds(1)}}", "calls.enter()")
KEYED = ("weir::keyed<std::string, weir::token_bucket>", "clients", "{}", "clients.enter(who)")
CHAIN = ("weir::chain<weir::seats, weir::token_bucket>", "both", None, "both.enter()")
FILES = {
    "seats": (["seats"], [SEATS]),
    "seats, token_bucket": (["seats", "token_bucket"], [SEATS, BUCKET]),
    "chain of the two": (["chain", "seats", "token_bucket"], [SEATS, BUCKET, CHAIN]),
    "keyed token_bucket": (["keyed", "token_bucket"], [KEYED]),
    "seats, with weir.hpp": (["weir"], [SEATS]),
}


def plain(jobs):
    """Returns the jobs without weir."""
    return [("std::string", name, "{}", "pause(timer)") for _, name, _, _ in jobs]


def source(headers, jobs):
    text = ASIO + "".join(f"#include <weir/{h}.hpp>\n" for h in headers)
    text += """
namespace asio = boost::asio;

asio::awaitable<void> pause(asio::steady_timer& timer) {
    timer.expires_after(std::chrono::milliseconds(1));
    co_await timer.async_wait(asio::use_awaitable);
}
"""
    main = ""
    for kind, name, options, enter in jobs:
        if kind == "std::string":
            main += f"    {kind} {name};\n"
        elif options:
            main += f"    {kind} {name}(context, {options});\n"
        else:
            main += f"    weir::chain {name}{{workers, calls}};\n"
        main += f"    asio::co_spawn(context, {name}_job(timer, {name}), asio::detached);\n"
        parameter = f"{kind}&" if options else "auto&"
        text += f"""
asio::awaitable<void> {name}_job(asio::steady_timer& timer, {parameter} {name}) {{
    [[maybe_unused]] std::string const who = "client";
    {"" if enter.startswith("pause") else "auto const permit = "}co_await {enter};
    co_await pause(timer);
}}
"""
    return text + f"""
int main() {{
    asio::io_context context;
    asio::steady_timer timer(context);
    asio::co_spawn(context, pause(timer), asio::detached);
{main}    context.run();
}}
"""


def compile_file(command, path):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run([*command, "-c", path, "-o", f"{path}.o"], check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def code_size(path):
    sizes = subprocess.run(["size", f"{path}.o"], check=True, capture_output=True, text=True).stdout
    return int(sizes.splitlines()[1].split()[0])


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    compiler = sys.argv[2:] or ["g++", "-O2"]
    command = [*compiler, "-std=c++20", "-DNDEBUG", f"-I{ROOT / 'include'}"]
    ways = {"libraries": ["-DWEIR_COMPILED_LIMITERS"], "headers": [], "without": []}
    best, sizes = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for i, (name, (headers, jobs)) in enumerate(FILES.items()):
            pathlib.Path(folder, f"{i}.cpp").write_text(source(headers, jobs))
            pathlib.Path(folder, f"{i}_without.cpp").write_text(source([], plain(jobs)))
        for _ in range(rounds):
            for i, name in enumerate(FILES):
                for way, options in ways.items():
                    path = f"{folder}/{i}{'_without' if way == 'without' else ''}.cpp"
                    took = compile_file(command + options, path)
                    best[name, way] = min(took, best.get((name, way), took))
                    sizes[name, way] = code_size(path)
    print(f"{'':22}{'without weir':>13}{'with the libraries':>24}{'headers alone':>24}")
    print(f"{'file':22}{'s':>13}" + 2 * f"{'s':>8}{'ratio':>8}{'kB':>8}")
    for name in FILES:
        floor = best[name, "without"]
        line = f"{name:22}{floor:13.2f}"
        for way in ("libraries", "headers"):
            kilobytes = (sizes[name, way] - sizes[name, "without"]) / 1000
            line += f"{best[name, way]:8.2f}{best[name, way] / floor:8.2f}{kilobytes:8.1f}"
        print(line)


if __name__ == "__main__":
    main()
