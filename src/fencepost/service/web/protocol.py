"""HTTP as the service speaks it: what is no HTTP is refused in the words of every other refusal."""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from fencepost.service.web.answers import to_refusal


class Protocol(HttpToolsProtocol):
    """A connection; uvicorn alone would answer with a line of text."""

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002, uvicorn names it
        """Refuse a request that cannot be read, and end the connection."""
        remedy = "Encode what stands in the address (%20 for a blank), and write headers in ASCII."
        answer = to_refusal("a request that cannot be read", "a request as HTTP/1.1 has it", remedy, 400)
        headers = [*answer.raw_headers, (b"connection", b"close")]
        lines = [b"%s: %s\r\n" % (name, value) for name, value in headers]
        self.transport.write(b"".join([STATUS_LINE[400], *lines, b"\r\n", bytes(answer.body)]))
        self.transport.close()
