"""Starts the servers of stores."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

from support import PATIENCE, PROXY, wait_until


def needs(scheme):
    """Skips a test if the program was built without the library. Otherwise the program reports an error about the port."""
    result = subprocess.run([PROXY, "--demo", "--listen", "127.0.0.1:0", "--rate", "1/1s", "--store",
                             f"{scheme}://nowhere:no/weir"],
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
    if "was built without" in result.stderr:
        raise unittest.SkipTest(result.stderr)


def program(*names):
    found = next(filter(None, map(shutil.which, names)), None)
    if not found:
        raise unittest.SkipTest(f"there is no {names[0]}; to mend it, run test/setup")
    return found


class Server:
    """A server program in its own folder."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="weir-proxy-store-")
        self.path = pathlib.Path(self.folder.name)
        self.socket = self.path / "socket"
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        wait_until(self.answers, "the server")

    def answers(self):
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(str(self.socket)) == 0

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self):
        self.kill()
        self.folder.cleanup()


class Redis(Server):
    def __init__(self):
        super().__init__()
        self.program = program("redis-server")
        self.url = f"unix:{self.socket}"
        needs("redis")
        self.start()

    def command(self):
        return [self.program, "--port", "0", "--unixsocket", str(self.socket), "--dir", self.folder.name, "--save", "",
                "--appendonly", "no"]


class MariaDB(Server):
    def __init__(self):
        super().__init__()
        self.program = program("mariadbd", "/usr/sbin/mariadbd")
        self.url = f"mysql://root@/weir?socket={self.socket}"
        needs("mysql")
        scripts = next((p for p in map(pathlib.Path, ("/usr/share/mysql", "/usr/share/mariadb"))
                        if (p / "mysql_system_tables.sql").exists()), None)
        if not scripts:
            raise unittest.SkipTest("there are no scripts of mariadbd")
        bootstrap = "create database mysql;\nuse mysql;\nset @auth_root_socket = null;\n"
        for name in ("mysql_system_tables.sql", "mysql_system_tables_data.sql"):
            bootstrap += (scripts / name).read_text()
        for folder in ("data", "tmp"):
            (self.path / folder).mkdir()
        subprocess.run([*self.command(), "--bootstrap"], input=bootstrap + "\ncreate database weir;\n", text=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        self.start()

    def command(self):
        return [self.program, "--no-defaults", "--user=root", "--skip-name-resolve", "--skip-networking",
                "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=2",
                f"--datadir={self.path}/data", f"--tmpdir={self.path}/tmp", f"--socket={self.socket}"]


class MariaDBWithCertificates(MariaDB):
    """A server with a self-signed certificate. A second self-signed one, `other`, does not belong to it."""

    def command(self):
        for name in ("own", "other"):
            if not (self.path / f"{name}.crt").exists():
                subprocess.run([program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
                                "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", f"{self.path}/{name}.key", "-out",
                                f"{self.path}/{name}.crt", "-days", "2", "-subj", "/CN=weir", "-addext",
                                "subjectAltName=IP:127.0.0.1"], stderr=subprocess.DEVNULL, check=True)
        return [*super().command(), f"--ssl-key={self.path}/own.key", f"--ssl-cert={self.path}/own.crt"]


class PostgreSQL(Server):
    """It refuses to run as root: then it runs as the user `postgres`."""

    def __init__(self):
        super().__init__()
        programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        if not programs:
            raise unittest.SkipTest("there is no PostgreSQL server; to mend it, run test/setup")
        self.folder_of_programs = programs[-1].parent
        self.url = f"postgresql://postgres@/weir?host={self.path}"
        needs("postgresql")
        self.as_user = []
        if os.getuid() == 0:
            self.as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL"]
            shutil.chown(self.path, "postgres")
        self.run("initdb", f"--pgdata={self.path}/data", "--username=postgres", "--auth=trust", "--no-sync")
        self.start()
        self.run("createdb", f"--host={self.path}", "--username=postgres", "weir")

    def run(self, name, *arguments):
        subprocess.run([*self.as_user, self.folder_of_programs / name, *arguments], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, cwd=self.path)

    def command(self):
        return [*self.as_user, self.folder_of_programs / "postgres", "-D", f"{self.path}/data", "-k", self.folder.name,
                "-h", "", "-c", "fsync=off", "-c", "shared_buffers=16MB"]

    def answers(self):
        try:
            self.run("pg_isready", f"--host={self.path}")
        except subprocess.CalledProcessError:
            return False
        return True

    def kill(self):
        """Ends its other processes, too, but saves nothing."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()
