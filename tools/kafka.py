"""A Kafka broker on loopback, and Spark's connector to it: ``python -m tools.kafka start|stop|connector``.

Jars come from Maven's repositories and stay in the cache; the broker is one process (KRaft) on a free port.
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from fencepost._java import prepare_java
from fencepost.errors import FencepostError
from fencepost.pipeline.connector import fetch_connector, jar_cache, run_maven

__all__ = ["Broker", "broker_jars"]

_KAFKA = "4.2.1"
_COPY_ALL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>fencepost</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{version}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""
_CLUSTER = "fencepost-on-loopback1"
_PATIENCE = 60.0
_HERE = Path("build") / "kafka"


def broker_jars() -> Path:
    """The directory of the broker's jars; they are fetched where the cache does not have them."""
    target = jar_cache() / f"kafka_2.13-{_KAFKA}"
    if not (target / "complete").exists():
        target.mkdir(parents=True, exist_ok=True)
        (target / "pom.xml").write_text(_POM.format(version=_KAFKA))
        run_maven(["-f", str(target / "pom.xml"), _COPY_ALL, f"-DoutputDirectory={target}"], f"kafka_2.13:{_KAFKA}")
        (target / "complete").touch()
    return target


class Broker:
    """A broker whose log survives its process.

    Args:
        directory: for its log and settings; what is there is taken up again.
        port: to listen on; without one, a free one that stays the same over restarts.
    """

    def __init__(self, directory: Path, port: int | None = None) -> None:
        self.directory = directory.absolute()
        self._jars = broker_jars()
        self._settings = self.directory / "server.properties"
        if not self._settings.exists():
            self._format(port or _free_port())
        found = dict(line.split("=", 1) for line in self._settings.read_text().splitlines())
        self.servers = found["advertised.listeners"].removeprefix("PLAINTEXT://")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Serve, and return once it listens."""
        if self._answers():
            raise FencepostError(f"{self.servers}, which is taken", "a free port", "Stop what listens, or name --port.")
        with (self.directory / "broker.log").open("ab") as log:
            command = self._java("kafka.Kafka", str(self._settings))
            # A session of its own, so that Ctrl-C in a terminal reaches only who asked for the broker.
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603
        (self.directory / "pid").write_text(str(self._process.pid))
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and self._process.poll() is None:
            if self._answers():
                return
            time.sleep(0.1)
        self.kill()
        raise FencepostError(
            f"a broker that does not listen on {self.servers}",
            f"an answer within {_PATIENCE:g} seconds",
            f"Look into {self.directory / 'broker.log'}.",
        )

    def _answers(self) -> bool:
        host, port = self.servers.split(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL: the broker has no chance to end in order."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """End the broker in order."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.kill()

    def cpu_seconds(self) -> float:
        """CPU seconds that the running broker has used."""
        assert self._process is not None, "the broker was started"
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def _format(self, port: int) -> None:
        """Settings and an empty log."""
        controller = _free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.directory / "log"),
            "num.partitions": "2",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        draft = self.directory / "server.draft"
        draft.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = self._java("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(draft))
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603
        draft.replace(self._settings)

    def _java(self, *arguments: str) -> list[str]:
        return [prepare_java().command, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{self._jars}/*", *arguments]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _stop_started(directory: Path) -> None:
    """End the broker that an earlier command has started."""
    noted = directory / "pid"
    if not noted.exists():
        print("no broker was started here")
        return
    pid = int(noted.read_text())
    noted.unlink()
    told = subprocess.run(["ps", "-o", "args=", "-p", str(pid)], capture_output=True, check=False)  # noqa: S603, S607
    if b"kafka.Kafka" in told.stdout:
        os.kill(pid, signal.SIGTERM)
        print(f"stopped {pid}")


def main() -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tools.kafka", description=__doc__)
    parser.add_argument("command", choices=["start", "stop", "connector"])
    parser.add_argument("--directory", type=Path, default=_HERE, help="for the log and settings of the broker")
    parser.add_argument("--port", type=int, default=9092, help="of a broker that starts for the first time there")
    given = parser.parse_args()
    try:
        if given.command == "stop":
            _stop_started(given.directory)
            return 0
        print("connector:", ",".join(map(str, fetch_connector())))
        if given.command == "start":
            broker = Broker(given.directory, given.port)
            broker.start()
            print(f"broker: {broker.servers}, log in {broker.directory}; python -m tools.kafka stop ends it")
    except FencepostError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
