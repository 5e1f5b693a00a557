"""A registry of schemas on loopback that answers as Confluent's does, and may ask for a user and a password."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import unquote

__all__ = ["Registry"]


class Registry:
    """Schemas by id, and the ids of subjects in the order of their versions."""

    def __init__(self, user: str | None = None) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        """The paths of all requests."""
        self._expected = None if user is None else f"Basic {base64.b64encode(user.encode()).decode()}"
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.asked.append(self.path)
                status, content = registry.answer(self.path, self.headers.get("Authorization"))
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def add(self, id: int, schema: Any, subject: str | None = None, **more: Any) -> None:
        self.schemas[id] = {"schema": schema if isinstance(schema, str) else json.dumps(schema), **more}
        if subject is not None:
            self.subjects.setdefault(subject, []).append(id)

    def answer(self, path: str, user: str | None) -> tuple[int, Any]:
        if user != self._expected:
            return 401, {"error_code": 401}
        match [unquote(part) for part in path.strip("/").split("/")]:
            case ["schemas", "ids", id] if int(id) in self.schemas:
                return 200, self.schemas[int(id)]
            case ["subjects", subject, "versions"] if subject in self.subjects:
                return 200, list(range(1, len(self.subjects[subject]) + 1))
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                ids = self.subjects[subject]
                found = ids[-1 if version == "latest" else int(version) - 1]
                return 200, {"subject": subject, "id": found, **self.schemas[found]}
        return 404, {"error_code": 40401}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
