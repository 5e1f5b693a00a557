"""Versions: what is published, what changed, what would change; publishing and going back."""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fencepost.console.paper import NotFoundPageError, Paper, author_of, posting
from fencepost.console.source import Missing, VersionsPart
from fencepost.errors import FencepostError
from fencepost.published.difference import Difference

_PAGE = 30
_SHOWN = 200


def version_pages(paper: Paper) -> list[Route]:
    """The list, a version, a comparison of two, and what people do with them."""

    def part() -> VersionsPart:
        versions = paper.source.versions
        if not versions:
            reason = versions.reason if isinstance(versions, Missing) else ""
            raise FencepostError("there are no versions here", "rules that are published", reason)
        return versions

    def names(found: Difference) -> dict[int, str]:
        """The names of the rules that are shown."""
        ids = [*found.added[:_SHOWN], *found.edited[:_SHOWN], *found.removed[:_SHOWN], *found.paused[:_SHOWN]]
        rules = paper.source.rules
        return {id: rule.name for id, rule in rules.some(ids).items() if rule.name} if rules else {}

    def versions(request: Request) -> Response:
        found = paper.source.versions
        if not found:
            return paper.page("left_out.html", request, title="Versions", place="Versions", missing=found)
        return paper.page(
            "versions.html", request, place="Versions", versions=found.list(_PAGE), preview=None, part=found
        )

    def preview(request: Request) -> Response:
        found = part()
        changed = found.preview()
        known: dict[str, Any] = {"preview": changed, "names": names(changed), "most": _SHOWN}
        return paper.page("versions.html", request, place="Versions", versions=found.list(_PAGE), part=found, **known)

    def difference(request: Request) -> Response:
        before, after = (_number(request.query_params.get(name, "")) for name in ("from", "to"))
        found = _refuse_missing(lambda: part().difference(before, after))
        known: dict[str, Any] = {"before": before, "after": after, "difference": found, "names": names(found)}
        known["most"] = _SHOWN
        return paper.page("difference.html", request, place="Versions", **known)

    def one(request: Request) -> Response:
        number = _number(request.path_params["number"])
        numbers = [each.number for each in part().list(_PAGE)]
        summary = _refuse_missing(lambda: part().summarize(number))
        older = next((each for each in numbers if each < number), None)
        return paper.page(
            "version.html",
            request,
            place="Versions",
            number=number,
            explanation=summary.explanation,
            in_force=summary.in_force,
            paused=summary.paused,
            older=older,
            is_latest=bool(numbers) and numbers[0] == number,
            part=part(),
        )

    def publish(request: Request, _form: Any) -> Response:
        number = part().publish(author_of(request))
        return paper.go(request, f"/versions/{number}", "published")

    def roll_back(request: Request, _form: Any) -> Response:
        wanted = _number(request.path_params["number"])
        number = _refuse_missing(lambda: part().roll_back(wanted, author_of(request)))
        return paper.go(request, f"/versions/{number}", "rolled")

    return [
        Route("/versions", versions),
        Route("/versions/preview", preview),
        Route("/versions/diff", difference),
        Route("/versions/publish", posting(publish), methods=["POST"]),
        Route("/versions/{number}", one),
        Route("/versions/{number}/roll-back", posting(roll_back), methods=["POST"]),
    ]


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise NotFoundPageError(f"{text!r} is no number of a version.")
    return int(text)


def _refuse_missing(work: Any) -> Any:
    try:
        return work()
    except FencepostError as error:
        if error.got.startswith("version ") and error.expected.startswith("a published version"):
            number = error.got.split()[1]
            raise NotFoundPageError(f"There is no version {number}, or it is no longer kept.") from None
        raise
    except FileNotFoundError:
        raise NotFoundPageError("This version is no longer kept.") from None
