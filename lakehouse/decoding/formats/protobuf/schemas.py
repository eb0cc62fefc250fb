"""Compile schemas of Protobuf by protoc, in a child process with limits, and compare what they mean.

They are registered, or a file or a text of a declaration.

Only the driver compiles. What a registry has may be anything, so a schema that crashes protoc, or takes too long, is
one that cannot be used. Options, services and extensions change no record, but what they name must be there.
"""

import hashlib
import json
import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import google.type
import grpc_tools
from google.protobuf import descriptor_pb2

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import RegisteredSchema, UnusableSchemaError, WriterSchema
from lakehouse.decoding.formats.framing import FRAME_SIZE
from lakehouse.decoding.formats.protobuf.compiled import (
    KIND,
    OwnSchema,
    is_choice,
    is_entry,
    join_text,
    load_schema,
    split_text,
)
from lakehouse.decoding.formats.protobuf.reader import reader_of
from lakehouse.decoding.formats.protobuf.writing import line_writer

_SECONDS, _MAX_SIZE, _MAX_FILES = 20, 4 << 20, 250  # of one compilation; bytes and files that it reads
_PROTOC = f"""
import resource, sys
sys.path.append({str(Path(next(iter(grpc_tools.__path__))).parent)!r})
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
resource.setrlimit(resource.RLIMIT_CPU, ({_SECONDS}, {_SECONDS}))
from grpc_tools import protoc
sys.exit(protoc.main(sys.argv))
"""
_LIBRARY_FOLDERS = (
    Path(next(iter(grpc_tools.__path__))) / "_proto",
    Path(next(iter(google.type.__path__))).parents[1],
)
"""The folders of google/protobuf, and of google/type and google/api."""
_CONFLUENT = {
    "confluent/type/decimal.proto": """
        syntax = "proto3"; package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
    "confluent/meta.proto": """
        syntax = "proto3"; package confluent; import "google/protobuf/descriptor.proto";
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """,
}
"""The files that Confluent's registry has for every schema."""
_HEADER = FRAME_SIZE + 1
"""Bytes that a writer puts in front of a message, and that no record of an own schema has."""
_IMPORT = re.compile(r"""\bimport\s+(?:public\s+|weak\s+)?["']([^"'\n]+)["']\s*;""")
_LOG_LINE = re.compile(r"^(WARNING: All log messages|[IWE]\d{4} ).*$", re.MULTILINE)
_ENTRY_OPTION, _ENTRY_MARK = re.compile(r"\boption\s+map_entry\s*=\s*true\s*;"), "map_entry = true"


def writer_schema(registered: RegisteredSchema) -> WriterSchema:
    """Return the compiled form of a schema; raises ``UnusableSchemaError``.

    Of a file that its references have in several versions, all must mean the same.
    """
    texts: dict[str, list[str]] = {}
    for name, text in dict.fromkeys(registered.named_references):
        texts.setdefault(name, []).append(text)
    schemas = [
        _compile(registered, {name: versions[min(index, len(versions) - 1)] for name, versions in texts.items()})
        for index in range(max(map(len, texts.values()), default=1))
    ]
    if len({*map(fingerprint, schemas)}) > 1:
        raise UnusableSchemaError("its references are versions of a file that differ")
    return schemas[0]


def source_hash(registered: RegisteredSchema) -> str:
    """A hash of a schema as it is registered."""
    return hashlib.sha256(repr(registered).encode("utf-8", "surrogatepass")).hexdigest()


def is_made_from(schema: WriterSchema, registered: RegisteredSchema) -> bool:
    """Whether a stored schema was compiled from this one, so that both mean the same."""
    return len(schema.text.split(" ")) > 1 and schema.text.split(" ")[1] == source_hash(registered)


def fingerprint(schema: WriterSchema) -> str:
    """A hash of what determines how records are read; formatting, options and the order of fields do not."""
    try:
        loaded = load_schema(schema)
    except Rejection:  # in an older form
        return hashlib.sha256(schema.text.encode()).hexdigest()
    messages = {name: sorted(map(_meaning, message.fields)) for name, message in loaded.messages.items()}
    return hashlib.sha256(json.dumps([loaded.roots, messages], sort_keys=True).encode()).hexdigest()


def _meaning(field: Any) -> list[Any]:
    inner = field.message_type or field.enum_type
    enum = [[value.name, value.number] for value in field.enum_type.values] if field.enum_type else []
    labels = [field.is_repeated, field.is_required, field.has_presence, is_entry(field.message_type)]
    oneof = field.containing_oneof.name if is_choice(field) else ""
    return [field.number, field.name, field.type, *labels, oneof, inner.full_name if inner else "", enum]


def _compile(registered: RegisteredSchema, files: Mapping[str, str]) -> WriterSchema:
    """Compile a schema with the files that it imports by their names."""
    own_name = "schema.proto"
    while own_name in files:
        own_name = f"_{own_name}"
    named_texts = {text for _, text in registered.named_references}
    other_texts = [text for text in registered.references if text not in named_texts]
    unnamed_files = _unnamed_files([*other_texts, registered.text], files)
    all_files = {**_CONFLUENT, **files, **unnamed_files, own_name: registered.text}
    descriptors = _with_entries(_run_protoc(own_name, all_files))
    own_file = descriptors.file[-1]
    if not own_file.message_type:
        raise UnusableSchemaError("it has no message")
    first_name = f"{own_file.package}.{own_file.message_type[0].name}".lstrip(".")
    text = join_text(first_name, source_hash(registered), descriptors.SerializeToString(deterministic=True))
    schema = WriterSchema(text, (), KIND)
    try:
        reader_of(schema)
    except Rejection as rejection:
        raise UnusableSchemaError(rejection.detail) from None
    return schema


def _unnamed_files(texts: list[str], files: Mapping[str, str]) -> dict[str, str]:
    """Files for references without names; the last of ``texts`` is the schema.

    A name that is imported, and that no other file has, is a file that imports all references before its first use.
    """
    unnamed_files = {f"reference_{index}.proto": reference for index, reference in enumerate(texts[:-1])}
    first_importers: dict[str, int] = {}
    for index, importing_text in enumerate(texts):
        for name in _IMPORT.findall(importing_text):
            first_importers.setdefault(name, index)
    for name, index in first_importers.items():
        if name not in {**_CONFLUENT, **files} and not any((folder / name).is_file() for folder in _LIBRARY_FOLDERS):
            imports = (f'import public "reference_{number}.proto";' for number in range(index))
            unnamed_files |= {name: "\n".join(['syntax = "proto3";', *imports])} if index else {}
    return unnamed_files


def _run_protoc(own_name: str, files: Mapping[str, str]) -> Any:
    """Return the descriptors that protoc makes of a file and of those that it imports, which come first."""
    size = sum(map(len, files.values()))
    if len(files) > _MAX_FILES or size > _MAX_SIZE:
        raise UnusableSchemaError(f"it has {len(files)} files with {size} characters, more than protoc is given")
    with TemporaryDirectory(prefix="lakehouse-protoc-") as folder:
        for name, text in files.items():
            _write_file(Path(folder), name, _ENTRY_OPTION.sub(f'reserved "{_ENTRY_MARK}";', text))
        output = Path(folder) / "descriptors"
        paths = [f"-I{path}" for path in (folder, *_LIBRARY_FOLDERS)]
        command = [sys.executable, "-I", "-c", _PROTOC, *paths, "--include_imports", f"--descriptor_set_out={output}"]
        try:
            result = subprocess.run(
                [*command, own_name], stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise UnusableSchemaError(f"protoc takes more than {_SECONDS} seconds for it") from None
        if result.returncode:
            lines = _LOG_LINE.sub("", result.stderr.decode(errors="replace").replace(f"{folder}/", "")).split()
            raise UnusableSchemaError(f"protoc cannot compile it: {' '.join(lines) or result.returncode}"[:500])
        return descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes())


def _write_file(folder: Path, name: str, text: str) -> None:
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise UnusableSchemaError(f"it refers to {name[:200]!r}, which is not the name of a file")
    try:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UnusableSchemaError(f"it, or {name[:200]!r}, cannot be a file: {error}"[:500]) from None


def _with_entries(descriptors: Any) -> Any:
    """Mark the entries of maps that a registry writes as messages, which protoc does not accept."""
    messages = [*chain.from_iterable(file.message_type for file in descriptors.file)]
    while messages:
        message = messages.pop()
        messages += message.nested_type
        if _ENTRY_MARK in message.reserved_name:
            message.reserved_name.remove(_ENTRY_MARK)
            message.options.map_entry = True
    return descriptors


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
    files, names = dict[str, str](), _IMPORT.findall(text)
    while names:
        name = names.pop()
        if name not in files and (folder / name).is_file():
            files[name] = (folder / name).read_text("utf-8")
            names += _IMPORT.findall(files[name])
    return files


def write_message(schema: WriterSchema, line: bytes) -> bytes:
    """Return a line as the message of an own schema, with nothing in front."""
    return line_writer(0, schema)(line)[_HEADER:]
