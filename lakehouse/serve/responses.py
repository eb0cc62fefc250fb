"""What an answer is: JSON with its version in the ETag, and one of several pages of the same version."""

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response
from pydantic_core import to_json

from lakehouse.exports.row_texts import json_ready
from lakehouse.serve.database import Rows
from lakehouse.serve.problems import RequestError, wrong_parameter
from lakehouse.serve.snapshots import Snapshot
from lakehouse.serve.statements import Part

PAGE = "page"
_MAX_NUMBER = 2**53


def answer(request: Request, tag: str, read: Callable[[], Mapping[str, Any]]) -> Response:
    """Return what ``read`` returns, or 304 if the client has the answer with this tag."""
    return _respond(request, tag, lambda: json_bytes(read()))


def answer_without_version(request: Request, fields: Mapping[str, Any], version: int | None = None) -> Response:
    """Return the fields, with a tag of their content: for what changes without a commit."""
    body = json_bytes(fields)
    digest = hashlib.sha256(body).hexdigest()[:16]
    return _respond(request, digest if version is None else f"{version}-{digest}", lambda: body)


def json_bytes(value: Any) -> bytes:
    """Return a value in the JSON of ``lakehouse query``: exact decimals as text, times in ISO 8601, bytes in base64."""
    return to_json(json_ready(value))


def _respond(request: Request, tag: str, read: Callable[[], bytes]) -> Response:
    headers = {"ETag": f'"{tag}"', "Cache-Control": "private, no-cache"}
    known_tags = {text.strip().removeprefix("W/") for text in request.headers.get("If-None-Match", "").split(",")}
    if known_tags & {"*", headers["ETag"]}:
        return Response(None, HTTPStatus.NOT_MODIFIED, headers)
    return Response(read(), HTTPStatus.OK, headers, "application/json")


@dataclass(frozen=True)
class Page:
    """The place of a page: the version, how many rows are before it, and a digest of the table and the request."""

    version: int
    skip: int
    digest: str

    @property
    def token(self) -> str:
        """The page as text."""
        return urlsafe_b64encode(json.dumps([self.version, self.skip, self.digest]).encode()).decode().rstrip("=")


def parse_page(token: str | None) -> Page | None:
    """Return the page of a token; ``RequestError`` if it is not one."""
    if token is None:
        return None
    try:
        version, skip, digest = json.loads(urlsafe_b64decode(f"{token}{'=' * (-len(token) % 4)}"))
    except (ValueError, TypeError):
        raise _wrong_page("is not the token of a page") from None
    is_valid = all(type(number) is int and 0 <= number < _MAX_NUMBER for number in (version, skip))
    if not is_valid or not isinstance(digest, str):
        raise _wrong_page("is not the token of a page")
    return Page(version, skip, digest)


def rows_before(request: Request, snapshot: Snapshot, page: Page | None) -> int:
    """Return how many rows are before the page; ``RequestError`` if it is one of another request or table."""
    if page is None:
        return 0
    if page.digest != _digest(request, snapshot):
        raise _wrong_page("belongs to other parameters, or to a table that has been created again")
    return page.skip


def show_page(request: Request, snapshot: Snapshot, rows: Rows, part: Part) -> dict[str, Any]:
    """Return the rows of the page, and the address of the next page; ``None`` at the end."""
    following = None
    if rows.has_more:
        page = Page(snapshot.version.number, part.skip + len(rows.rows), _digest(request, snapshot))
        parameters = [(name, text) for name, text in request.query_params.multi_items() if name != PAGE]
        following = f"{request.url.path}?{urlencode([*parameters, (PAGE, page.token)])}"
    return {"rows": rows.rows, "next": following}


def _digest(request: Request, snapshot: Snapshot) -> str:
    parameters = [item for item in request.query_params.multi_items() if item[0] != PAGE]
    text = json.dumps([snapshot.table_id, request.url.path, parameters])
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]


def _wrong_page(problem: str) -> RequestError:
    return wrong_parameter(PAGE, f"The page {problem}", "Use the address in next of an answer, or begin without page.")
