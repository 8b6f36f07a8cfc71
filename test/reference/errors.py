"""errors.md and responses.md have all errors and responses of the sources, with their texts."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def source(path):
    """The text of a file, without line breaks in string literals."""
    return re.sub(r'"\s+"', "", (ROOT / path).read_text())


def tables(page, title):
    """The rows of the tables below a title of the page."""
    text = (ROOT / f"src/docs/reference/{page}.md").read_text()
    part = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.S | re.M)[1]
    found = re.findall(r"^\|[-|]+\n((?:\|.*\n)+)", part, re.M)
    return [[[cell.strip().strip("`") for cell in line.strip("| \n").split(" | ")] for line in one.splitlines()] for one in found]


def enumerators(header):
    """The names and the comments of an enumeration `errc`."""
    body = re.search(r"^enum class errc \{\n(.*?)^\};", source(header), re.S | re.M)[1]
    return re.findall(r"^    (\w+)(?: = 1)?,$", body, re.M)


def messages(file):
    return re.findall(r'case errc::(\w+):\s*return "(.*?)";', source(file))


class Errors(unittest.TestCase):
    def check(self, title, header, file):
        table = tables("errors", title)[0]
        names = [row[0] for row in table]
        self.assertEqual(names, enumerators(header))
        self.assertEqual([tuple(row[:2]) for row in table], messages(file))
        for row in table:
            self.assertIn(row[-1], ("yes", "later", "no"))
            self.assertTrue(all(row), row)

    def test_errors_of_limiters(self):
        self.check("weir::errc", "include/weir/error.hpp", "src/weir/error.cpp")

    def test_errors_of_redis(self):
        self.check("weir::redis::errc", "include/weir/redis/error.hpp", "src/weir/redis/error.cpp")

    def test_generic_conditions(self):
        cases = re.search("default_error_condition.*?^    }", source("src/weir/error.cpp"), re.S | re.M)[0]
        conditions, waiting = {}, []
        for name, condition in re.findall(r"case errc::(\w+):|generic::make_error_condition\(generic::(\w+)\)", cases):
            waiting += [name] if name else []
            if condition:
                conditions.update({one: condition for one in waiting})
                waiting = []
        self.assertEqual({row[0]: row[1] for row in tables("errors", "weir::errc")[1]}, conditions)
        self.assertGreater(len(conditions), 5)

    def test_exceptions(self):
        declared = source("include/weir/error.hpp")
        for name, _, members in tables("errors", "Exceptions")[0]:
            if not name.startswith("std::"):
                body = re.search(rf"^class {name} : public.*?^}};", declared, re.S | re.M)[0]
                for member in re.findall(r"(\w+)\(\)", members):
                    self.assertTrue(member == "code" or f" {member}() const" in body, (name, member))


class Responses(unittest.TestCase):
    def test_texts_and_statuses(self):
        found = set()
        for file in ("http/head", "proxy/reading", "proxy/failure", "proxy/decision", "proxy/key", "proxy/routes"):
            found |= set(re.findall(r'\{(\d\d\d),\s+"(.*?)"', source(f"src/{file}.cpp")))
            found |= set(re.findall(r'\? http::fault\{(\d\d\d), "(.*?)"', source(f"src/{file}.cpp")))
        connection = re.search(r"fault session::fault_of_\w+\(exchange.*?^}", source("src/proxy/session.cpp"), re.S | re.M)[0]
        found |= set(re.findall(r'return \{(\d\d\d),\s+"(.*?)"', connection))
        limit = source("src/proxy/limit.cpp")
        seats = re.search(r'return \{status, "(.*?)",\s+"(.*?)",\s+"(.*?)"\}', limit).groups()
        found |= {("503", text) for text in seats}
        found |= {("429", text) for text in re.findall('[?:] "((?:too many|locked).*?)"', limit)}
        found |= {("429" if text.startswith("the request") else "503", text)
                  for text in re.findall('return "(.*?)";', source("src/proxy/gate.cpp"))}
        listed = {tuple(row[:2]) for title in ("By a limit", "By a route", "By the upstream", "By the client")
                  for row in tables("responses", title)[0]}
        self.assertEqual(listed, found)
        self.assertGreater(len(found), 40)


if __name__ == "__main__":
    unittest.main()
