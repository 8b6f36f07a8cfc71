#!/usr/bin/env python3
"""Checks that an editor shows documentation for the names that users meet first. Asks clangd for the name after each @."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MARK = re.compile(r"@(\w+)")
WORDS = 4  # the least number in a sentence
PATIENCE = 120  # seconds
OLDEST = 16  # clangd 14 shows nothing for a call that co_await takes

SOURCE = """#include <weir/weir.hpp>

#include <boost/asio.hpp>

#include <chrono>
#include <string>

namespace asio = boost::asio;
using namespace std::chrono_literals;

void work();
asio::awaitable<int> make();

asio::awaitable<void> use(asio::io_context& context) {
    weir::@seats workers{
        context, {.@seats = 3}, {.@max_waiting = 100, .@patience = 1s}};
    weir::@token_bucket calls{context, {.rate = {10, 1s}, .@burst = 20}};
    weir::@sliding_log log{context, {.limit = 10, .window = 60s}};
    weir::@keyed<std::string, weir::policy::seats> per_client{context, {.seats = 2}};

    weir::@pool<int> things{context, make};

    auto one = co_await workers.@enter(150ms);
    auto two = co_await workers.@enter();
    auto three = co_await workers.@enter(2, 150ms);
    auto four = co_await workers.@async_enter(150ms, asio::use_awaitable);
    auto five = workers.@try_enter();
    auto six = co_await per_client.@enter("alice", 1s);
    auto place = calls.@reserve();
    weir::@chain all{workers, per_client.@with("alice"), calls};
    auto seven = co_await all.@enter(1s);
    auto eight = co_await per_client.@async_enter("alice", 1s);
    auto nine = per_client.@try_enter_up_to("alice", 2);
    auto ten = co_await workers.@async_enter_until(2, std::chrono::steady_clock::now());
    auto eleven = co_await things.@checkout(1s);
    auto twelve = co_await place.@enter();
    co_await workers.@run(work);
    static_cast<void>(weir::request::@between(2, 3));
    one.@leave();
    workers.@configure({.seats = 4});
    co_await workers.@async_drain(asio::use_awaitable);
    workers.@close();
    static_cast<void>(weir::errc::@timed_out);
    static_cast<void>(workers.@stats().@timed_out);
}
"""


class Clangd:
    def __init__(self, program, folder):
        self.process = subprocess.Popen([program, "--background-index=false", "--log=error", f"--compile-commands-dir={folder}"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.number = 0

    def send(self, method, params, number=None):
        body = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            body["id"] = number
        text = json.dumps(body).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(text) + text)
        self.process.stdin.flush()

    def read(self):
        length = 0
        while line := self.process.stdout.readline().strip():
            name, value = line.split(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return json.loads(self.process.stdout.read(length))

    def ask(self, method, params):
        self.number += 1
        self.send(method, params, self.number)
        while "method" in (answer := self.read()) or answer["id"] != self.number:
            pass
        return answer.get("result")

    def has_words(self, uri, line, character):
        shown = self.ask("textDocument/hover", {"textDocument": {"uri": uri},
                                                "position": {"line": line, "character": character}})
        return shown and len(re.findall(r"[A-Za-z]{2,}", prose(shown["contents"]["value"]))) >= WORDS


def version_of(program):
    """The major version of clangd; 0 if it is not installed."""
    if not shutil.which(program):
        return 0
    shown = subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    found = re.search(r"version (\d+)", shown)
    return int(found[1]) if found else 0


def prose(shown):
    """The words of a hover without its code: signatures, types, offsets."""
    text = re.sub(r"```.*?```", " ", shown, flags=re.S)
    lines = [line for line in text.split("\n")
             if not re.match(r"\s*(###|---|→|-|Type:|Size:|Offset:|Value =|Parameters:|provided by|In )", line)]
    return " ".join(" ".join(lines).split())


def main():
    program = next((p for p in ("clangd-19", "clangd") if version_of(p) >= OLDEST), None)
    if not program:
        print(f"skipped: clangd {OLDEST} or newer is not installed")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "compile_flags.txt"), "w") as flags:
            flags.write(f"-std=c++20\n-I{ROOT}/include\n")
        clangd = Clangd(program, folder)
        uri = f"file://{folder}/names.cpp"
        clangd.ask("initialize", {"processId": None, "rootUri": None, "capabilities": {
            "textDocument": {"hover": {"contentFormat": ["markdown"]}}}})
        clangd.send("initialized", {})
        clangd.send("textDocument/didOpen", {"textDocument": {"uri": uri, "languageId": "cpp", "version": 1, "text": SOURCE.replace("@", "")}})
        marks = [(number, mark.start() - nth, mark[1]) for number, line in enumerate(SOURCE.split("\n"))
                 for nth, mark in enumerate(MARK.finditer(line))]
        silent = marks
        end = time.monotonic() + PATIENCE
        while silent and time.monotonic() < end:  # clangd builds its index in the background
            silent = [one for one in silent if not clangd.has_words(uri, *one[:2])]
            time.sleep(0.2)
        clangd.process.kill()
    for number, _, name in silent:
        print(f"clangd shows no words for `{name}` in: {SOURCE.splitlines()[number].strip()}")
    print(f"{len(marks)} names, {len(silent)} without words")
    return 1 if silent or len(marks) < 20 else 0


if __name__ == "__main__":
    sys.exit(main())
