"""The stored form of a schema of Protobuf, and the place of the message of a record in it.

It is a text of three words: the name of its first message, a hash of the registered schema, and in Base64 what protoc
made of it and of the files that it imports. The library for it is imported when a schema is loaded: a worker without
it still reads other formats.
"""

# ruff: noqa: PLC0415 - a worker of a table in another format may not have the library

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from lakehouse.decoding.fields import Rejection
from lakehouse.decoding.formats.format import WriterSchema
from lakehouse.decoding.formats.varints import varint_reader

KIND = "PROTOBUF"
"""The name of Protobuf's schemas in a registry."""
TYPE_NAMES = (
    *("", "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message"),
    *("bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"),
)
"""The types of fields by their numbers in descriptors."""
_MAX_INDEXES = 32  # the path to a message in a file: each is within the one before it
_MISSING = "reading Protobuf needs the Python package protobuf: install protobuf>=6.31 on every Spark worker"

read_varint = varint_reader("invalid_protobuf")
"""Read a whole number of 64 bits without a sign."""


class OwnSchema(NamedTuple):
    """A declared schema whose first message is the declared one; ``meaning`` is a hash of what it means.

    ``error`` says why it cannot be used; then there is no schema.
    """

    schema: WriterSchema | None
    meaning: str
    error: str = ""


class LoadedSchema:
    """The descriptors of a schema.

    ``files`` are descriptions of the files, that of the schema itself last. ``roots`` are the messages that a record
    may be, by their places in the file. ``messages`` are the descriptors of all messages that these may contain.
    ``checked_files`` are the names of the files with messages whose texts the library checks. ``has_required``: some
    message has a field that it must have.
    """

    def __init__(self, schema: WriterSchema) -> None:
        first_name, _, content = split_text(schema)
        pb2 = import_library().descriptor_pb2
        self.files = pb2.FileDescriptorSet.FromString(b64decode(content)).file
        self.checked_files = {file.name for file in self.files if file.syntax == "proto3"}
        pool = pool_of(self.files)
        self.roots = _roots(self.files[-1].message_type, self.files[-1].package)
        self.first_message = pool.FindMessageTypeByName(first_name)
        self.messages: dict[str, Any] = {}
        names = [name for root in self.roots for name in _root_names(root)]
        while names:
            descriptor = pool.FindMessageTypeByName(names.pop())
            if self.messages.setdefault(descriptor.full_name, descriptor) is descriptor:
                inner_messages = (field.message_type for field in descriptor.fields if field.message_type)
                names += [inner.full_name for inner in inner_messages if inner.full_name not in self.messages]
        fields = (field for message in self.messages.values() for field in message.fields)
        self.has_required = any(field.is_required for field in fields)


def load_schema(schema: WriterSchema) -> LoadedSchema:
    """Return the descriptors of a schema; raises ``Rejection`` with the reason ``unusable_schema``."""
    try:
        return LoadedSchema(schema)
    except (ValueError, TypeError, KeyError, import_library().message.DecodeError) as error:
        raise Rejection("unusable_schema", f"its descriptors cannot be used: {error}"[:300]) from None


def import_library() -> Any:
    """Return the package of Google's library, with its modules; raises ``ModuleNotFoundError`` with what to install."""
    try:
        import google.protobuf.descriptor_pb2
        import google.protobuf.descriptor_pool
        import google.protobuf.message
        import google.protobuf.message_factory
        import google.protobuf.unknown_fields
    except ImportError as error:
        raise ModuleNotFoundError(_MISSING) from error
    return google.protobuf


def library_methods() -> Any:
    """The class that has the methods of all messages: an attribute of a message may be a field with such a name."""
    return import_library().descriptor_pb2.FileDescriptorProto


def join_text(first_name: str, source_hash: str, content: bytes) -> str:
    """Return the stored text of a schema."""
    return f"{first_name} {source_hash} {b64encode(content).decode()}"


def split_text(schema: WriterSchema) -> tuple[str, str, str]:
    """Return the three words of a stored schema; raises ``Rejection`` if it is stored in an older form."""
    words = schema.text.split(" ")
    if len(words) != 3 or schema.text.startswith("{"):
        detail = "it is stored in a form that is no longer read: delete the table of schemas, then redrive"
        raise Rejection("unusable_schema", detail)
    return words[0], words[1], words[2]


def pool_of(files: Iterable[Any]) -> Any:
    """Return a pool with these files; raises ``TypeError`` if they do not fit together."""
    pool = import_library().descriptor_pool.DescriptorPool()
    for file in files:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def is_entry(descriptor: Any) -> bool:
    """Whether a message is the entry of a map."""
    return bool(descriptor and descriptor.GetOptions().map_entry)


def is_choice(field: Any) -> bool:
    """Whether a field is in a ``oneof`` of its file, and not in one that compilers add for ``optional``."""
    oneof = field.containing_oneof
    return bool(oneof) and (len(oneof.fields) > 1 or oneof.name.lstrip("X") != f"_{field.name}")


def read_indexes(data: bytes, pos: int) -> tuple[tuple[int, ...], int]:
    """Read the path of indexes to the message of a record in its file, and return it and the position of its end."""
    count, pos = _read_zigzag(data, pos)
    if not 0 <= count <= _MAX_INDEXES:
        raise Rejection("invalid_protobuf", f"{count} message indexes, expected at most {_MAX_INDEXES}")
    indexes = []
    for _ in range(count):
        index, pos = _read_zigzag(data, pos)
        indexes.append(index)
    return tuple(indexes) or (0,), pos


def _read_zigzag(data: bytes, pos: int) -> tuple[int, int]:
    value, pos = read_varint(data, pos)
    return (value >> 1) ^ -(value & 1), pos


def root_name(roots: Sequence[Any], indexes: Sequence[int]) -> str:
    """The name of the message at a path of indexes; raises ``Rejection`` if there is none, or more than one."""
    name, inner_roots = "", roots
    for index in indexes:
        if not 0 <= index < len(inner_roots) or inner_roots[index] == []:
            raise Rejection("invalid_protobuf", f"the schema has no message with the indexes {list(indexes)}")
        if inner_roots[index] is None:
            detail = f"the message indexes {list(indexes)} mean different messages to different serializers"
            raise Rejection("unusable_schema", f"{detail}: move the message out of the one that contains it")
        name, inner_roots = inner_roots[index]
    return name


def _roots(messages: Sequence[Any], scope: str) -> list[Any]:
    """The messages in a scope by their indexes, each with those in it.

    An index that may mean two messages has ``None``, and one that is only that of the entry of a map has nothing.
    Some serializers count the entries of maps as messages, and some do not.
    """
    bare_messages = [message for message in messages if not message.options.map_entry]
    roots: list[Any] = []
    for index, message in enumerate(messages):
        meanings = [] if message.options.map_entry else [message]
        meanings += [bare for bare in bare_messages[index : index + 1] if bare is not message]
        if len(meanings) == 1:
            name = f"{scope}.{meanings[0].name}" if scope else meanings[0].name
            roots.append([name, _roots(meanings[0].nested_type, name)])
        else:
            roots.append(None if meanings else [])
    return roots


def _root_names(root: Any) -> Iterator[str]:
    if root:
        yield root[0]
        for inner_root in root[1]:
            yield from _root_names(inner_root)
