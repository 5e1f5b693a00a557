"""What a running pipeline says: lines with time and level, as text or JSON; one line of progress on a terminal."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from fencepost._text import mask_urls, printable_lines

LogFormat = Literal["text", "json"]
_FIELDS = "fencepost_fields"
_REDRAWN, _LOGGED = 0.2, 5.0
"""Seconds between two signs of progress, on a terminal and elsewhere."""


class Log:
    """Writes to a stream; no line shows a secret, and none can steer a terminal.

    Args:
        out: the stream.
        form: ``text``, or ``json`` for an object a line with ``time``, ``level``, ``message`` and further fields.
        hide: takes the secrets out of a text.
    """

    def __init__(self, out: TextIO, form: LogFormat = "text", hide: Callable[[str], str] = mask_urls) -> None:
        self._out, self.hide = out, hide
        self._redraws = form == "text" and out.isatty()
        self._drawn, self._since = False, time.monotonic()
        handler = logging.StreamHandler(out)
        handler.setFormatter(_JsonLines() if form == "json" else _TextLines())
        self._logger = logging.Logger("fencepost", logging.INFO)
        self._logger.addHandler(handler)

    def info(self, message: str, **fields: Any) -> None:
        """Something that a person may want to know."""
        self._write(logging.INFO, message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        """Something that goes on although it should not."""
        self._write(logging.WARNING, message, fields)

    def error(self, message: str, **fields: Any) -> None:
        """Something that ends the pipeline."""
        self._write(logging.ERROR, message, fields)

    def show(self, line: str, fields: Mapping[str, Any]) -> None:
        """Progress: over the last line of it on a terminal, a line of its own elsewhere."""
        if self._redraws:
            self._out.write(f"\r\x1b[K{line}")
            self._out.flush()
            self._drawn = True
        else:
            self._write(logging.INFO, line, {"progress": fields})

    def progress(self, step: str, done: int, total: int | None) -> None:
        """How far something is that a book's rules have to go through: now and then, and not where it is done soon."""
        now = time.monotonic()
        if not done:
            self._since = now
        if now - self._since >= (_REDRAWN if self._redraws else _LOGGED):
            self._since = now
            of = "" if total is None else f" of {total:,}"
            self.show(f"{step} rules: {done:,}{of}", {"step": step, "done": done, "total": total})

    def _write(self, level: int, message: str, fields: Mapping[str, Any]) -> None:
        if self._drawn:
            self._out.write("\n")
            self._drawn = False
        self._logger.log(level, "%s", printable_lines(self.hide(message)), extra={_FIELDS: fields})


class _TextLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One line, or several where the message has them."""
        at = datetime.fromtimestamp(record.created, UTC)
        return f"{at:%Y-%m-%dT%H:%M:%SZ} {record.levelname} {record.getMessage()}"


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """One object."""
        said = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        return json.dumps(said, default=str)
