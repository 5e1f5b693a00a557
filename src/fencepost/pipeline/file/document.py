"""A pipeline file as it was written: its sections, where each key stands, and whether keys and types are known."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fencepost._files.storage import is_url
from fencepost.errors import FencepostError
from fencepost.pipeline.file.durations import parse_duration
from fencepost.pipeline.file.faults import Fault, fault_of, meant
from fencepost.pipeline.file.keys import SECTIONS, Key, variants_of

_HEADER = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_ASSIGNMENT = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")
_NEEDED = ("source", "rules", "operator", "sink")


@dataclass
class PipelineFile:
    """What a file says, defaults filled in. Faulty keys are left out, so that the rest can still be checked."""

    path: Path
    sections: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By name; both sides of bands are ``source.left`` and ``source.right``."""
    lines: dict[str, int] = field(default_factory=dict)
    """Where sections and keys stand."""

    @property
    def sources(self) -> dict[str, dict[str, Any]]:
        """The sections that describe a source, one or two."""
        return {name: section for name, section in self.sections.items() if name.partition(".")[0] == "source"}

    def section(self, name: str) -> dict[str, Any]:
        """A section, empty where it is missing."""
        return self.sections.get(name, {})

    def fault(self, place: str, got: str, expected: str, remedy: str) -> Fault:
        """A fault at a place of this file."""
        return Fault(place, self.lines.get(place, self.lines.get(place.rpartition(".")[0])), got, expected, remedy)

    def refusal(self, place: str, error: FencepostError) -> Fault:
        """A refusal as a fault at a place of this file."""
        return fault_of(error, place, self.lines.get(place, self.lines.get(place.rpartition(".")[0])))

    def resolved(self, path: str) -> Path:
        """A path of the file; a relative one is relative to the file's own directory."""
        return (self.path.parent / path.removeprefix("file://")).absolute()

    def located(self, directory: str) -> str:
        """A directory that need not be a path: a URL stays as it is."""
        return directory if is_url(directory) else str(self.resolved(directory))


def read_pipeline(path: str | Path) -> tuple[PipelineFile, list[Fault]]:
    """Read a file, and everything that is wrong with its shape."""
    made = PipelineFile(Path(path).absolute())
    try:
        text = made.path.read_text(encoding="utf-8")
        content = tomllib.loads(text)
    except OSError as error:
        remedy = "Check the path."
        return made, [Fault(made.path.name, None, f"{made.path}, {error.strerror}", "a file that can be read", remedy)]
    except RecursionError:
        return made, [Fault(made.path.name, None, "values nested too deeply", "TOML", "Write flat sections.")]
    except ValueError as error:
        line = re.search(r"line (\d+)", str(error))
        fault = Fault(made.path.name, int(line[1]) if line else None, str(error), "TOML", "Correct the line.")
        return made, [fault]
    made.lines = dict(_places(text))
    return made, list(_faults(made, content))


def listed(value: str | list[str] | None) -> list[str]:
    """A text, several or none, as a list."""
    return [value] if isinstance(value, str) else list(value or [])


def _places(text: str) -> Iterator[tuple[str, int]]:
    """Sections and keys with the lines they stand on."""
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            section = _plain(header[1])
            yield section, number
        elif assignment := _ASSIGNMENT.match(line):
            yield f"{section}.{_plain(assignment[1])}".lstrip("."), number


def _plain(dotted: str) -> str:
    return re.sub(r"""\s*\.\s*|["']""", lambda found: "." if "." in found[0] else "", dotted)


def _faults(made: PipelineFile, content: Mapping[str, Any]) -> Iterator[Fault]:
    top = [name for name in SECTIONS if "." not in name]
    for name, value in content.items():
        if name not in top:
            yield made.fault(name, f"[{name}]", "a section that pipelines have", meant(name, top))
        elif not isinstance(value, dict):
            yield made.fault(name, f"{name} = {value!r}", f"a section [{name}]", f"Write [{name}] and its keys below.")
    for name in _NEEDED:
        if name not in content:
            yield made.fault(name, f"no [{name}]", "that section", f"Add [{name}].")
    for name, section in _written_sections(content):
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
    for name in ("rules", "operator", "sink"):
        if isinstance(content.get(name), dict):
            yield name, content[name]
    for name in ("trigger", "session"):
        given = content.get(name, {})
        if isinstance(given, dict):
            yield name, given


def _section_faults(made: PipelineFile, name: str, given: Mapping[str, Any]) -> Iterator[Fault]:
    chooser, variants = variants_of(name)
    variant = ""
    if chooser is not None:
        variant = given.get(chooser, "")
        if not isinstance(variant, str) or variant not in variants:
            place, choices = f"{name}.{chooser}", ", ".join(variants)
            if chooser not in given:
                yield made.fault(place, f"no {chooser}", f"one of {choices}", f"Add {chooser} to [{name}].")
            else:
                yield made.fault(place, repr(variant), f"one of {choices}", meant(str(variant), variants))
            return
    known = {key.name: key for key in variants[variant]}
    section = {key.name: key.default for key in known.values() if not key.required}
    if chooser is not None:
        section[chooser] = variant
    made.sections[name] = section
    for key, value in given.items():
        if key == chooser:
            continue
        if key not in known:
            yield _unknown_key(made, name, chooser, variant, key)
        elif (fault := _value_fault(made, f"{name}.{key}", known[key], value)) is not None:
            yield fault
        else:
            section[key] = value
    for missing in known.values():
        if missing.required and missing.name not in given:
            yield made.fault(
                f"{name}.{missing.name}",
                f"no {missing.name}",
                f"{missing.name}, {missing.meaning}",
                f"Add {missing.name} to [{name}].",
            )


def _unknown_key(made: PipelineFile, name: str, chooser: str | None, variant: str, key: str) -> Fault:
    _, variants = variants_of(name)
    users = [other for other, keys in variants.items() if key in {each.name for each in keys}]
    names = [each.name for each in variants[variant]] + ([chooser] if chooser else [])
    expected = f"a key of [{name}]" + (f" with {chooser} = {variant!r}" if variant else "")
    remedy = f"Remove it; it is for {', '.join(users)}." if users else meant(key, names)
    return made.fault(f"{name}.{key}", f"the key {key}", expected, remedy)


def _value_fault(made: PipelineFile, place: str, key: Key, value: Any) -> Fault | None:
    if not _has_kind(value, key):
        return made.fault(place, repr(value), f"{_KINDS.get(key.kind, key.kind)}: {key.meaning}", "Correct the value.")
    if key.choices and value not in key.choices:
        return made.fault(place, repr(value), f"one of {', '.join(key.choices)}", meant(value, key.choices))
    if key.kind.startswith("duration") and isinstance(value, str):
        try:
            parse_duration(value)
        except FencepostError as error:
            return made.refusal(place, error)
    return None


_KINDS = {
    "text": "text that is not empty",
    "whole number": "a whole number, 0 or more",
    "text or list": "text or texts",
    "duration or false": 'a duration such as "1 minute", or false',
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
    trigger = made.section("trigger")
    if trigger.get("every") and trigger.get("once"):
        yield made.fault("trigger", "both every and once", "one of them", "Remove one.")
    if trigger.get("once") and made.section("operator").get("tick"):
        got, remedy = (
            "tick with once = true",
            "Remove tick; to announce a time before such a run: fencepost tick DIR TIME",
        )
        yield made.fault("operator.tick", got, "a pipeline that goes on, since time goes on only there", remedy)
    for name, source in made.sources.items():
        if source.get("dead_letters") and source.get("dead_letters_topic"):
            yield made.fault(f"{name}.dead_letters", "a directory and a topic for dead letters", "one", "Remove one.")
