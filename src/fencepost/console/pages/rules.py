"""Rules: the list, one rule, and everything that people do with them."""

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fencepost._text import count
from fencepost.console.conditions import ReadCondition, read_condition
from fencepost.console.forms import (
    read_expect,
    read_id,
    read_options,
    read_search,
    read_until,
    rule_fields,
    sent_fields,
)
from fencepost.console.paper import NotFoundPageError, Paper, author_of, posting
from fencepost.console.source import EventFilter, FoundRules, Missing, RulesPart, Source, Trial
from fencepost.errors import FencepostError
from fencepost.rules import Rule
from fencepost.rules.faults import RuleFaultsError

_PAGE = 20
_INSIDE = 20
_EVENTS = 10
_HOUR = 60
_CHANGED = ("condition", "detect", "name", "labels", "expires", "enabled", "initial", "for_", "keep_firing_for",
            "stay", "margin", "cooldown", "limit", "every")  # fmt: skip


def rule_pages(paper: Paper) -> list[Route]:
    """The list, the forms, and a page for each rule."""
    pages = _RulePages(paper)
    return [
        Route("/rules", pages.list_rules),
        Route("/rules/new", pages.new),
        Route("/rules/add", posting(pages.add), methods=["POST"]),
        Route("/rules/read", posting(pages.read), methods=["POST"]),
        Route("/rules/try", posting(pages.try_fragment), methods=["POST"]),
        Route("/rules/import", pages.importing),
        Route("/rules/import", posting(pages.import_file), methods=["POST"]),
        Route("/rules/{id}", pages.one),
        Route("/rules/{id}", posting(pages.edit), methods=["POST"]),
        Route("/rules/{id}/{action}", posting(pages.act), methods=["POST"]),
    ]


class _RulePages:
    def __init__(self, paper: Paper) -> None:
        self._paper = paper

    @property
    def _source(self) -> Source:
        return self._paper.source

    def _part(self) -> RulesPart:
        rules = self._source.rules
        if not rules:
            reason = rules.reason if isinstance(rules, Missing) else ""
            raise FencepostError("rules cannot be seen here", "a rule book", reason)
        return rules

    def _id(self, request: Request) -> int:
        id = read_id(request.path_params["id"])
        if id is None:
            raise NotFoundPageError(f"{request.path_params['id']!r} is no id of a rule.")
        return id

    # -- looking -------------------------------------------------------------------------------------------

    def list_rules(self, request: Request) -> Response:
        if not self._source.rules:
            known: dict[str, Any] = {"title": "Rules", "place": "Rules", "missing": self._source.rules}
            return self._paper.page("left_out.html", request, **known)
        part, search = self._part(), read_search(request.query_params)
        after, refusal = read_id(request.query_params.get("after", "")), None
        try:
            found = part.page(after, _PAGE, search)
        except FencepostError as error:
            found, refusal = FoundRules(()), error
        shown = [*found.named, *found.rules]
        events = self._source.events.per_minute([rule.id for rule in shown]) if self._source.events else None
        return self._paper.page(
            "rules.html",
            request,
            place="Rules",
            found=found,
            rules=shown,
            count=part.count(),
            search=search,
            fields={"q": search.text, "label": search.label, "holds": search.holds, "state": search.state},
            is_first=after is None,
            events=events,
            refusal=refusal,
            can_edit=part.can_edit,
        )

    def one(self, request: Request) -> Response:
        return self._show(request, self._id(request))

    def _show(
        self, request: Request, id: int, fields: Mapping[str, Any] | None = None, refusal: Any = None, trial: Any = None
    ) -> Response:
        """The page of a rule; with the fields as somebody has filled them in, and what is wrong with them."""
        source, part = self._source, self._part()
        rule = part.get(id)
        history = part.history(id)
        if rule is None and not history:
            raise NotFoundPageError(f"There is no rule {id}.")
        events = source.events.last(_EVENTS, EventFilter(rule=id)) if source.events else ()
        per_minute = source.events.per_minute([id])[id] if source.events else ()
        inside = source.objects.inside(id, _INSIDE) if source.objects else source.objects
        held = source.objects.held_back(id, _INSIDE) if source.objects else ((), 0)
        types = part.types()
        read = None if rule is None else read_condition(str(rule.condition), types)
        filled = dict(rule_fields(rule) if fields is None else fields)
        if rule is not None:  # who has seen this page knows that version, and may save again on top of it
            filled["expect"] = rule.version
        typed = read_condition(filled["condition"], types) if fields is not None else read
        return self._paper.page(
            "rule.html",
            request,
            400 if refusal is not None else 200,
            place="Rules",
            id=id,
            rule=rule,
            paused_until=None if rule is None or rule.enabled else part.paused_until(id),
            read=read,
            typed=typed,
            values=self._values(read, inside),
            inside=inside,
            held=held,
            events=events,
            names={} if rule is None or rule.name is None else {id: rule.name},
            per_minute=per_minute,
            minutes=_HOUR,
            history=[(change, describe_change(change)) for change in history],
            fields=filled,
            refusal=refusal,
            trial=trial,
            can_edit=part.can_edit,
            has_versions=part.has_versions,
            rows=source.rows,
        )

    def _values(self, read: ReadCondition | None, inside: Any) -> dict[str, list[Any]]:
        """Where the objects inside are, on the axes of the rule."""
        if read is None or not isinstance(inside, tuple) or not self._source.objects:
            return {}
        names = {name for box in read.boxes for name in box.ranges}
        found: dict[str, list[Any]] = {name: [] for name in names}
        for object in inside[0]:
            seen = self._source.objects.get(str(object))
            for name in names if seen is not None and len(names) == 1 else ():
                found[name].append(None if seen is None else seen.values.get(name))
        return found

    # -- writing a condition -------------------------------------------------------------------------------

    def read(self, request: Request, form: Any) -> Response:
        """What a condition means, while it is typed."""
        typed = read_condition(str(form.get("condition", "")).replace("\r\n", "\n"), self._part().types())
        html = self._paper.render("fragments/meaning.html", request, typed=typed)
        return JSONResponse({"html": html, "spans": list(typed.spans), "fault": typed.fault})

    def try_fragment(self, request: Request, form: Any) -> Response:
        """What the condition would have reported, beside the rule as it is."""
        id = read_id(str(form.get("id", "")))
        rule = None if id is None else self._part().get(id)
        return self._paper.page("fragments/trial.html", request, **self._try(rule, sent_fields(form)))

    def _try(self, rule: Rule | None, fields: Mapping[str, Any]) -> dict[str, Any]:
        rows = self._source.rows
        if not rows:
            return {"trial": None, "trouble": rows.reason if isinstance(rows, Missing) else ""}
        try:
            trial: Trial = rows.try_condition(rule, fields["condition"], read_options(fields))
        except FencepostError as error:
            return {"trial": None, "trouble": error.one_line}
        return {"trial": trial, "trouble": ""}

    # -- changing ------------------------------------------------------------------------------------------

    def _refuse_fault(self, fields: Mapping[str, Any]) -> None:
        """Refuse a condition that cannot be used with the columns there are."""
        error = read_condition(fields["condition"], self._part().types()).error
        if error is not None:
            raise error

    def new(self, request: Request) -> Response:
        fields = rule_fields(None) | {"condition": request.query_params.get("condition", "")}
        return self._form(request, fields)

    def _form(self, request: Request, fields: Mapping[str, Any], refusal: Any = None, trial: Any = None) -> Response:
        typed = read_condition(fields["condition"], self._part().types())
        known = {"fields": fields, "typed": typed, "refusal": refusal, "trial": trial, "rows": self._source.rows}
        known["can_edit"] = self._part().can_edit
        known["columns"] = self._part().types()
        return self._paper.page("new_rule.html", request, 400 if refusal else 200, place="Rules", rule=None, **known)

    def add(self, request: Request, form: Any) -> Response:
        fields = sent_fields(form)
        if form.get("action") == "try":
            return self._form(request, fields, trial=self._try(None, fields))
        try:
            id = read_id(fields["id"]) if fields["id"] else None
            if fields["id"] and id is None:
                raise FencepostError(f"id {fields['id']!r}", "a whole number", "Leave it empty to get one.")
            self._refuse_fault(fields)
            rule = self._part().add(id, fields["condition"], read_options(fields), author_of(request))
        except FencepostError as error:
            return self._form(request, fields, error)
        return self._paper.go(request, f"/rules/{rule.id}", "added")

    def edit(self, request: Request, form: Any) -> Response:
        id, fields = self._id(request), sent_fields(form)
        rule = self._part().get(id)
        if form.get("action") == "try":
            return self._show(request, id, fields, trial=self._try(rule, fields))
        try:
            options = read_options({**fields, "enabled": rule is None or rule.enabled})
            self._refuse_fault(fields)
            if rule is not None and is_same(rule, fields["condition"], options):
                return self._paper.go(request, f"/rules/{id}", "same")
            self._part().replace(id, fields["condition"], options, read_expect(form), author_of(request))
        except FencepostError as error:
            return self._show(request, id, fields, error)
        return self._paper.go(request, f"/rules/{id}", "edited")

    def act(self, request: Request, form: Any) -> Response:
        """Pause, resume, remove or restore."""
        id, action, part = self._id(request), request.path_params["action"], self._part()
        expect, author = read_expect(form), author_of(request)
        try:
            if action == "pause":
                part.pause(id, read_until(form), expect, author)
                said = "paused"
            elif action == "resume":
                part.resume(id, expect, author)
                said = "resumed"
            elif action == "remove":
                part.remove(id, expect, author)
                said = "removed"
            elif action == "restore":
                part.restore(id, read_id(str(form.get("version", ""))) or 0, expect, author)
                said = "restored"
            else:
                raise NotFoundPageError(f"Nothing is called {action!r} here.")
        except FencepostError as error:
            return self._show(request, id, refusal=error)
        return self._paper.go(request, f"/rules/{id}", said)

    # -- files ---------------------------------------------------------------------------------------------

    def importing(self, request: Request) -> Response:
        return self._importing(request)

    def _importing(self, request: Request, report: str = "", refusal: Any = None, existing: str = "refuse") -> Response:
        faults: Sequence[str] = refusal.shown if isinstance(refusal, RuleFaultsError) else ()
        known = {"report": report, "refusal": refusal, "faults": faults, "existing": existing}
        known["more"] = refusal.total - len(faults) if isinstance(refusal, RuleFaultsError) else 0
        known["can_edit"] = self._part().can_edit
        return self._paper.page("import.html", request, 400 if refusal else 200, place="Rules", **known)

    def import_file(self, request: Request, form: Any) -> Response:
        name, content = request.state.uploads.get("file", ("", b""))
        existing = str(form.get("existing", "refuse"))
        try:
            if not name:
                raise FencepostError("no file", "JSON lines, CSV or Parquet", "Choose a file.")
            found = self._part().import_file(name, content, existing, author_of(request))  # type: ignore[arg-type]
        except FencepostError as error:
            return self._importing(request, refusal=error, existing=existing)
        report = (
            f"{count(found.added, 'rule')} added, {found.replaced:,} replaced, {found.unchanged:,} unchanged, "
            f"{found.skipped:,} skipped."
        )
        return self._importing(request, report, existing=existing)


def is_same(rule: Rule, condition: str, options: Mapping[str, Any]) -> bool:
    """Whether a form says what the rule says already."""
    return str(rule.condition) == condition and all(
        getattr(rule, name) == options[name] for name in _CHANGED if name != "condition"
    )


def describe_change(change: Any) -> str:
    """What was different after a change, in a few words."""
    before, after = change.before, change.after
    if before is None or after is None:
        return ""
    parts = []
    for name in _CHANGED:
        old, new = getattr(before, name), getattr(after, name)
        if old != new and name != "enabled":
            parts.append(f"{name.rstrip('_').replace('_', ' ')}: {_shown(old)} → {_shown(new)}")
    return "; ".join(parts)


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    return "none" if value is None or value == "" else str(value)
