"""The schema of a Protobuf format that needs no registry: a file, or a text, in its declaration.

Only the driver reads and compiles it; Spark's workers get what is made of it, with the format.
"""

from base64 import b64decode
from pathlib import Path

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import RegisteredSchema, UnusableSchemaError, WriterSchema
from lakehouse.decoding.formats.framing import FRAME_SIZE
from lakehouse.decoding.formats.protobuf.compiled import KIND, OwnSchema, join_text, load_schema, split_text
from lakehouse.decoding.formats.protobuf.schemas import IMPORT, fingerprint, writer_schema
from lakehouse.decoding.formats.protobuf.writing import line_writer

HEADER = FRAME_SIZE + 1
"""Bytes that a writer puts in front of a message, and that no record of an own schema has."""


def read_own_schema(schema: str | Path, message: str | None, imports: str | Path | None) -> OwnSchema:
    """Read and compile a text, or a file, with the files that it imports from a folder.

    The default folder is that of the file. Without ``message``, records are the first message of the file.
    """
    folder = Path(imports) if imports else schema.parent if isinstance(schema, Path) else None
    try:
        text = schema.read_text("utf-8") if isinstance(schema, Path) else schema
        files = _imported_files(text, folder) if folder else {}
        compiled = writer_schema(RegisteredSchema(text, tuple(files.values()), KIND, tuple(files.items())))
        first_name, source, content = split_text(compiled)
        names = load_schema(compiled).messages
    except (UnusableSchemaError, Rejection, OSError, UnicodeDecodeError) as error:
        return OwnSchema(None, "", str(error))
    if message is not None and message not in names:
        return OwnSchema(None, "", f"it has no message {message!r}, but {', '.join(sorted(names))}"[:500])
    own_schema = WriterSchema(join_text(message or first_name, source, b64decode(content)), (), KIND)
    return OwnSchema(own_schema, fingerprint(own_schema))


def _imported_files(text: str, folder: Path) -> dict[str, str]:
    """The files in a folder that a schema imports, and those that these import, by their names."""
    files, names = dict[str, str](), IMPORT.findall(text)
    while names:
        name = names.pop()
        if name not in files and (folder / name).is_file():
            files[name] = (folder / name).read_text("utf-8")
            names += IMPORT.findall(files[name])
    return files


def write_message(schema: WriterSchema, line: bytes) -> bytes:
    """Return a line as the message of an own schema, with nothing in front."""
    return line_writer(0, schema)(line)[HEADER:]
