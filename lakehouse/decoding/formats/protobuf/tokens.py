"""Cut the text of a ``.proto`` file into its words and marks."""

import re
from typing import NoReturn

from lakehouse.decoding.formats.format import UnusableSchemaError

_TOKEN = re.compile(
    r"(?P<blank>\s+|//[^\n]*|/\*.*?\*/)"
    r"""|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<number>\.?\d(?:[\w.]|(?<=[eE])[+-])*)"
    r"|(?P<mark>[{}\[\]()<>=;,.:+\-/])",
    re.DOTALL | re.ASCII,
)
_WORD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]{1,16}|0[0-7]{0,21}|[1-9]\d{0,18})", re.ASCII)


class Tokens:
    """The words and marks of a text, without blanks and comments."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._next = text, list[tuple[str, int]](), 0
        pos = 1 if text.startswith("\ufeff") else 0
        while pos < len(text):
            match = _TOKEN.match(text, pos)
            if match is None:
                self._refuse_at(text[pos], pos)
            if match.lastgroup != "blank":
                self._tokens.append((match[0], pos))
            pos = match.end()

    def at_end(self) -> bool:
        """Whether all tokens were taken."""
        return self._next >= len(self._tokens)

    def peek(self, distance: int = 0) -> str:
        """A token that follows; empty if there is none."""
        index = self._next + distance
        return self._tokens[index][0] if index < len(self._tokens) else ""

    def take(self) -> str:
        """Take the next token."""
        if self.at_end():
            raise UnusableSchemaError("it is not a .proto file: it ends within a definition")
        piece, _ = self._tokens[self._next]
        self._next += 1
        return piece

    def expect(self, mark: str) -> None:
        """Take the next token, which must be this mark."""
        piece = self.take()
        if piece != mark:
            self.refuse(piece)

    def word(self) -> str:
        """Take a name."""
        piece = self.take()
        return piece if _WORD.fullmatch(piece) else self.refuse(piece)

    def type_name(self, word: str = "") -> str:
        """Take the name of a type or a package, with the dots in it; ``word`` is its first token if it was taken."""
        word = word or self.take()
        name = f".{self.word()}" if word == "." else word if _WORD.fullmatch(word) else self.refuse(word)
        while self.peek() == ".":
            self.take()
            name += f".{self.word()}"
        return name

    def integer(self) -> int:
        """Take a whole number."""
        sign, piece = 1, self.take()
        if piece == "-":
            sign, piece = -1, self.take()
        if not _INTEGER.fullmatch(piece):
            self.refuse(piece)
        is_octal = piece.startswith("0") and piece.isdigit()
        return sign * int(piece, 8 if is_octal else 0)

    def skip_statement(self) -> None:
        """Take everything up to the semicolon that ends a statement."""
        level = 0
        while (piece := self.take()) != ";" or level > 0:
            level += (piece in "{[") - (piece in "}]")

    def skip_block(self) -> None:
        """Take everything up to the end of the next block."""
        while self.take() != "{":
            pass
        level = 1
        while level > 0:
            piece = self.take()
            level += (piece == "{") - (piece == "}")

    def refuse(self, piece: str) -> NoReturn:
        """Raise the error for the token that was taken last."""
        self._refuse_at(piece, self._tokens[self._next - 1][1])

    def _refuse_at(self, piece: str, pos: int) -> NoReturn:
        line = self._text.count("\n", 0, pos) + 1
        raise UnusableSchemaError(f"it is not a .proto file: {piece[:40]!r} in line {line} is unexpected")
