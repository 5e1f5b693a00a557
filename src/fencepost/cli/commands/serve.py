"""`fencepost serve`: the engine as a process that one can call."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli.options import Timeout, Types
from fencepost.cli.output import note
from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.book.tokens import Tokens

_ADMIN = "first"
_TOKENS_WAIT = 5.0
"""Seconds that a call waits for a book that others write to, before what is known of a token counts."""


def serve(
    data: Annotated[
        Path, typer.Option("--data", metavar="DIR", help="Where the book, the rows and the events are kept.")
    ] = Path("fencepost-data"),
    book: Annotated[
        str | None,
        typer.Option(
            "--book", envvar="FENCEPOST_BOOK", metavar="URL", help="The rule book, if not book.db in that directory."
        ),
    ] = None,
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")
    ] = "127.0.0.1:8480",
    object: Annotated[
        str, typer.Option("--object", metavar="COLUMN", help="The column of rows that names the object.")
    ] = "object",
    time: Annotated[
        str,
        typer.Option(
            "--time", metavar="COLUMN", help="The column of their time; without one rows have that of arrival."
        ),
    ] = "time",
    timeout: Timeout = None,
    type: Types = None,
    tick: Annotated[
        str,
        typer.Option(
            "--tick",
            metavar="LENGTH",
            help="How often the clock moves where no row comes, and how late rows may be; none: only rows move it.",
        ),
    ] = "1 minute",
    publish: Annotated[
        str,
        typer.Option(
            "--publish", metavar="HOW", help="auto: changed rules hold at once. manual: once they are published."
        ),
    ] = "auto",
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Speak TLS with this certificate.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="And this key.")] = None,
    behind_proxy: Annotated[
        bool, typer.Option("--behind-proxy", help="A proxy in front speaks TLS: listen to others without.")
    ] = False,
    keep_rows: Annotated[float, typer.Option("--keep-rows", metavar="DAYS", help="Keep rows this long.")] = 7.0,
    keep_events: Annotated[float, typer.Option("--keep-events", metavar="DAYS", help="Keep events this long.")] = 30.0,
) -> None:
    """Serve rules, rows and events over HTTP, durably, on this machine.

    Prints the address and a token. Everything is in one directory; a restart goes on where it stopped.
    """
    web = _import_web()
    from fencepost.console.guarded import mount_console
    from fencepost.console.served import ServiceSource
    from fencepost.rules.table_arguments import read_pairs
    from fencepost.service.service import Service
    from fencepost.service.settings import Limits, Settings

    host, port = web.read_address(listen)
    web.check_open(host, tls_cert, tls_key, behind_proxy=behind_proxy)
    if publish not in ("auto", "manual"):
        raise FencepostError(f"--publish {publish}", "auto or manual", "Correct it.")
    limits = Limits(rows_age=keep_rows * 86_400, events_age=keep_events * 86_400)
    settings = Settings(
        data,
        book,
        object,
        time,
        timeout,
        read_pairs(type, "--type", "price=double"),
        publish,
        _read_tick(tick),
        limits,
    )
    opened = web.open_socket(host, port)
    try:
        with Service(settings) as service, _tokens(settings.book_url) as tokens:
            tls = tls_cert is not None
            source = ServiceSource(service)
            app = web.make_app(
                service, doors=web.Doors(tokens, secure=tls or behind_proxy), pages=[mount_console(source)]
            )
            token, place = _first_token(tokens, data)
            print(f"fencepost serves {data} at {web.url_of(opened, tls=tls)}")
            print(f"token: {token}", flush=True)
            note(f"the token is in {place}; end with Ctrl-C")
            try:
                web.serve(app, opened, cert=tls_cert, key=tls_key, behind_proxy=behind_proxy)
            finally:
                source.close()
    finally:
        opened.close()
    note("stopped; everything is saved")


def _read_tick(text: str) -> float | None:
    from fencepost.rules.durations import parse_duration

    return None if text == "none" else parse_duration(text).total_seconds()


def _import_web() -> Any:
    """What needs FastAPI and uvicorn."""
    try:
        import jinja2  # noqa: F401 (of the pages)
        import python_multipart  # noqa: F401 (likewise)

        from fencepost.service.web import standing
    except ImportError as error:
        raise FencepostError(
            f"the package {error.name} is not installed",
            "what the extra serve brings",
            "Install it: pip install 'fencepost[serve]'.",
        ) from None
    return standing


def _tokens(url: str) -> "Tokens":
    from fencepost.book.tokens import Tokens

    return Tokens(url, wait=_TOKENS_WAIT)


def _first_token(tokens: "Tokens", data: Path) -> tuple[str, Path]:
    """The token that the directory keeps for whoever may read its files; a new one where it opens nothing."""
    from fencepost._files.whole import PRIVATE, write_whole

    place = data / "token"
    try:
        text = place.read_text().strip()
        if tokens.find(text) is not None:
            return text, place
    except FileNotFoundError:
        pass
    text, _ = tokens.create(_ADMIN, ["admin"])
    write_whole(place, f"{text}\n", mode=PRIVATE)
    return text, place
