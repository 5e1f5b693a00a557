"""What is no HTTP is refused as everything else is."""

import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.service.servers import listening
from tests.service.services import serving


@pytest.mark.parametrize("sent", [b"GET /v1/rules?q=a b\x01 HTTP/1.1\r\n\r\n", b"\x16\x03\x01 hello\r\n\r\n"])
def test_a_request_that_cannot_be_read_is_refused_in_plain_words(tmp_path: Path, sent: bytes) -> None:
    with serving(tmp_path / "data") as service, listening(service) as url:
        address = urlsplit(url)
        with socket.create_connection((address.hostname, address.port), timeout=10) as connection:
            connection.sendall(sent)
            with connection.makefile("rb") as answer:
                head, _, body = answer.read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in head
    refusal = json.loads(body)
    assert set(refusal) == {"got", "expected", "remedy", "message"}
    assert refusal["message"].startswith("A request that cannot be read; expected a request as HTTP/1.1 has it. Encode")
