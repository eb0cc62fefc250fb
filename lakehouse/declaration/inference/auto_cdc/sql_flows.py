"""The flows of a pipeline in SQL: their clauses, in any order."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from sqlglot import tokenize
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from lakehouse.declaration.delete_conditions import FieldIs
from lakehouse.declaration.inference.auto_cdc.conditions import parse_expression, read_condition, read_sequence
from lakehouse.declaration.inference.auto_cdc.flow import (
    OF_NAMES,
    AutoCdcFlow,
    FlowPlace,
    flow_from,
    scd_type,
    untranslated,
)
from lakehouse.errors import LakehouseError

_STARTS = (("AUTO", "CDC", "INTO"), ("APPLY", "CHANGES", "INTO"))
_ONCE_START = ("AUTO", "CDC", "ONCE", "INTO")
_OWN_START = ("FLOW", "AUTO", "CDC", "FROM")  # in CREATE STREAMING TABLE
_NO_NAMES = (TokenType.STRING, TokenType.NUMBER, TokenType.STAR, TokenType.L_PAREN, TokenType.R_PAREN, TokenType.COMMA)
_OF_SOME_COLUMNS = "Remove the columns from a copy of the file, then correct keep= in the declaration."
_OF_SOURCES = "Write the name of a table. If a query comes before the flow, let the producer send its result."


class Clause(NamedTuple):
    """A clause of a flow: its keywords, and the text and the tokens after them."""

    keywords: str
    text: str
    tokens: Sequence[Token]
    place: str


def find_flows(text: str, file: str) -> list[FlowPlace]:
    """The statements that create a flow; raises ``LakehouseError`` if the text is not SQL."""
    try:
        tokens = tokenize(text, read="spark")
    except SqlglotError as error:
        what = f"The file cannot be read as SQL: {str(error).splitlines()[0][:100]}"
        raise LakehouseError(what, where=file, action="Correct it, for example an open quotation mark.") from None
    return [*_flow_places(text, tokens, file)]


def _flow_places(text: str, tokens: Sequence[Token], file: str) -> Iterator[FlowPlace]:
    for index, token in enumerate(tokens):
        place = f"{file}, line {token.line}"
        words = _words(tokens[index : index + 4])
        if words[:3] in _STARTS or words == _ONCE_START:
            bodies = _split(tokens[index + (4 if words == _ONCE_START else 3) :], place)
            target = _dotted(bodies.pop(()))
        elif words == _OWN_START:
            bodies = _split(tokens[index + 3 :], place)
            target = _dotted(_created_table(tokens[:index]))
            bodies.pop(())
        else:
            continue
        yield FlowPlace(target or "", place, partial(_read_flow, text, target or "", bodies, place))


def _words(tokens: Sequence[Token]) -> tuple[str, ...]:
    """The tokens as keywords; a quoted name is not one."""
    return tuple("" if token.token_type == TokenType.IDENTIFIER else token.text.upper() for token in tokens)


def _split(tokens: Sequence[Token], place: str) -> dict[tuple[str, ...], list[Token]]:
    """The tokens of each clause by its keywords, up to the end of the statement; those before any clause by ``()``."""
    bodies: dict[tuple[str, ...], list[Token]] = {(): []}
    clause: tuple[str, ...] = ()
    depth = index = 0
    while index < len(tokens) and tokens[index].token_type not in (TokenType.SEMICOLON, TokenType.CREATE):
        start = next((c for c in _READERS if not depth and c == _words(tokens[index : index + len(c)])), None)
        if start:
            if start in bodies:
                raise untranslated("A clause that is listed twice", " ".join(start), place, "Write it once.")
            clause, bodies[start] = start, []
            index += len(start)
            continue
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[index].token_type, 0)
        bodies[clause].append(tokens[index])
        index += 1
    return bodies


def _created_table(tokens: Sequence[Token]) -> Sequence[Token]:
    """The name in the CREATE STREAMING TABLE that the tokens end with."""
    starts = [index for index, word in enumerate(_words(tokens)) if word == "TABLE"]
    name = list(tokens[starts[-1] + 1 :]) if starts else []
    name = name[3:] if _words(name[:3]) == ("IF", "NOT", "EXISTS") else name
    end = next((i for i in range(1, len(name), 2) if name[i].token_type != TokenType.DOT), len(name))
    return name[:end]


def _dotted(tokens: Sequence[Token]) -> str | None:
    """A name with its catalog and schema, which may be ``${...}``; ``None`` if the tokens are not a name."""
    name, previous = "", TokenType.DOT
    for token in tokens:
        joins = {token.token_type, previous} & {
            TokenType.DOT,
            TokenType.PARAMETER,
            TokenType.L_BRACE,
            TokenType.R_BRACE,
        }
        if not joins or token.token_type in _NO_NAMES:
            return None
        name, previous = name + token.text, token.token_type
    return name or None


def _read_flow(text: str, target: str, bodies: dict[tuple[str, ...], list[Token]], place: str) -> AutoCdcFlow:
    options: dict[str, Any] = {}
    for keywords, body in bodies.items():
        option, read = _READERS[keywords]
        code = text[body[0].start : body[-1].end + 1] if body else ""
        options[option] = read(Clause(" ".join(keywords), code, body, place))
    selected_columns = options.pop("columns", {})
    return flow_from(target, place, options | selected_columns)


def _source(clause: Clause) -> str:
    is_stream = _words(clause.tokens[:1]) == ("STREAM",) and len(clause.tokens) > 1
    source = _dotted(_without_parentheses(clause.tokens[1:] if is_stream else clause.tokens))
    if source is None:
        raise untranslated(clause.keywords, clause.text, clause.place, _OF_SOURCES)
    return source


def _names(clause: Clause) -> tuple[str, ...]:
    tokens = _without_parentheses(clause.tokens)
    names, commas = tokens[::2], tokens[1::2]
    is_list = len(names) == len(commas) + 1 and all(comma.token_type == TokenType.COMMA for comma in commas)
    if not is_list or any(name.token_type in _NO_NAMES for name in names):
        raise untranslated(clause.keywords, clause.text, clause.place, OF_NAMES)
    return tuple(name.text for name in names)


def _without_parentheses(tokens: Sequence[Token]) -> Sequence[Token]:
    types = [token.token_type for token in tokens]
    return tokens[1:-1] if types[:1] == [TokenType.L_PAREN] and types[-1:] == [TokenType.R_PAREN] else tokens


def _columns(clause: Clause) -> dict[str, tuple[str, ...]]:
    if _words(clause.tokens[:2]) == ("*", "EXCEPT"):
        return {"excluded": _names(clause._replace(tokens=clause.tokens[2:]))}
    return {} if clause.text == "*" else {"included": _names(clause)}


def _condition(clause: Clause) -> FieldIs:
    expression = parse_expression(clause.text, clause.keywords, clause.place)
    return read_condition(expression, clause.keywords, clause.place)


def _sequence(clause: Clause) -> str:
    return read_sequence(parse_expression(clause.text, clause.keywords, clause.place), clause.keywords, clause.place)


def _scd_type(clause: Clause) -> int:
    return scd_type(" ".join(_words(clause.tokens)).removeprefix("SCD TYPE "), clause.place)


def _is_set(clause: Clause) -> bool:
    if clause.tokens:  # only for some columns
        raise untranslated(clause.keywords, clause.text, clause.place, _OF_SOME_COLUMNS)
    return True


_READERS: dict[tuple[str, ...], tuple[str, Callable[[Clause], Any]]] = {
    ("FROM",): ("source", _source),
    ("KEYS",): ("keys", _names),
    ("IGNORE", "NULL", "UPDATES"): ("ignores_nulls", _is_set),
    ("APPLY", "AS", "DELETE", "WHEN"): ("deletes", _condition),
    ("APPLY", "AS", "TRUNCATE", "WHEN"): ("truncates", _condition),
    ("SEQUENCE", "BY"): ("sequence", _sequence),
    ("COLUMNS",): ("columns", _columns),
    ("STORED", "AS"): ("scd_type", _scd_type),
    ("TRACK", "HISTORY", "ON"): ("tracks_some", lambda _: True),
}
