"""Answers in JSON, with the version in their ETag: a client that has it gets 304 and no body."""

import hashlib
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from pydantic_core import to_json

from lakehouse.exports.row_texts import json_ready


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
