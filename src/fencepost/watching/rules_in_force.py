"""The rules in force: a snapshot, and what changed since."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from fencepost.computed import Computed, Term, computed_id
from fencepost.computed.attributes import MOST_EXPRESSIONS, check_number, expressions_of
from fencepost.emitting.detections import Pairs
from fencepost.errors import FencepostError
from fencepost.indexes.arrays import Bools, Int64s
from fencepost.language import KEY, Binder, Condition, parse
from fencepost.ordinals import AttributeType, ColumnType
from fencepost.ordinals.schema import read_schema
from fencepost.rules import Rules
from fencepost.rules.box_groups import ranked_boxes
from fencepost.rules.checked import name_taken
from fencepost.rules.damping import Damping, damping_of
from fencepost.rules.options import Options, read_options
from fencepost.rules.rule import checked_id, labels_text, microseconds_of
from fencepost.rules.stays import Dampings
from fencepost.snapshot import DETECTS, NEVER, BoxSet, CompiledColumns, RuleColumns, Snapshot, detect_flags
from fencepost.snapshot.damping import rows_that_wait
from fencepost.snapshot.labels import ListedTexts
from fencepost.snapshot.layer import join_columns
from fencepost.snapshot.sides import all_sides, key_columns, string_columns
from fencepost.watching.positions import KeyStrings, Positions, batch_of

_ENTER_AND_EXIT = DETECTS["enter"] | DETECTS["exit"]
_TRANSITIONS = DETECTS["enter"] | DETECTS["exit"] | DETECTS["cross"]

Box = tuple[dict[str, str], dict[str, tuple[int, int]]]
"""Keys by column, and inclusive ranges of ordinals by attribute."""


class LiveRule(NamedTuple):
    """One rule in force."""

    id: int
    version: int
    detects: int
    initial: bool
    expires: int
    boxes: list[Box] | None
    """None for a rule that is compiled: the snapshot has them."""
    row: int | None = None
    """Of a rule that is compiled; the snapshot has its texts, too."""
    condition: str | None = None
    labels: str | None = None
    """A JSON object."""
    name: str | None = None
    damping: Damping | None = None
    stay_boxes: list[Box] | None = None
    """The outer boxes of a rule with `stay` or `margin`; None for a rule without, and for one that is compiled."""
    computed: Mapping[str, Computed] = MappingProxyType({})
    """Of a rule that is not compiled, the attributes of its boxes, the outer ones too, that are no columns."""


class KeptColumns(NamedTuple):
    """Columns that are remembered of objects."""

    types: dict[str, AttributeType]
    keys: frozenset[str]


class RulesInForce:
    """The rules in force: a snapshot, and what changed since and is not compiled yet.

    Single changes wait until somebody asks what holds; then they become a layer of the snapshot together.

    Every column of the schema is remembered of objects, so that a rule that comes later can use it. Without a schema,
    new columns take the type of their first use. Further attributes and keys are remembered, and attributes reported.
    Where the rules themselves are elsewhere, as in shards, `used` has the columns that they use.
    """

    def __init__(
        self,
        base: Snapshot,
        schema: Any,
        attributes: Mapping[str, AttributeType] = MappingProxyType({}),
        keys: Iterable[str] = (),
        used: Iterable[str] | None = None,
    ) -> None:
        # Only boxes: the columns of bands belong to rows of two other streams.
        self.types: dict[str, AttributeType] = {**attributes, **{name: base.types[name] for name in base.attributes}}
        """The attributes that events have: those that rules use or ever used."""
        self.keys = {*base.keys, *keys}
        self._declared: dict[str, ColumnType] = {} if schema is None else read_schema(schema).types
        self.removed: dict[int, int] = {}
        """Versions of rules that are gone: an id that comes back goes on from there."""
        self._used = None if used is None else frozenset(used)
        self._schema = schema
        self._binder: Binder | None = None
        self._kept: tuple[tuple[int, int], KeptColumns] | None = None
        self._waiting: dict[int, LiveRule] = {}
        self._waiting_names: dict[str, int] = {}
        self._gone: set[int] = set()
        """Compiled rules that went or were replaced since."""
        self.shows_since = False
        """Whether a rule is, or ever was, damped: then events say since when."""
        self._take(base)

    def _take(self, snapshot: Snapshot) -> None:
        """Let these rules be in force, and nothing else."""
        self.compiled = snapshot
        """The rules in force but for the latest changes; `snapshot` has those, too."""
        self.paused = dict(snapshot.paused)
        """Versions of rules that are known but not in force, by id."""
        self._waiting.clear()
        self._waiting_names.clear()
        self._gone.clear()
        self._asked: tuple[int | None, int | None] = (None, None)
        rules = snapshot.rules
        self.ids, self.versions, self.detects, self.expires = rules.ids, rules.versions, rules.detects, rules.expires
        self.damping = snapshot.damping
        """The rules that are damped, by row; None where none is."""
        self.shows_since |= self.damping is not None
        self.finds = self.detects
        """What an engine looks for: of damped rules all transitions, since damping decides what is reported."""
        if self.damping is not None:
            with_stay = snapshot.rows_of(np.zeros(0, np.int64) if snapshot.stay is None else snapshot.stay.rules.ids)
            self.finds = self.detects.copy()
            self.finds[rows_that_wait(self.damping, with_stay)] |= _ENTER_AND_EXIT
        self._stay: RulesInForce | None = None
        self.detected = int(np.bitwise_or.reduce(self.finds, initial=0))
        """Every kind that some rule detects."""
        self.is_ascending = bool((self.ids[1:] > self.ids[:-1]).all())
        """Whether rows are in the order of ids."""
        detects_moves = (self.finds & _TRANSITIONS) != 0
        if self.damping is not None:
            detects_moves[self.damping.rules] = True  # `every` begins anew with every enter
        self.detects_moves: Bools | None = None if detects_moves.all() else detects_moves
        """Of which rules it matters when they are entered and left; None if of all."""
        expiring = np.flatnonzero(self.expires != NEVER)
        hidden = expiring[snapshot.rows_of(self.ids[expiring]) != expiring]
        self.expiring = np.setdiff1d(expiring, hidden)
        """The rows of rules in force that expire."""

    @property
    def stay(self) -> "RulesInForce | None":
        """The wider conditions that objects stay in, of the rules that have one."""
        wider = self.snapshot().stay
        if wider is None:
            return None
        if self._stay is None:
            self._stay = RulesInForce(wider, None)
            self._stay.detected, self._stay.detects_moves = _ENTER_AND_EXIT, None
        return self._stay

    @property
    def kept(self) -> KeptColumns:
        """The columns that are remembered of objects: those that rules use, and those that were declared."""
        if self._kept is None or self._kept[0] != (len(self.types), len(self.keys)):
            declared = {name: type_ for name, type_ in self._declared.items() if isinstance(type_, AttributeType)}
            keys = {name for name, type_ in self._declared.items() if type_ == KEY}
            kept = KeptColumns({**declared, **self.types}, frozenset(keys | self.keys))
            self._kept = ((len(self.types), len(self.keys)), kept)
        return self._kept[1]

    @property
    def unused(self) -> frozenset[str]:
        """Columns that were declared and that no rule uses yet."""
        return frozenset(self._declared) - self.types.keys() - self.keys

    @property
    def used(self) -> frozenset[str]:
        """The columns that rules in force use."""
        snapshot = self.snapshot()
        return frozenset((*snapshot.attributes, *snapshot.keys)) if self._used is None else self._used

    def follow(self, snapshot: Snapshot) -> "RulesInForce":
        """The rules of another snapshot in force, in place of these."""
        for name in snapshot.attributes:
            if self.types.get(name, snapshot.types[name]) != snapshot.types[name]:
                raise FencepostError(
                    f"rules that have {name} as {snapshot.types[name]}",
                    f"{self.types[name]}, as the rules until now",
                    "Compile them with schema= naming that type.",
                )
        before = self.snapshot()
        follower = RulesInForce(snapshot, self._schema, self.types, self.keys)
        follower.shows_since |= self.shows_since
        gone = before.unlike(snapshot)
        gone = gone[snapshot.rows_of(self.ids[gone]) < 0]
        removed = {**self.removed, **dict(zip(self.ids[gone].tolist(), self.versions[gone].tolist(), strict=True))}
        removed |= self.paused
        ids = np.array(list(removed), np.int64)
        follower.removed = {
            id: removed[id] for id in ids[snapshot.rows_of(ids) < 0].tolist() if id not in follower.paused
        }
        return follower

    def snapshot(self) -> Snapshot:
        """The rules in force, compiled; rows of rules are its rows."""
        if self._waiting or self._gone:
            gone, live = np.array(sorted(self._gone), np.int64), list(self._waiting.values())
            rules = RuleColumns(
                np.array([rule.id for rule in live], np.int64),
                np.array([rule.version for rule in live], np.int64),
                np.array([rule.detects for rule in live], np.uint8),
                np.array([rule.initial for rule in live], np.bool_),
                np.array([rule.expires for rule in live], np.int64),
                pa.array([rule.condition for rule in live], pa.large_string()),
                pa.array([rule.labels for rule in live], pa.large_string()),
                pa.array([rule.name for rule in live], pa.large_string()),
            )
            boxes = _box_sets([rule.boxes or [] for rule in live])
            damping = Dampings.of([rule.damping for rule in live]).columns()
            computed = {name: each for rule in live for name, each in rule.computed.items()}
            stay = _stay_columns(live, rules, self.types, computed)
            columns = CompiledColumns(rules, boxes, self.types, None, {}, damping, stay, computed)
            if computed:
                columns = join_columns([columns], self.types)
            self._take(self.compiled.changed(gone, columns, self.paused, self.compiled.version))
        return self.compiled

    def change(self, rules: Rules, remove: Int64s, *, versioned: bool = False) -> Snapshot:
        """The rules as they would be after some are put and some are removed by id; changes nothing.

        Where they are `versioned`, as those of a book, they keep their versions, unless an id has reached it already.
        """
        before = self.snapshot()
        columns = self._columns_of(rules)
        compiled = columns.rules
        pausing = {
            id: max(version, self.next_version(id)) if versioned else self.next_version(id)
            for id, version in rules.paused().items()
        }
        going = set(remove.tolist())
        self._refuse_names(compiled, {*going, *pausing})
        paused = {id: version for id, version in self.paused.items() if id not in rules and id not in going} | pausing
        rows = before.rows_of(compiled.ids)
        versions = np.where(rows >= 0, self.versions[rows] + 1, 1) if len(self.versions) else np.ones_like(rows)
        for known in (self.removed, self.paused):
            if known:
                versions = np.maximum(versions, [known.get(id, 0) + 1 for id in compiled.ids.tolist()])
        if versioned:
            versions = np.maximum(versions, compiled.versions)
        gone = np.concatenate([remove, np.array(list(pausing), np.int64)])
        columns = columns.with_versions(versions)
        return before.changed(gone, columns, paused, before.version)

    @property
    def schema(self) -> dict[str, str] | None:
        """The columns that were declared, with the names of their types."""
        return None if self._schema is None else read_schema(self._schema).as_texts()

    @property
    def version(self) -> int:
        """Of the snapshot."""
        return self.compiled.version

    def __len__(self) -> int:
        return len(self.compiled) - len(self._gone) + len(self._waiting)

    def in_force(self) -> tuple[Int64s, Int64s, Int64s]:
        """Ids, versions and expiries of all rules in force."""
        rows = self.snapshot().in_force
        return self.ids[rows], self.versions[rows], self.expires[rows]

    def __contains__(self, id: int) -> bool:
        return id in self._waiting or self._row(id) is not None

    def id_of(self, name: str) -> int | None:
        """The id of the rule in force with a name."""
        if name in self._waiting_names:
            return self._waiting_names[name]
        row = int(self.compiled.rows_named(pa.array([name], pa.large_string()))[0])
        return int(self.ids[row]) if row >= 0 and self.ids[row] not in self._gone else None

    def find(self, id: int) -> LiveRule | None:
        """The rule with this id, if it is in force."""
        if id in self._waiting:
            return self._waiting[id]
        row = self._row(id)
        if row is None:
            return None
        version, detects, expires = int(self.versions[row]), int(self.detects[row]), int(self.expires[row])
        initial = bool(self.compiled.rules.initial[row])
        text = None if self.compiled.damping is None else self.compiled.damping.text_of(row)
        damping = None if text is None else damping_of(text)
        return LiveRule(id, version, detects, initial, expires, None, row, damping=damping)

    def name(self, rule: LiveRule) -> str | None:
        """The name of a rule; None where it has none."""
        name: str | None = rule.name if rule.row is None else self.compiled.rules.names[rule.row].as_py()
        return name

    def boxes(self, rule: LiveRule) -> list[Box]:
        """The boxes of a rule in force."""
        if rule.boxes is not None:
            return rule.boxes
        assert rule.row is not None, "a rule without boxes is compiled"
        return self.compiled.boxes_of(rule.row)

    def computed_of(self, rule: LiveRule) -> Mapping[str, Computed]:
        """The computed attributes that the boxes of a rule in force may have, the outer ones too."""
        return rule.computed if rule.row is None else self.computed_of_compiled

    def terms_of(self, rule: LiveRule, columns: Collection[str]) -> dict[str, Computed]:
        """The expressions of a rule in force that are ranges of these columns by now, to show their values."""
        text = rule.condition if rule.row is None else self.compiled.rules.conditions[rule.row].as_py()
        if text is None:
            return {}
        found: dict[str, Computed] = {}
        binder = Binder(self._columns())
        try:
            parsed = parse(text, self.compiled.zone)
            for part in (part for box in parsed.boxes for part in box) if isinstance(parsed, Condition) else ():
                if part.term is not None:
                    each = Computed(binder.typed(part.term, part.place))
                    if each.term.type != KEY and len(each.columns) == 1 and each.columns.keys() <= set(columns):
                        found[computed_id(each)] = each
        except FencepostError:
            return {}  # a column that it uses is gone from the schema: then its parts are never shown, either
        return found

    @property
    def computed_of_compiled(self) -> Mapping[str, Computed]:
        """The computed attributes of all boxes that are compiled, the outer ones too."""
        stay = self.compiled.stay
        return self.compiled.computed if stay is None else {**self.compiled.computed, **stay.computed}

    def stay_boxes(self, rule: LiveRule) -> list[Box]:
        """The outer boxes of a rule in force; none where it is left by the borders that it is entered by."""
        if rule.row is None or self.compiled.stay is None:
            return rule.stay_boxes or []
        row = int(self.compiled.stay.rows_of(np.array([rule.id]))[0])
        return [] if row < 0 else self.compiled.stay.boxes_of(row)

    def prepare(self, id: int, condition: str, options: Mapping[str, Any]) -> tuple[LiveRule | None, dict[str, Any]]:
        """The rule as it would be in force (None if it is not enabled), and the columns it brings; changes nothing."""
        try:
            return self._bound(id, condition, options), {}
        except (FencepostError, TypeError):
            pass  # the way around compiles it alone: it can take new columns, and its refusals name the rule
        alone = Rules(self.compiled.zone)
        alone.add(id, condition, **options)
        columns = self._columns_of(alone)
        new = {**dict.fromkeys(columns.keys, KEY), **columns.types}
        if not len(columns.rules.ids):
            return None, new
        made = Snapshot.compile(columns)
        stay_boxes = None if made.stay is None else made.stay.boxes_of(0)
        computed = {**made.computed, **({} if made.stay is None else made.stay.computed)}
        self._check_number(id, computed)
        live = self._live(id, read_options(options), condition, made.boxes_of(0), stay_boxes)
        return live._replace(computed=computed), new

    def _check_number(self, id: int, computed: Mapping[str, Computed]) -> None:
        """Refuse more expressions than a snapshot has; those of a rule that is replaced go with it."""
        if not (new := expressions_of(computed.values())):
            return
        others = [rule for rule in self._waiting.values() if rule.id != id]
        waiting = expressions_of(each for rule in others for each in rule.computed.values())
        standing: dict[str, Term | None] = {**expressions_of(self.computed_of_compiled.values())}
        for each in [] if self.compiled.bands is None else all_sides(self.compiled.bands):
            standing |= each.expressions
        if len(standing | waiting | new) > MOST_EXPRESSIONS:  # only then what goes is worth looking for
            standing = self.compiled.expressions_without(np.array([*self._gone, id], np.int64))
        check_number(standing | waiting | new)

    def _live(
        self, id: int, options: Options, condition: str, boxes: list[Box], stay_boxes: list[Box] | None = None
    ) -> LiveRule:
        """A rule as it is in force with its next version; refuses a name of another one."""
        if options.name is not None:
            owner = self.id_of(options.name)
            if owner not in (None, id):
                assert owner is not None
                raise name_taken(id, options.name, owner)
        return LiveRule(
            id,
            self.next_version(id),
            detect_flags(options.detect),
            options.initial,
            microseconds_of(options.expires),
            boxes,
            None,
            condition,
            labels_text(options.labels),
            options.name,
            Damping.of(options),
            stay_boxes,
        )

    def _refuse_names(self, rules: RuleColumns, leaving: Collection[int]) -> None:
        """Refuse rules with a name of another rule that stays in force."""
        if rules.names.null_count == len(rules.names):
            return
        rows = self.snapshot().rows_named(rules.names)
        owners = self.ids[rows] if len(self.ids) else rows
        stays = (rows >= 0) & ~np.isin(owners, rules.ids) & ~np.isin(owners, list(leaving))
        for place in np.flatnonzero(stays)[:1].tolist():
            raise name_taken(int(rules.ids[place]), rules.names[place].as_py(), int(owners[place]))

    def _bound(self, id: int, condition: str, given: Mapping[str, Any]) -> LiveRule | None:
        """A rule whose columns are all known: its text bound to their types, without compiling anything."""
        options = read_options(given)
        if options.stay is not None or options.margin is not None:
            raise FencepostError("outer boxes", "a rule without", "Compile it.")
        if self._binder is None:
            self._binder = Binder(self._columns() if self._schema is None else read_schema(self._schema).types)
        parsed = parse(condition, self.compiled.zone)
        if not isinstance(parsed, Condition):
            raise FencepostError("a band", "a condition of one stream", "Compile it.")
        bound = self._binder.bind(parsed)
        if any(box.strings for box in bound.boxes) and "cross" in options.detect:
            raise FencepostError("ordered strings that are crossed", "a rule without", "Compile it.")
        boxes, ordered = ranked_boxes(bound.boxes)
        computed = {**bound.computed, **ordered}
        known, keys = self.types.keys() | computed.keys(), set(self.keys)
        if any(name not in known for _, ranges in boxes for name in ranges) or any(
            name not in keys for own, _ in boxes for name in own
        ):
            raise FencepostError("a new column", "known ones", "Compile it.")
        columns = {name for each in computed.values() for name in each.columns}
        if not columns <= self.types.keys() | keys:
            raise FencepostError("a new column", "known ones", "Compile it.")
        if not options.enabled:
            return None
        self._check_number(id, computed)
        return self._live(checked_id(id), options, condition, boxes)._replace(computed=computed)

    def next_version(self, id: int) -> int:
        """The version that this id gets with its next edit."""
        if id in self.paused:
            return self.paused[id] + 1
        if id in self._waiting:
            return self._waiting[id].version + 1
        row = self._row(id)
        return self.removed.get(id, 0) + 1 if row is None else int(self.versions[row]) + 1

    def put(self, id: int, rule: LiveRule | None, new: Mapping[str, Any]) -> None:
        """Put a prepared rule in force, in place of any other with its id."""
        version = self.next_version(id)
        self._drop(id)
        self.removed.pop(id, None)
        for name, type_ in new.items():
            self._binder = None
            if type_ == KEY:
                self.keys.add(name)
            else:
                self.types.setdefault(name, type_)
        if rule is None:
            self.paused[id] = version
            return
        self.paused.pop(id, None)
        self._waiting[id] = rule
        if rule.name is not None:
            self._waiting_names[rule.name] = id

    def remove(self, id: int) -> None:
        """Take a rule out."""
        self.removed[id] = self.next_version(id) - 1
        self._drop(id)
        self.paused.pop(id, None)

    def save_versions(self) -> dict[str, dict[str, int]]:
        """The versions that ids have reached which are not in force."""
        return {
            name: {str(id): version for id, version in versions.items()}
            for name, versions in (("paused", self.paused), ("removed", self.removed))
        }

    def restore_versions(self, kept: dict[str, dict[str, int]]) -> None:
        """Take over what `save_versions` gave; a rule that is paused here by now goes on from there."""
        reached = {int(id): version for versions in kept.values() for id, version in versions.items()}
        own = {id: max(version, reached.get(id, 0)) for id, version in self.paused.items()}
        self.paused = {int(id): version for id, version in kept["paused"].items()} | own
        self.removed = {id: version for id, version in reached.items() if id not in self.paused}

    def held_at(self, positions: Positions, strings: Mapping[str, KeyStrings]) -> Pairs:
        """Which conditions hold at which positions."""
        return match_positions(self.snapshot(), positions, strings)

    @property
    def detects_cross(self) -> bool:
        """Whether a rule in force detects cross."""
        snapshot = self.snapshot()
        if not self.detected & DETECTS["cross"]:
            return False
        return bool((self.detects[snapshot.in_force] & DETECTS["cross"]).any())

    def _columns(self) -> dict[str, Any]:
        strings = {*self.keys, *string_columns(self.compiled.bands)}
        return {**dict.fromkeys(sorted(strings), KEY), **self.compiled.types, **self.types}

    def _columns_of(self, rules: Rules) -> CompiledColumns:
        """Bound to the types that columns have so far; new columns take the type of their use."""
        if self._schema is not None:
            return rules.columns(self._schema)
        try:
            return rules.columns(self._columns())
        except FencepostError:
            inferred = rules.columns()
            known = {name.lower() for name in self._columns()}
            new = {**dict.fromkeys([*inferred.keys, *key_columns(inferred.bands)], KEY), **inferred.types}
            return rules.columns({**{n: t for n, t in new.items() if n.lower() not in known}, **self._columns()})

    def _drop(self, id: int) -> None:
        waiting = self._waiting.pop(id, None)
        if waiting is not None and waiting.name is not None:
            del self._waiting_names[waiting.name]
        if self._row(id) is not None:
            self._gone.add(id)

    def _row(self, id: int) -> int | None:
        """The row of a rule that is compiled and still in force."""
        if self._asked[0] != id:  # one change asks for the same id several times
            row = int(self.compiled.rows_of(np.array([id]))[0])
            self._asked = (id, None if row < 0 else row)
        return None if id in self._gone else self._asked[1]


class LiveTexts:
    """What a few rules are called, by their place among these: those in force before, or from now on."""

    def __init__(self, rules: RulesInForce, live: Sequence[LiveRule | None]) -> None:
        self._rules, self._live = rules, live

    @cached_property
    def _texts(self) -> ListedTexts:
        columns = []
        for name, own in (("conditions", "condition"), ("labels", "labels"), ("names", "name")):
            texts = []
            for rule in self._live:
                if rule is not None and rule.row is not None:
                    texts.append(getattr(self._rules.compiled.rules, name)[rule.row].as_py())
                else:
                    texts.append(None if rule is None else getattr(rule, own))
            columns.append(pa.array(texts, pa.large_string()))
        return ListedTexts(*columns)

    def names(self, rows: Int64s) -> Any:
        """Their names."""
        return self._texts.names(rows)

    def labels(self, rows: Int64s, short: bool = False) -> Any:
        """Their labels."""
        return self._texts.labels(rows, short)

    def conditions(self, rows: Int64s) -> Any:
        """Their conditions."""
        return self._texts.conditions(rows)


def _box_sets(boxes_of: Iterable[Iterable[Box]]) -> list[BoxSet]:
    """The boxes of rules, which have the rows 0, 1, ..., a set per combination of columns."""
    together: dict[tuple[tuple[str, ...], tuple[str, ...]], list[tuple[int, Box]]] = {}
    for row, boxes in enumerate(boxes_of):
        for box in boxes:
            together.setdefault((tuple(sorted(box[0])), tuple(sorted(box[1]))), []).append((row, box))
    sets = []
    for (keys, attributes), members in together.items():
        ends = np.array([[ranges[name] for name in attributes] for _, (_, ranges) in members], np.int64)
        ends = ends.reshape(len(members), len(attributes), 2)
        texts = tuple(pa.array([box[0][name] for _, box in members], pa.large_string()) for name in keys)
        rows = np.array([row for row, _ in members], np.int64)
        sets.append(BoxSet(keys, attributes, rows, texts, ends[..., 0], ends[..., 1]))
    return sets


def _stay_columns(
    live: list[LiveRule], rules: RuleColumns, types: dict[str, AttributeType], computed: Mapping[str, Computed]
) -> CompiledColumns | None:
    """The rules that have outer boxes, with these."""
    stays = [(row, rule.stay_boxes) for row, rule in enumerate(live) if rule.stay_boxes]
    if not stays:
        return None
    rows = np.array([row for row, _ in stays], np.int64)
    chosen = pa.array(rows)
    own = RuleColumns(*(each[rows] if isinstance(each, np.ndarray) else each.take(chosen) for each in rules))
    texts = [None if (damping := live[row].damping) is None else damping.stay for row, _ in stays]
    nothing = pa.nulls(len(rows), pa.large_string())
    own = own._replace(conditions=pa.array(texts, pa.large_string()), labels=nothing, names=nothing)
    sets = _box_sets(boxes for _, boxes in stays)
    used = {name for each in sets for name in each.attributes}
    own_computed = {name: each for name, each in computed.items() if name in used}
    return CompiledColumns(own, sets, types, None, {}, computed=own_computed)


def match_positions(snapshot: Snapshot, positions: Positions, strings: Mapping[str, KeyStrings]) -> Pairs:
    """Which rules of one snapshot hold at which positions."""
    matches = snapshot.match_rows(batch_of(snapshot, positions, strings))
    return Pairs(np.repeat(np.arange(positions.rows), matches.counts), matches.ids)
