"""The command: starts everything, shows it, ends it, checks it."""

import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, Group
from rich.live import Live as Screen
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from fencepost.pipeline.runtime.requirements import missing_for_spark

if TYPE_CHECKING:
    from fencepost.console.serving import ConsoleServer
    from fencepost.lab.demo.live import Figures, Live
    from fencepost.lab.demo.world import World


def demo(
    rules: Annotated[int, typer.Option(min=10, help="How many rules.")] = 1_000_000,
    objects: Annotated[int, typer.Option(min=10, help="How many symbols and vehicles.")] = 10_000,
    every: Annotated[float, typer.Option(min=0.05, help="Seconds between two rows of an object.")] = 0.5,
    seconds: Annotated[float | None, typer.Option(help="Stop after this many seconds. Default: on Ctrl-C.")] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Stop after 20 seconds; exit with 1 if a spot check fails.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the final figures as JSON.")] = False,
    pages: Annotated[
        bool | None,
        typer.Option("--console/--no-console", help="Serve pages about it. Default: unless --once or --json."),
    ] = None,
) -> None:
    """Watch a market and a city with a million rules.

    Prices and vehicles are simulated; a local Spark evaluates the rules live, and some of them change all the time.
    """
    from fencepost.lab.demo.world import World  # brings the indexes with it, which other commands need not wait for

    started = time.monotonic()
    console = Console(quiet=as_json)
    lasting = 20.0 if once and seconds is None else seconds
    try:
        with tempfile.TemporaryDirectory(prefix="fencepost-demo-") as name:
            has_pages = not (once or as_json) if pages is None else pages
            world = World(rules, objects)
            wrong, figures = _show(console, Path(name), world, every, lasting, started, has_pages)
    except KeyboardInterrupt:
        console.print("Stopped before the first event.")
        return
    if as_json:
        print(json.dumps({**figures._asdict(), "wrong": wrong}))
    if wrong and once:
        raise typer.Exit(1)


def _show(
    console: Console,
    folder: Path,
    world: "World",
    every: float,
    lasting: float | None,
    started: float,
    has_pages: bool,
) -> "tuple[list[str], Figures]":
    """Run it; returns the objects whose events were wrong, and the last figures."""
    from fencepost.lab.demo.live import Live

    live = Live(world, folder, every, started)
    with _session(folder, console) as spark, ExitStack() as ends:
        with console.status("compiling and publishing the rules, starting Spark"):
            count = live.publish()
            server = _open_pages(live, ends) if has_pages else None
            live.start(spark.result())
        console.print(
            f"{count:,} rules published after {time.monotonic() - started:.1f} s; waiting for the first event "
            "(the first run on a machine compiles its kernels before)"
        )
        if server is not None:
            console.print(f"Watch it, and add rules of your own, at {server.address}", soft_wrap=True, markup=False)
        try:
            _watch(console, live, lasting)
        except KeyboardInterrupt:
            console.print("Stopping after the rows under way. Press Ctrl-C again to stop at once.")
        try:
            live.stop()
        except KeyboardInterrupt:
            live.abandon()
            return [], live.figures()
        live.raise_fault()
        return _summary(console, live), live.figures()


def _open_pages(live: "Live", ends: ExitStack) -> "ConsoleServer":
    """Serve pages about the demo until it ends."""
    from fencepost.console.serving import ConsoleServer

    return ends.enter_context(ConsoleServer(live.watch_on_pages()))


def _watch(console: Console, live: "Live", lasting: float | None) -> None:
    """Show what happens, for so long after the first event."""
    end: float | None = None
    with Screen(_screen(live.figures()), console=console, refresh_per_second=4, transient=True) as screen:
        while end is None or time.monotonic() < end:
            time.sleep(0.25)
            live.raise_fault()
            figures = live.figures()
            if console.is_terminal:
                screen.update(_screen(figures))
            if end is None and figures.first_event is not None and lasting is not None:
                end = time.monotonic() + lasting


def _screen(figures: "Figures") -> Panel:
    facts = Table.grid(padding=(0, 3))
    for _ in range(4):
        facts.add_column()
    facts.add_row("rules", f"[bold]{figures.rules:,}[/]", "rule version", f"[bold]{figures.version}[/]")
    facts.add_row(
        "rows per second",
        f"[bold]{figures.rows_per_second:,.0f}[/]",
        "events per second",
        f"[bold]{figures.events_per_second:,.0f}[/]",
    )
    facts.add_row("rows", f"{figures.rows:,}", "events", f"{figures.events:,}")
    facts.add_row("latency, median", f"{figures.median_latency:.1f} s", "highest", f"{figures.highest_latency:.1f} s")
    words = Text("\n".join(figures.words) or "waiting for the first event", style="cyan")
    change = Text(figures.last_change, style="yellow")
    return Panel(Group(facts, "", words, "", change), title="fencepost: a market and a city", title_align="left")


def _summary(console: Console, live: "Live") -> list[str]:
    figures, wrong = live.figures(), live.wrong_objects()
    first = "no event came" if figures.first_event is None else f"the first event after {figures.first_event:.1f} s"
    console.print(
        f"{figures.rows:,} rows against {figures.rules:,} rules gave {figures.events:,} events; {first}; "
        f"latency {figures.median_latency:.1f} s in the median, {figures.highest_latency:.1f} s at most.\n"
        f"{figures.last_change[0].upper()}{figures.last_change[1:]}."
    )
    if wrong or not figures.events:
        console.print(
            f"[red]Of {live.sampled} objects, {len(wrong)} are inside other rules than the events say, "
            f"{', '.join(wrong[:5])} among them: please report this.[/]"
        )
        return wrong or ["no event"]
    console.print(f"Spot check: {live.sampled} objects were compared with every rule; all are where the events say.")
    return []


class _Starting:
    """A session that is being started on another thread, while rules are compiled."""

    def __init__(self, folder: Path) -> None:
        self._session: Any = None
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._start, args=(folder,), daemon=True)
        self._thread.start()

    def _start(self, folder: Path) -> None:
        try:
            self._session = _local_spark(folder)
        except BaseException as fault:
            self._fault = fault

    def result(self) -> Any:
        """The session."""
        self._thread.join()
        if self._fault is not None:
            raise self._fault
        return self._session


@contextmanager
def _session(folder: Path, console: Console) -> Iterator[_Starting]:
    """Local Spark, whose own words go to a file: the screen is for the demo."""
    for missing in missing_for_spark():
        raise missing
    from fencepost.pipeline.runtime.session import stderr_to  # needs pyspark

    log = folder / "spark.log"
    try:
        with stderr_to(log):
            starting = _Starting(folder)
            try:
                yield starting
            finally:
                starting.result().stop()
    except Exception:
        console.print(f"Spark's last words:\n{log.read_text(errors='replace')[-2_000:]}", markup=False)
        raise


def _local_spark(folder: Path) -> Any:
    from fencepost.pipeline.runtime.session import start_session
    from fencepost.spark.session import SETTINGS, STATE_SETTINGS

    settings = {
        "spark.driver.memory": "2g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    return start_session("fencepost demo", "local[2]", {**settings, **SETTINGS, **STATE_SETTINGS})
