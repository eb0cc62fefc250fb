"""Bytes as text, in Base64 or in hexadecimal digits, exactly as encoders write them.

Pure and self-contained (the standard library only): it runs on the driver and, shipped by value, on Spark's executors.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import a2b_base64, a2b_hex, b2a_base64
from collections.abc import Callable
from typing import Any

from lakehouse.decoding.written_forms import Written


def _from_base64(text: str) -> bytes | None:
    data = a2b_base64(text)  # which skips other characters and ignores surplus bits, unlike the comparison
    return data if b2a_base64(data, newline=False) == text.encode() else None


def _from_base64url(text: str) -> bytes | None:
    data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    padded_text = urlsafe_b64encode(data)
    return data if text.encode() in (padded_text, padded_text.rstrip(b"=")) else None


_READERS: dict[Any, Callable[[str], bytes | None]] = {
    "base64": _from_base64,
    "base64url": _from_base64url,
    "hex": a2b_hex,
}


def byte_reader(form: Written | None) -> Callable[[Any], bytes | None]:
    """Return the function that reads the bytes of a text; ``None`` if no encoder writes such a text, or for no text."""
    read = _READERS[form]

    def read_bytes(raw: Any) -> bytes | None:
        if not isinstance(raw, str):
            return None
        try:
            return read(raw)
        except ValueError:  # also of characters that are not ASCII
            return None

    return read_bytes
