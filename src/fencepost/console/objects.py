"""Objects of a Monitor that runs in this process."""

from collections.abc import Callable, Sequence
from typing import Any

from fencepost.console.forms import read_id, read_place
from fencepost.console.source import Missing, SeenObject, Trail
from fencepost.errors import FencepostError
from fencepost.monitor import Monitor
from fencepost.monitor.known import KnownObject, Waiting


class MonitorObjects:
    """What a monitor knows of its objects.

    Args:
        monitor: how to get the monitor; it may be another one after a restart.
        trail: how to get the last rows of an object.
    """

    def __init__(self, monitor: Callable[[], Monitor], trail: Callable[[str, int], Trail | None]) -> None:
        self._monitor, self._trail = monitor, trail

    about = told_from = ""

    def count(self) -> int:
        """How many there are."""
        return self._monitor().objects(0, 1).total

    def page(self, after: str, limit: int, beginning: str) -> tuple[Sequence[SeenObject], str | None]:
        """The next objects, in the order in which they came; with a text, the one of that name."""
        if beginning:
            found = self.get(beginning)
            return ([] if found is None else [found]), None
        monitor = self._monitor()
        some = monitor.objects(read_place(after) or 0, limit)
        known = [monitor.object_state(object) for object in some.objects]
        seen = [SeenObject(each.object, each.time, each.values) for each in known if each is not None]
        return seen, None if some.next is None else str(some.next)

    def get(self, name: str) -> SeenObject | None:
        """One object; numbers are tried for names that look like one."""
        known = self._known(name)
        return None if known is None else SeenObject(known.object, known.time, known.values)

    def _known(self, name: str) -> KnownObject | None:
        monitor = self._monitor()
        found = monitor.object_state(name)
        if found is None and (number := read_id(name)) is not None:
            found = monitor.object_state(number)
        return found

    def rules_inside(self, name: str, limit: int) -> Sequence[int]:
        """The ids of rules whose condition holds at its last values."""
        known = self._known(name)
        return [] if known is None else known.inside[:limit]

    def waiting(self, name: str) -> Sequence[Waiting]:
        """The rules whose enter or exit of it is held back."""
        known = self._known(name)
        return () if known is None else known.waiting

    def trail(self, name: str, rows: int) -> Trail | None:
        """Its last rows."""
        return self._trail(name, rows)

    def inside(self, rule: int, limit: int) -> tuple[Sequence[Any], int] | Missing:
        """Some objects that are inside a rule, and how many are."""
        try:
            found = self._monitor().inside(rule)
        except FencepostError as error:
            return Missing(str(error))
        return found[:limit], len(found)

    def held_back(self, rule: int, limit: int) -> tuple[Sequence[Waiting], int]:
        """Some objects whose enter or exit of a rule waits, and how many do."""
        try:
            found = self._monitor().waiting(rule)
        except FencepostError:  # a rule that is not in force
            found = []
        return found[:limit], len(found)

    def why_not(self, rule: int, name: str) -> Any:
        """Where an object stands with a rule."""
        known = self._known(name)
        return self._monitor().why_not(rule, name if known is None else known.object)
