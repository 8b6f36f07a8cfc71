"""Compares the windows of calendars with the clocks of Python's zoneinfo.

usage: zones.py PROGRAM [DIRECTORY]     PROGRAM is calendar_spans; DIRECTORY has the files of the zones

A window begins at the first instant at which a clock in the zone shows one of its days. The test looks at the clock each
quarter of an hour from 1990 to 2060. In a quarter in which a new day begins, it looks at each second, unless the clock runs
evenly through the quarter: then the clock itself gives the second.

The files of the system may list all changes until 2037. If zic is installed, the test also compares files that list as
few changes as possible, and leave the others to the rule at their end."""

import concurrent.futures
import datetime
import os
import shutil
import subprocess
import sys
import tempfile
import zoneinfo

ZONES = [
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",  # has summer time in the southern hemisphere, from midnight, until 2019
    "America/St_Johns",  # changed at one minute past midnight until 2011
    "Pacific/Apia",  # skipped 30 December 2011
    "Asia/Kolkata",
    "Africa/Cairo",  # changes at midnight
    "America/Havana",
    "Australia/Lord_Howe",  # has summer time of half an hour
    "Asia/Gaza",  # changes at the end of Ramadan
]
FIRST = 631152000  # 1990
LAST = 2840140800  # 2060
QUARTER = 900


def day_of(t, zone):
    return datetime.datetime.fromtimestamp(t, zone).toordinal()


def first_second(after, day, zone):
    """The first second in the quarter of an hour after `after` at which the clock shows `day` or a later one."""
    end = datetime.datetime.fromtimestamp(after + QUARTER, zone)
    begin = datetime.datetime.fromtimestamp(after, zone)
    if begin.utcoffset() == end.utcoffset():
        midnight = end.replace(hour=0, minute=0, second=0)
        found = after + QUARTER - int((end.replace(tzinfo=None) - midnight.replace(tzinfo=None)).total_seconds())
        if day_of(found, zone) >= day > day_of(found - 1, zone):
            return found
    return next(t for t in range(after, after + QUARTER + 1) if day_of(t, zone) >= day)


def begins(zone):
    """The first second of each day that a clock in the zone shows, as pairs of the day and the second."""
    found = []
    last = day_of(FIRST, zone)
    for t in range(FIRST, LAST, QUARTER):
        day = day_of(t, zone)
        while day > last:
            # A day that is skipped has no window; a quarter can have more than one change.
            second = first_second(t - QUARTER, last + 1, zone)
            last = day_of(second, zone)
            found.append((last, second))
    return found


def windows(days):
    """The beginnings of the windows of each unit, in the order of the program."""
    dates = [(datetime.date.fromordinal(day), second) for day, second in days]
    for name in (lambda d: d, lambda d: d.isocalendar()[:2], lambda d: (d.year, d.month)):
        yield [s for (before, _), (d, s) in zip(dates, dates[1:]) if name(before) != name(d)]


def compare(program, name, directory):
    with open(os.path.join(directory, name), "rb") as file:
        zone = zoneinfo.ZoneInfo.from_file(file, name)
    days = begins(zone)
    output = subprocess.run(
        [program, name, str(FIRST), str(LAST)],
        env={**os.environ, "TZDIR": directory}, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    errors = 0
    for unit, expected in enumerate(windows(days)):
        found = [int(line.split()[1]) for line in output if line.startswith(f"{unit} ")]
        found = [t for t in found if days[0][1] < t <= days[-1][1]]
        if found != expected:
            errors += 1
            missing = sorted(set(expected) - set(found))[:3]
            wrong = sorted(set(found) - set(expected))[:3]
            print(f"{directory}/{name}, unit {unit}: missing {missing}, wrong {wrong}")
    return errors, sum(map(len, windows(days)))


def main():
    program = sys.argv[1]
    system = sys.argv[2] if len(sys.argv) > 2 else os.environ.get("TZDIR", "/usr/share/zoneinfo")
    if not os.path.exists(os.path.join(system, ZONES[0])):
        print(f"skipped: {system} has no time zones; install tzdata")
        return 77
    with tempfile.TemporaryDirectory() as slim, concurrent.futures.ProcessPoolExecutor(2) as pool:
        jobs = [(program, name, system) for name in ZONES]
        zic = shutil.which("zic", path=os.environ.get("PATH", "") + ":/usr/sbin")
        source = os.path.join(system, "tzdata.zi")
        if zic and os.path.exists(source):
            subprocess.run([zic, "-b", "slim", "-d", slim, source], check=True)
            jobs += [(program, name, slim) for name in ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe")]
        results = list(pool.map(compare, *zip(*jobs)))
    errors = sum(e for e, _ in results)
    print(f"{len(jobs)} zones, {sum(n for _, n in results)} windows, {errors} differences")
    return errors != 0


if __name__ == "__main__":
    sys.exit(main())
