"""The files of deletion vectors, by what the log says of them; a vector may also be in the log itself."""

from base64 import b85decode, b85encode
from collections.abc import Mapping
from typing import Any
from uuid import UUID

IN_OWN_FOLDER, IN_LOG = "u", "i"  # where a vector is; it may also belong to another table
VECTOR_SUFFIX = ".bin"  # of the files of vectors
_CODE_LENGTH = 20
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_FROM_Z85, _TO_Z85 = bytes.maketrans(_Z85, _B85), bytes.maketrans(_B85, _Z85)
Vector = Mapping[str, Any]
"""What the log says of the deletion vector of a file; empty if it has none."""


def vector_path(vector: Vector) -> str | None:
    """Return the path of the file with a vector within the folder of its table; ``None`` if it is not there."""
    if vector.get("storageType") != IN_OWN_FOLDER:
        return None
    text = vector["pathOrInlineDv"]
    prefix, code = text[:-_CODE_LENGTH], text[-_CODE_LENGTH:]
    name = vector_file(UUID(bytes=decode_z85(code)))
    return f"{prefix}/{name}" if prefix else name


def vector_file(number: UUID) -> str:
    """Return the name of a file with vectors."""
    return f"deletion_vector_{number}{VECTOR_SUFFIX}"


def decode_z85(code: str) -> bytes:
    """Return the bytes that the log has in the base of Z85."""
    return b85decode(code.encode().translate(_FROM_Z85))


def encode_z85(content: bytes) -> str:
    """Return bytes in the base of Z85; their number is divisible by four."""
    return b85encode(content).translate(_TO_Z85).decode()
