"""A real PostgreSQL for tests: one that FENCEPOST_TEST_POSTGRES names, or one started from Debian's binaries."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import psycopg

BINARIES = [
    *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)),
    *os.environ.get("PATH", "").split(os.pathsep),
]


def binary(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join(BINARIES))


def missing() -> str | None:
    """Why there is no server to test with; None if there is one."""
    if os.environ.get("FENCEPOST_TEST_POSTGRES") or (binary("initdb") and binary("postgres")):
        return None
    return "no PostgreSQL: install Debian's postgresql package, or set FENCEPOST_TEST_POSTGRES to the URL of a server"


@contextmanager
def server() -> Iterator[str]:
    """The URL of an empty database."""
    given = os.environ.get("FENCEPOST_TEST_POSTGRES")
    if given:
        yield given
        return
    home = Path(mkdtemp(prefix="fencepost-postgres-"))
    # The server refuses to run as root.
    user = "postgres" if os.getuid() == 0 else None
    if user:
        shutil.chown(home, user)
    try:
        data = home / "data"
        initdb = [str(binary("initdb")), "-D", str(data), "-U", "fencepost", "--auth=trust", "--no-sync", "-E", "UTF8"]
        subprocess.run(initdb, check=True, capture_output=True, user=user, cwd=home)  # noqa: S603
        # A socket in a directory of our own: no port that another server could have.
        settings = ["-k", str(home), "-c", "listen_addresses=", "-c", "fsync=off"]
        with (home / "log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603
                [str(binary("postgres")), "-D", str(data), *settings], stdout=log, stderr=log, user=user, cwd=home
            )
        try:
            url = f"postgresql://fencepost@/postgres?host={home}"
            wait_for(url, process, home / "log")
            yield url
        finally:
            process.terminate()
            process.wait(60)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(600):
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if process.poll() is not None:
                raise AssertionError(log.read_text(errors="replace")) from None
            try:
                process.wait(0.1)
            except subprocess.TimeoutExpired:
                continue
        else:
            return
    raise AssertionError(f"no answer in a minute: {log.read_text(errors='replace')}")


def emptied(url: str) -> str:
    """The same database without any book."""
    with psycopg.connect(url, autocommit=True) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'fencepost!_%' ESCAPE '!'")
        for (name,) in found.fetchall():
            connection.execute(f'DROP TABLE "{name}" CASCADE'.encode())
    return url
