"""A pipeline file as it was written: its sections, where each key stands, and whether keys and types are known."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost._files.storage import is_url
from fencepost.errors import FencepostError
from fencepost.pipeline.file.faults import Fault, fault_of, find_near, meant
from fencepost.pipeline.file.formats import find_misspelled
from fencepost.pipeline.file.keys import ANY, SECTIONS, Key, variants_of
from fencepost.pipeline.file.secrets import Resolved, Secrets, resolve
from fencepost.rules.durations import parse_duration

_HEADER = re.compile(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]")
_ASSIGNMENT = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_MAX_PARTS = 1000
_NEEDED = ("source", "rules", "operator", "sink")


@dataclass
class PipelineFile:
    """What a file says, defaults filled in. Faulty keys are left out, so that the rest can still be checked."""

    path: Path
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By name; both sides of bands are ``source.left`` and ``source.right``."""
    lines: dict[str, int] = field(default_factory=dict)
    """Where sections and keys stand."""
    secrets: Secrets = field(default_factory=Secrets)
    """What messages must not show."""
    remembered: dict[str, Any] = field(default_factory=dict)
    """What others have said meanwhile, such as a registry of schemas, so that they are asked once."""

    @property
    def sources(self) -> dict[str, dict[str, Any]]:
        """The sections that describe a source, one or two."""
        return {name: section for name, section in self.sections.items() if name.partition(".")[0] == "source"}

    @property
    def sinks(self) -> dict[str, dict[str, Any]]:
        """The sections that describe a sink: ``sink``, or ``sink.1``, ``sink.2``, ... where there are several."""
        return {name: section for name, section in self.sections.items() if name.partition(".")[0] == "sink"}

    @property
    def checkpoint(self) -> str | None:
        """The directory that remembers how far the pipeline has come: of all sinks, one says it."""
        return next((sink["checkpoint"] for sink in self.sinks.values() if sink.get("checkpoint")), None)

    def set_checkpoint(self, directory: str) -> None:
        """Remember it there, where the file names no place."""
        next(iter(self.sinks.values()))["checkpoint"] = directory

    def section(self, name: str) -> dict[str, Any]:
        """A section, empty where it is missing."""
        return self.sections.get(name, {})

    def fault(self, place: str, got: str, expected: str, remedy: str) -> Fault:
        """A fault at a place of this file."""
        got, expected, remedy = map(self.secrets.hide, (got, expected, remedy))
        return Fault(place, self.line_of(place), got, expected, remedy)

    def line_of(self, place: str) -> int | None:
        """The line of a key, or else of what it is in."""
        while place and place not in self.lines:
            place = place.rpartition(".")[0]
        return self.lines.get(place)

    def refusal(self, place: str, error: FencepostError) -> Fault:
        """A refusal as a fault at a place of this file."""
        fault = fault_of(error, place, self.line_of(place))
        got, expected, remedy = map(self.secrets.hide, (fault.got, fault.expected, fault.remedy))
        return fault._replace(got=got, expected=expected, remedy=remedy)

    def resolved(self, path: str) -> Path:
        """A path of the file; a relative one is relative to the file's own directory."""
        return (self.path.parent / path.removeprefix("file://")).absolute()

    def located(self, directory: str) -> str:
        """A directory that need not be a path: a URL stays as it is."""
        return directory if is_url(directory) else str(self.resolved(directory))


def read_pipeline(path: str | Path, *, any_format: bool = False) -> tuple[PipelineFile, list[Fault]]:
    """Read a file, and everything that is wrong with its shape.

    `any_format`: whether formats may have any name, as in a session that somebody else has made.
    """
    made = PipelineFile(Path(path).absolute())
    try:
        text = made.path.read_text(encoding="utf-8")
        if _is_too_deep(text):
            return made, [_too_deep(made)]
        content = tomllib.loads(text)
    except OSError as error:
        remedy = "Check the path."
        return made, [Fault(made.path.name, None, f"{made.path}, {error.strerror}", "a file that can be read", remedy)]
    except RecursionError:
        return made, [_too_deep(made)]
    except ValueError as error:
        line = re.search(r"line (\d+)", str(error))
        fault = Fault(made.path.name, int(line[1]) if line else None, str(error), "TOML", "Correct the line.")
        return made, [fault]
    made.lines = dict(_places(text))
    if isinstance(content.get("sink"), list) and len(content["sink"]) == 1:  # [[sink]] once is [sink]
        content["sink"] = content["sink"][0]
        made.lines = {re.sub(r"^sink\.1\b", "sink", place): line for place, line in made.lines.items()}
    unresolved: dict[str, FencepostError] = {}
    try:
        content = resolve(content, made.path.parent, made.secrets, unresolved)
    except RecursionError:
        return made, [_too_deep(made)]
    missing = [made.refusal(place, error) for place, error in unresolved.items()]
    found = _faults(made, content, any_format=any_format)
    return made, [*missing, *(fault for fault in found if fault.place not in unresolved)]


def _is_too_deep(text: str) -> bool:
    """Whether a key has so many parts that reading it would take minutes: tomllib's time grows with their square."""
    pieces = (piece for line in text.splitlines() if line.count(".") > _MAX_PARTS for piece in line.split("="))
    return any(piece.count(".") > _MAX_PARTS and not set(piece) & set("#\"'") for piece in pieces)


def _too_deep(file: PipelineFile) -> Fault:
    return Fault(file.path.name, None, "values nested too deeply", "TOML", "Write flat sections.")


def listed(value: str | list[str] | None) -> list[str]:
    """A text, several or none, as a list."""
    return [value] if isinstance(value, str) else list(value or [])


def _places(text: str) -> Iterator[tuple[str, int]]:
    """Sections and keys with the lines they stand on; of [[sink]], the second is ``sink.2``."""
    section, repeated = "", Counter[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = _plain(header[2])
            top, _, rest = section.partition(".")
            if header[1] == "[[":
                repeated[section] += 1
                section = f"{section}.{repeated[section]}"
            elif top in repeated:
                section = f"{top}.{repeated[top]}.{rest}"
            yield section, number
        elif assignment := _ASSIGNMENT.match(line):
            yield f"{section}.{_plain(assignment[1])}".lstrip("."), number


def _plain(dotted: str) -> str:
    return re.sub(r"""\s*\.\s*|["']""", lambda found: "." if "." in found[0] else "", dotted)


def _faults(made: PipelineFile, content: Mapping[str, Any], *, any_format: bool) -> Iterator[Fault]:
    top = [name for name in SECTIONS if "." not in name]
    for name, value in content.items():
        if name not in top:
            yield made.fault(name, f"[{name}]", "a section that pipelines have", meant(name, top))
        elif not isinstance(value, dict) and not (name == "sink" and _is_tables(value)):
            yield made.fault(name, f"{name} = {value!r}", f"a section [{name}]", f"Write [{name}] and its keys below.")
    for name in _NEEDED:
        if name not in content:
            yield made.fault(name, f"no [{name}]", "that section", f"Add [{name}].")
    session = content.get("session")
    for name, section in _written_sections(content):
        if not any_format and (found := _misspelled_format(name, section, session)) is not None:
            got, expected = repr(section["format"]), f"one of {', '.join(variants_of(name)[1])}"
            yield made.fault(f"{name}.format", got, expected, f"Did you mean {found}?")
            section = {**section, "format": found}
        yield from _section_faults(made, name, section)
    yield from _combination_faults(made)


def _written_sections(content: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The sections that can be checked key by key, the optional ones also where they are not written."""
    source, rules = content.get("source"), content.get("rules")
    if isinstance(source, dict):
        sides = {f"source.{side}": source[side] for side in ("left", "right") if isinstance(source.get(side), dict)}
        yield from sides.items()
        if rest := {key: value for key, value in source.items() if f"source.{key}" not in sides}:
            yield "source", rest
    if isinstance(rules, dict) and isinstance(rules.get("changes"), dict):
        yield "rules.changes", rules["changes"]
    sinks = content.get("sink")
    if isinstance(sinks, list) and _is_tables(sinks):
        yield from ((f"sink.{number}", sink) for number, sink in enumerate(sinks, start=1))
    for name in ("rules", "operator", "sink", "metrics"):
        if isinstance(content.get(name), dict):
            yield name, content[name]
    for name in ("trigger", "session"):
        given = content.get(name, {})
        if isinstance(given, dict):
            yield name, given


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _misspelled_format(name: str, given: Mapping[str, Any], session: Any) -> str | None:
    """The format that is meant by one that is none, but almost; the other keys are checked as those of it."""
    variants, written = variants_of(name)[1], given.get("format")
    if ANY not in variants or not isinstance(written, str) or written in variants:
        return None
    return find_misspelled(written, variants, session if isinstance(session, dict) else {})


def _section_faults(made: PipelineFile, name: str, given: Mapping[str, Any]) -> Iterator[Fault]:
    chooser, variants = variants_of(name)
    variant = written = ""
    if chooser is not None:
        variant = written = given.get(chooser, "")
        if ANY in variants and isinstance(variant, str) and variant and variant not in variants:
            variant = ANY
        if not isinstance(variant, str) or variant not in variants:
            place, choices = f"{name}.{chooser}", ", ".join(filter(None, variants))
            if chooser not in given:
                yield made.fault(place, f"no {chooser}", f"one of {choices}", f"Add {chooser} to {header_of(name)}.")
            else:
                yield made.fault(place, repr(variant), f"one of {choices}", meant(str(variant), filter(None, variants)))
            found = find_near(str(variant), filter(None, variants)) if variant else None
            if found is None:
                return
            variant = written = found  # so that everything else is said at once, too
    known = {key.name: key for key in variants[variant]}
    section = {key.name: key.default for key in known.values() if not key.required}
    if chooser is not None:
        section[chooser] = written
    made.sections[name] = section
    for key, value in given.items():
        if key == chooser:
            continue
        if key not in known:
            yield _unknown_key(made, name, chooser, variant, written, key)
            continue
        value = _as_kind(value, known[key])
        if (fault := _value_fault(made, f"{name}.{key}", known[key], value)) is not None:
            yield fault
        else:
            section[key] = value
    for missing in known.values():
        of_all = missing.name == "checkpoint" and name != "sink"  # one of several sinks names it
        if missing.required and missing.name not in given and not of_all:
            yield made.fault(
                f"{name}.{missing.name}",
                f"no {missing.name}",
                f"{missing.name}, {missing.meaning}",
                f"Add {missing.name} to {header_of(name)}.",
            )


def header_of(name: str) -> str:
    """A section as it is written.

    >>> header_of("source.left"), header_of("sink.2")
    ('[source.left]', '[[sink]] 2')
    """
    return f"[[sink]] {name[5:]}" if name.startswith("sink.") else f"[{name}]"


def _unknown_key(made: PipelineFile, name: str, chooser: str | None, variant: str, written: str, key: str) -> Fault:
    _, variants = variants_of(name)
    users = [other for other, keys in variants.items() if other and key in {each.name for each in keys}]
    names = [each.name for each in variants[variant]] + ([chooser] if chooser else [])
    expected = f"a key of {header_of(name)}" + (f" with {chooser} = {written!r}" if variant else "")
    remedy = f"Remove it; it is for {', '.join(users)}." if users else meant(key, names)
    return made.fault(f"{name}.{key}", f"the key {key}", expected, remedy)


def _value_fault(made: PipelineFile, place: str, key: Key, value: Any) -> Fault | None:
    if not _has_kind(value, key):
        return made.fault(place, repr(value), f"{_KINDS.get(key.kind, key.kind)}: {key.meaning}", "Correct the value.")
    if key.name != "options" and _has_nul(value):  # which no path, address or name can have; readers of CSV can
        return made.fault(place, repr(value), "text without NUL characters", "Correct the value.")
    if key.choices and value not in key.choices:
        return made.fault(place, repr(value), f"one of {', '.join(key.choices)}", meant(value, key.choices))
    if key.kind.startswith("duration") and isinstance(value, str):
        try:
            parse_duration(value)
        except FencepostError as error:
            return made.refusal(place, error)
    return None


def _has_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_nul, (*value, *value.values())))
    return any(map(_has_nul, value)) if isinstance(value, list) else isinstance(value, str) and "\0" in value


def _as_kind(value: Any, key: Key) -> Any:
    """A reference is text; a number or a yes may stand there all the same."""
    if isinstance(value, Resolved):
        if key.kind == "whole number" and value.isdecimal():
            return int(value)
        if key.kind in {"true or false", "duration or false"} and value in {"true", "false"}:
            return value == "true"
    return value


_KINDS = {
    "text": "text that is not empty",
    "whole number": "a whole number, 0 or more",
    "text or list": "text or texts",
    "duration or false": 'a duration such as "1 minute", or false',
    "table or text": "a table, or the name of a file",
}


def _has_kind(value: Any, key: Key) -> bool:
    match key.kind:
        case "text":
            return _is_text(value)
        case "true or false":
            return isinstance(value, bool)
        case "whole number":
            return isinstance(value, int) and not isinstance(value, bool) and value >= 0
        case "text or list":
            texts = value if isinstance(value, list) else [value]
            return bool(texts) and all(map(_is_text, texts))
        case "duration":
            # A plain number is in the unit of the time column, which only the time-out of objects has.
            return isinstance(value, str) or (key.name == "timeout" and isinstance(value, int) and value > 0)
        case "duration or false":
            return isinstance(value, str) or value is False
        case "table or text" if isinstance(value, str):
            return bool(value)
        case _ if key.name == "changes":  # a section, whose keys are checked one by one
            return isinstance(value, dict)
        case _:
            simple = isinstance(value, dict) and all(isinstance(each, (str, int, float)) for each in value.values())
            return simple and (key.name not in {"schema", "columns"} or all(map(_is_text, value.values())))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _combination_faults(made: PipelineFile) -> Iterator[Fault]:
    """What no key alone has wrong."""
    kind = made.section("operator").get("kind")
    if kind is not None and made.sources:
        wanted = {"source.left", "source.right"} if kind == "bands" else {"source"}
        for name in sorted(wanted - set(made.sources)):
            yield made.fault(name, f"no [{name}]", f"it, since {kind} reads it", f"Add [{name}].")
        for name in sorted(set(made.sources) - wanted):
            yield made.fault(name, f"[{name}] for {kind}", " and ".join(f"[{n}]" for n in sorted(wanted)), "Rename it.")
    rules = made.section("rules")
    if "rules" in made.sections and bool(rules["directory"]) == bool(rules["book"]):
        got = "both directory and book" if rules["directory"] else "neither directory nor book"
        yield made.fault("rules", got, "one of them", "Name where the rules are published, or the book to publish.")
    if rules.get("changes") and rules["directory"]:
        yield made.fault("rules.changes", "changes without a book", "a book to apply them to", "Add rules.book.")
    yield from _sink_combination_faults(made)
    trigger = made.section("trigger")
    if trigger.get("every") and trigger.get("once"):
        yield made.fault("trigger", "both every and once", "one of them", "Remove one.")
    if trigger.get("once") and made.section("operator").get("tick"):
        got, remedy = (
            "tick with once = true",
            "Remove tick; to announce a time before such a run: fencepost tick DIR TIME",
        )
        yield made.fault("operator.tick", got, "a pipeline that goes on, since time goes on only there", remedy)
    for name in (*made.sources, *made.sinks, "rules.changes"):
        if made.section(name).get("path") and made.section(name).get("table"):
            yield made.fault(f"{name}.table", "both path and table", "one of them", "Remove one.")
    for name, source in made.sources.items():
        if source.get("dead_letters") and source.get("dead_letters_topic"):
            yield made.fault(f"{name}.dead_letters", "a directory and a topic for dead letters", "one", "Remove one.")


def _sink_combination_faults(made: PipelineFile) -> Iterator[Fault]:
    """What several sinks must agree on: one checkpoint, and a name for each."""
    if "sink" in made.sinks or not made.sinks:
        return
    named = {name: sink["checkpoint"] for name, sink in made.sinks.items() if sink.get("checkpoint")}
    first = next(iter(made.sinks))
    if not named:
        got, expected = "sinks without a checkpoint", "one checkpoint for all of them"
        yield made.fault(f"{first}.checkpoint", got, expected, "Add checkpoint to the first [[sink]].")
    for name, checkpoint in named.items():
        if made.resolved(checkpoint) != made.resolved(next(iter(named.values()))):
            got, expected = f"{checkpoint!r}, a second checkpoint", "one checkpoint for all sinks"
            yield made.fault(f"{name}.checkpoint", got, expected, "Remove it; it stands in one [[sink]].")
    seen: dict[str, str] = {}
    for name in made.sinks:
        own = sink_name(made, name)
        if seen.setdefault(own, name) != name:
            got, expected = f"two sinks whose name is {own!r}", "a name of its own for each"
            yield made.fault(f"{name}.name", got, expected, 'Add for example name = "pager".')


def sink_name(made: PipelineFile, section: str) -> str:
    """The name of a sink: its own, or that of its format."""
    sink = made.section(section)
    return str(sink.get("name") or sink["format"])
