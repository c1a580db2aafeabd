"""Runs a real PostgreSQL for tests: in a folder of its own, behind a Unix socket.

It is started as a process and ended by its id.  It refuses to run as root, so root starts it as another user.
"""

import contextlib
import itertools
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Final, Self

__all__ = ["PostgresMissingError", "PostgresServer"]

_DEBIAN: Final = Path("/usr/lib/postgresql")
_START_TIMEOUT_S: Final = 180.0
_USER: Final = "alcove"
_THRIFTY: Final = {
    "fsync": "off",  # killing the database's own machine is not what is tested
    "full_page_writes": "off",
    "autovacuum": "off",  # it starts a process for each of hundreds of databases
}
_PREFIX: Final = "alcove-pg-"  # of a folder; then the process that made it


class PostgresMissingError(Exception):
    """No PostgreSQL can be started here; the message says what to install."""


class PostgresServer:
    """A running PostgreSQL with no database in it but those that it is asked for.

    Attributes:
        folder: its data, its log and its socket; removed by `stop`.
        password: of the user whose name is in the URLs; connections without it are refused.
    """

    def __init__(self, folder: Path, process: "subprocess.Popen[Any]", binaries: Path, password: str) -> None:
        self.folder = folder
        self.password = password
        self._process = process
        self._binaries = binaries
        self._names = itertools.count()

    @classmethod
    def start(cls, place: Path | None = None) -> Self:
        """Make a server and wait until it answers.

        Args:
            place: what gets its folder, one that every user may enter; None: that of temporary files.

        Raises:
            PostgresMissingError: there are no binaries, or no user to run them as.
        """
        binaries, user = _binaries(), _user()
        # Not pytest's folder: only its owner may enter that, and a socket's path has at most 107 bytes.
        place = place or Path(tempfile.gettempdir())
        _remove_orphans(place)
        folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))
        password = secrets.token_hex(16)
        try:
            (folder / "password").write_text(password)
            if user is not None:
                for path in (folder, folder / "password"):
                    os.chown(path, user.pw_uid, user.pw_gid)
            data = folder / "data"
            locale = ["--no-locale", "--encoding=UTF8"]
            access = ["--auth=scram-sha-256", f"--username={_USER}", f"--pwfile={folder / 'password'}"]
            _run_as(user, [str(binaries / "initdb"), "--no-sync", *locale, *access, f"--pgdata={data}"], folder)
            settings = {"listen_addresses": "", "unix_socket_directories": str(folder), **_THRIFTY}
            options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
            with (folder / "log").open("wb") as log:
                process = subprocess.Popen(  # noqa: S603 - the database that was found
                    [str(binaries / "postgres"), "-D", str(data), *options],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    **_as(user),
                )
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        server = cls(folder, process, binaries, password)
        try:
            server._wait()
        except BaseException:
            server.stop()
            raise
        return server

    def stop(self) -> None:
        """End the server and remove its folder."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)  # "immediate": what it holds is thrown away
            self._process.wait(_START_TIMEOUT_S)
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, name: str) -> str:
        """Return the URL of a database, with user and password."""
        return f"postgresql://{_USER}:{self.password}@/{name}?host={self.folder}"

    def database(self, template: str = "template0") -> str:
        """Make a database, empty or like another one; return its name."""
        import psycopg  # noqa: PLC0415

        name = f"alcove_{next(self._names)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        return name

    def drop(self, name: str) -> None:
        """Remove a database, with whoever is still connected to it."""
        import psycopg  # noqa: PLC0415

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def end_connections(self) -> None:
        """Break every connection to every database, as a restart or a network would."""
        import psycopg  # noqa: PLC0415

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )

    def set_open(self, name: str, *, is_open: bool) -> None:
        """Let a database be there, or be away: connections to it end, and new ones are refused."""
        import psycopg  # noqa: PLC0415

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS {str(is_open).lower()}".encode())
        if not is_open:
            self.end_connections()

    def _wait(self) -> None:
        import psycopg  # noqa: PLC0415

        end_s = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
            except psycopg.OperationalError:
                if self._process.poll() is not None or time.monotonic() > end_s:
                    log = (self.folder / "log").read_text(errors="replace")
                    raise RuntimeError(f"PostgreSQL did not start:\n{log}") from None
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(0.05)
            else:
                return


def _remove_orphans(place: Path) -> None:
    """End the servers whose makers were killed before they could, and remove their folders, half a gigabyte each."""
    for folder in place.glob(f"{_PREFIX}*-*"):
        maker = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if not maker.isdecimal() or Path("/proc", maker).exists() or not Path("/proc/self").exists():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):  # it had not started, or ended
            number = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
            if os.fsencode(folder) in Path("/proc", str(number), "cmdline").read_bytes():
                os.kill(number, signal.SIGQUIT)
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path:
    places = sorted(_DEBIAN.glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    on_path = shutil.which("postgres")
    if on_path is not None:
        places.append(Path(on_path).resolve().parent)
    for place in places:
        if (place / "initdb").is_file() and (place / "postgres").is_file():
            return place
    raise PostgresMissingError("PostgreSQL is not installed: sudo apt-get install postgresql")


def _user() -> pwd.struct_passwd | None:
    """Return the user to become, or None where this process may stay who it is."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise PostgresMissingError("PostgreSQL refuses to run as root, and there is no user 'postgres' or 'nobody'")


def _as(user: pwd.struct_passwd | None) -> dict[str, Any]:
    if user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _run_as(user: pwd.struct_passwd | None, command: list[str], folder: Path) -> None:
    done = subprocess.run(  # noqa: S603 - the database that was found
        command, cwd=folder, capture_output=True, text=True, check=False, **_as(user)
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} failed:\n{done.stderr}")
