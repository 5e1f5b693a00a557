"""A standalone cluster on loopback, from the pip package alone: a master and two workers, in one process group."""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Self

import pyspark

_HOME = Path(pyspark.__file__).parent
_PATIENCE = 90


class Cluster:
    """Starts on entry, and ends with all that it started on exit.

    Args:
        scratch: an empty directory for logs and the workers' files.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._started: list[subprocess.Popen[bytes]] = []
        self._port, self._page = _free_port(), _free_port()
        self.master = f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        try:
            ports = ["--port", str(self._port), "--webui-port", str(self._page)]
            self._start("master", "master.Master", "--host", "127.0.0.1", *ports)
            for number in range(2):
                size = ["--cores", "1", "--memory", "1g", "--work-dir", str(self._scratch / f"worker{number}")]
                self._start(f"worker{number}", "worker.Worker", "--host", "127.0.0.1", *size, self.master)
            self._wait_for_workers(2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._started:
            os.killpg(self._started[0].pid, signal.SIGKILL)
            for process in self._started:
                process.wait()

    def kill_worker(self, number: int) -> None:
        """As if its machine were lost: the worker and the executors that it runs."""
        worker = self._started[1 + number].pid
        for process in (*_children(worker), worker):
            os.kill(process, signal.SIGKILL)
        self._started[1 + number].wait()

    def logs(self) -> str:
        """The end of every log, for a failure."""
        files = [*self._scratch.glob("*.log"), *self._scratch.glob("worker*/*/*/stderr")]
        return "\n".join(f"== {file}\n{file.read_text()[-1500:]}" for file in files)

    def _start(self, name: str, kind: str, *arguments: str) -> None:
        environment = os.environ | {"SPARK_HOME": str(_HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"}
        with (self._scratch / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603
                [str(_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments],
                env=environment,
                stdout=log,
                stderr=log,
                process_group=self._started[0].pid if self._started else 0,
            )
        self._started.append(process)

    def _wait_for_workers(self, count: int) -> None:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            assert all(process.poll() is None for process in self._started), self.logs()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/") as page:
                    if page.read().count(b'"ALIVE"') >= count:
                        return
            except OSError:
                pass  # not there yet
            time.sleep(0.2)
        raise AssertionError(f"no {count} workers within {_PATIENCE} seconds\n{self.logs()}")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def _children(parent: int) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # gone meanwhile
        if int(fields[1]) == parent:
            found.append(int(status.parent.name))
    return found
