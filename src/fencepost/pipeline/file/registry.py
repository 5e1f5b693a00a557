"""A registry of schemas, as Confluent's answers over HTTP: schemas by id, and those of a subject."""

import json
from typing import Any
from urllib.parse import quote, unquote

import urllib3

from fencepost._text import mask_url, printable
from fencepost.errors import FencepostError, UnreachableError, shorten

_WAIT = 10.0
_LONGEST = 1 << 23
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


class Registry:
    """Asks one registry; a user and a password in its URL are sent as basic authentication."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        try:
            parsed = urllib3.util.parse_url(self._url)
        except urllib3.exceptions.LocationParseError:
            raise self._no_address() from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise self._no_address()
        self._base = (parsed.path or "").rstrip("/")
        user = {} if parsed.auth is None else urllib3.util.make_headers(basic_auth=unquote(parsed.auth))
        self._headers = {"Accept": _ACCEPT, "User-Agent": "fencepost", **user}
        self._origin = parsed._replace(auth=None, path=None, query=None, fragment=None).url

    def schema(self, id: int) -> str | None:
        """The schema with an id; None where the registry has none."""
        found = self._get(f"/schemas/ids/{id}")
        return None if found is None else self._avro(found, f"schema {id}")

    def latest(self, subject: str) -> str:
        """The newest schema of a subject."""
        found = self._get(f"/subjects/{quote(subject, safe='')}/versions/latest")
        if found is None:
            raise FencepostError(
                f"no subject {subject} in {mask_url(self._url)}",
                "the schema of the topic's values",
                "Register it, or name a file of the schema: schema = ...",
            )
        return self._avro(found, f"subject {subject}")

    def schemas_of(self, subject: str) -> dict[int, str]:
        """All schemas of a subject by id; none where the registry has no such subject."""
        place = f"/subjects/{quote(subject, safe='')}/versions"
        versions = self._get(place)
        found = [self._get(f"{place}/{version}") for version in versions] if isinstance(versions, list) else []
        return {
            int(each["id"]): self._avro(each, f"subject {subject}")
            for each in found
            if isinstance(each, dict) and isinstance(each.get("id"), int)
        }

    def _avro(self, found: Any, what: str) -> str:
        """The schema in an answer."""
        kind = found.get("schemaType", "AVRO") if isinstance(found, dict) else None
        if kind is None or not isinstance(found.get("schema"), str):
            raise self._strange(f"{what} without a schema")
        if kind != "AVRO" or found.get("references"):
            got = f"{what} is {kind}" if kind != "AVRO" else f"{what} refers to other schemas"
            raise FencepostError(
                f"{got}, in {mask_url(self._url)}", "a schema of Avro that is whole", "Register it as one schema."
            )
        return str(found["schema"])

    def _get(self, place: str) -> Any:
        """What the registry says of a place, as JSON; None where it has nothing there."""
        try:
            with urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(_WAIT), headers=self._headers) as pool:
                answer = pool.request(
                    "GET", f"{self._origin}{self._base}{place}", redirect=False, preload_content=False
                )
                content = answer.read(_LONGEST + 1)
                answer.release_conn()
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise self._no_answer(printable(shorten(str(error), 200))) from None
        if answer.status == 404:
            return None
        if answer.status >= 500 or answer.status in {408, 429}:
            raise self._no_answer(str(answer.status))
        if answer.status != 200:
            said = printable(f"{answer.status} {answer.reason or ''}".strip())
            raise FencepostError(
                f"{mask_url(self._url)}, which answers {said}",
                "a registry that gives its schemas",
                "Correct the address, or the user and password in it.",
            )
        try:
            if len(content) > _LONGEST:
                raise ValueError
            return json.loads(content)
        except (ValueError, RecursionError):
            raise self._strange("no JSON") from None

    def _no_address(self) -> FencepostError:
        got = f"{mask_url(self._url)!r} as a registry"
        return FencepostError(got, "http:// or https:// and a host", "Correct the address.")

    def _no_answer(self, reason: str) -> FencepostError:
        got = f"no answer from {mask_url(self._url)} ({reason})"
        return UnreachableError(got, "a registry that answers", "Start it, or correct the address.")

    def _strange(self, got: str) -> FencepostError:
        got = f"{got} from {mask_url(self._url)}"
        return FencepostError(got, "the answer of a schema registry", "Correct the address.")
