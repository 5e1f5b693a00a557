"""A server on loopback that speaks S3: python -m tests.s3 PORT; `serving` starts one for tests.

Where it is stands in a file of AWS's settings, whose path is in the environment before any process starts: Spark's
workers have the environment that the JVM was started with. Likewise where copies go.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BUCKET = "fencepost"
UNCONDITIONAL = "unconditional"
"""A directory of the bucket in which the server ignores conditions, as some servers do everywhere."""

_SCRATCH = Path(tempfile.gettempdir(), f"fencepost-tests-{os.getpid()}")
ENVIRONMENT = {"AWS_CONFIG_FILE": str(_SCRATCH / "settings"), "FENCEPOST_CACHE": str(_SCRATCH / "cache")}
"""For the process that tests run in, and all that it starts."""


@contextmanager
def serving() -> Iterator[str]:
    """The URL of an empty bucket, until the server ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _SCRATCH.mkdir(exist_ok=True)
    (_SCRATCH / "settings").write_text(
        "[default]\nregion = us-east-1\naws_access_key_id = tests\naws_secret_access_key = tests\n"
        f"endpoint_url = http://127.0.0.1:{port}\n"
    )
    command = [sys.executable, "-m", "tests.s3", str(port)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        yield f"s3://{_made(server)}"
    finally:
        server.communicate()
        shutil.rmtree(_SCRATCH)


def _made(server: subprocess.Popen[bytes]) -> str:
    """The bucket, once the server answers."""
    from s3fs import S3FileSystem

    while True:
        assert server.poll() is None, "the server has ended"
        try:
            S3FileSystem(skip_instance_cache=True).mkdir(BUCKET)
        except OSError:
            time.sleep(0.1)
        else:
            return BUCKET


def main(port: int) -> None:
    """One request after the other: moto itself looks whether a file exists, then writes it.

    Ends with its input, so also when the tests are killed.
    """
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    def end_with_input() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=end_with_input, daemon=True).start()
    answer = DomainDispatcherApplication(create_backend_app)

    def serve(request: dict[str, Any], respond: Any) -> Any:
        if request["PATH_INFO"].startswith(f"/{BUCKET}/{UNCONDITIONAL}/"):
            request.pop("HTTP_IF_NONE_MATCH", None)
        return answer(request, respond)

    run_simple("127.0.0.1", port, serve, threaded=False)


if __name__ == "__main__":
    main(int(sys.argv[1]))
