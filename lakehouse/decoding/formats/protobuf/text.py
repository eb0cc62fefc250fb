"""Parse the text of a ``.proto`` file, of proto2 or proto3, into what decoding needs of it.

Options, services, extensions and reserved names do not change how bytes are read, and are skipped. The only exception
is ``map_entry``, which some registries write instead of a map. Each map becomes such an entry, as compilers make it.
"""

import re
from typing import NamedTuple

from lakehouse.decoding.formats.format import UnusableSchemaError
from lakehouse.decoding.formats.protobuf.tokens import Tokens

_LABELS = ("optional", "required", "repeated")
_ENTRY_OPTION = ["map_entry", "=", "true"]
_SKIPPED = ("option", "reserved", "extensions")
_MAX_LEVELS = 32  # of messages within messages


class FieldDefinition(NamedTuple):
    """A field as it is written; ``oneof`` is the name of its alternative, empty if it has none."""

    name: str
    number: int
    type: str
    label: str = ""
    oneof: str = ""


class EnumDefinition(NamedTuple):
    """An enum with the numbers of its names, in their order."""

    name: str
    numbers: dict[str, int]


class MessageDefinition(NamedTuple):
    """A message with the messages and enums in it, in their order; ``is_entry``: each is an entry of a map."""

    name: str
    fields: list[FieldDefinition]
    messages: list["MessageDefinition"]
    enums: list[EnumDefinition]
    is_entry: bool = False


class ProtoFile(NamedTuple):
    """What a file defines; ``has_presence``: a field without a label knows whether it is set, as in proto2."""

    package: str
    has_presence: bool
    messages: list[MessageDefinition]
    enums: list[EnumDefinition]


def parse_proto(text: str) -> ProtoFile:
    """Parse the text of a file; raises ``UnusableSchemaError``."""
    tokens = Tokens(text)
    file = ProtoFile("", True, [], [])
    while not tokens.at_end():
        word = tokens.take()
        if word == "syntax":
            file = file._replace(has_presence=_syntax(tokens) == "proto2")
        elif word == "package":
            file = file._replace(package=tokens.type_name())
            tokens.expect(";")
        elif word == "edition":
            raise UnusableSchemaError("it uses an edition of Protobuf: only proto2 and proto3 can be read")
        elif not _take_definition(word, tokens, file, 1):
            tokens.refuse(word)
    return file


def _take_definition(word: str, tokens: Tokens, parent: "ProtoFile | MessageDefinition", level: int) -> bool:
    """Take what files and messages may both contain; whether the word begins such a part."""
    if word == "message":
        parent.messages.append(_message(tokens, level))
    elif word == "enum":
        parent.enums.append(_enum(tokens))
    elif word in ("service", "extend"):
        tokens.skip_block()
    elif word in ("import", *_SKIPPED):
        tokens.skip_statement()
    else:
        return word == ";"
    return True


def _syntax(tokens: Tokens) -> str:
    tokens.expect("=")
    syntax = tokens.take().strip("\"'")
    tokens.expect(";")
    if syntax not in ("proto2", "proto3"):
        raise UnusableSchemaError(f"its syntax is {syntax[:20]!r}: only proto2 and proto3 can be read")
    return syntax


def _message(tokens: Tokens, level: int) -> MessageDefinition:
    if level > _MAX_LEVELS:
        raise UnusableSchemaError(f"its messages have more than {_MAX_LEVELS} levels")
    message = MessageDefinition(tokens.word(), [], [], [])
    tokens.expect("{")
    while (word := tokens.take()) != "}":
        if word == "oneof":
            _oneof(tokens, message)
        elif word == "map" and tokens.peek() == "<":
            _map(tokens, message)
        elif word == "option" and [tokens.peek(distance) for distance in range(3)] == _ENTRY_OPTION:
            message = message._replace(is_entry=True)
            tokens.skip_statement()
        elif not _take_definition(word, tokens, message, level + 1):
            message.fields.append(_field(tokens, word))
    return message


def _oneof(tokens: Tokens, message: MessageDefinition) -> None:
    oneof = tokens.word()
    tokens.expect("{")
    while (word := tokens.take()) != "}":
        if word == "option":
            tokens.skip_statement()
        elif word != ";":
            message.fields.append(_field(tokens, word)._replace(oneof=oneof))


def _map(tokens: Tokens, message: MessageDefinition) -> None:
    """Add a map as a repeated field whose type is an entry, which has the name that compilers give it."""
    tokens.expect("<")
    key = FieldDefinition("key", 1, tokens.type_name())
    tokens.expect(",")
    value = FieldDefinition("value", 2, tokens.type_name())
    tokens.expect(">")
    field = _named_field(tokens, "", "repeated")
    words = re.split("_+", field.name)
    entry = "".join(word[:1].upper() + word[1:] for word in words) + "Entry"
    message.messages.append(MessageDefinition(entry, [key, value], [], [], is_entry=True))
    message.fields.append(field._replace(type=entry))


def _field(tokens: Tokens, word: str) -> FieldDefinition:
    label = word if word in _LABELS else ""
    if label:
        word = tokens.take()
    if word == "group":
        raise UnusableSchemaError("it has a group, which cannot be read: use a message instead")
    return _named_field(tokens, tokens.type_name(word), label)


def _named_field(tokens: Tokens, type_: str, label: str) -> FieldDefinition:
    name = tokens.word()
    tokens.expect("=")
    number = tokens.integer()
    tokens.skip_statement()
    return FieldDefinition(name, number, type_, label)


def _enum(tokens: Tokens) -> EnumDefinition:
    enum = EnumDefinition(tokens.word(), {})
    tokens.expect("{")
    while (word := tokens.take()) != "}":
        if word in _SKIPPED and tokens.peek() != "=":
            tokens.skip_statement()
        elif word != ";":
            tokens.expect("=")
            enum.numbers[word] = tokens.integer()
            tokens.skip_statement()
    return enum
