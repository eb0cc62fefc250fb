"""A word of a declaration that there is not, or is missing: whose it would be, and which one comes nearest."""

import re
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from inspect import signature
from types import ModuleType

_CLOSE = 0.75  # of 1, which is the same word
_LACKING = re.compile(r"(\w+)\.__init__\(\) missing \d+ required (?:positional|keyword-only) arguments?: (.+)")
_WORD = re.compile(r"(\w+)\.__init__\(\) got an unexpected keyword argument '(\w+)'")


def misspelt(error: Exception, ours: ModuleType) -> tuple[str, str] | None:
    """What is wrong, and what to do, where an error is of a name that a declaration's parts do not have.

    ``ours`` is the module that has the parts, and names them in ``__all__``. ``None`` for any other error.
    """
    said = str(error)
    word = _WORD.match(said)
    if isinstance(error, TypeError) and word and word[1] in ours.__all__:
        return _no_word(word[1], word[2], list(signature(getattr(ours, word[1])).parameters))
    lacking = _LACKING.match(said)
    if isinstance(error, TypeError) and lacking and lacking[1] in ours.__all__:
        names = lacking[2].replace("'", "")
        return f"{lacking[1]} lacks {names}", f"Write {re.split(',| and ', names)[0]}=... in it."
    part = re.match(rf"cannot import name '(\w+)' from '{ours.__name__}'", said)
    if isinstance(error, ImportError) and part:
        return f"{ours.__name__} has no {part[1]!r}", _instead(part[1], ours.__all__, "It has")
    name = error.name if isinstance(error, NameError) else None
    near = _nearest(name, ours.__all__) if name and name not in sys.stdlib_module_names else None
    if near:
        return f"{type(error).__name__}: {said}", f"Write {near}, and import it from {ours.__name__}."
    return None


def _no_word(part: str, word: str, words: list[str]) -> tuple[str, str]:
    return f"{part} has no word {word!r}", _instead(word, words, "Its words are")


def _instead(word: str, words: Iterable[str], all_of_them: str) -> str:
    near = _nearest(word, words)
    return f"Write {near}." if near else f"{all_of_them} {', '.join(words)}."


def _nearest(word: str, words: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(word, list(words), n=1, cutoff=_CLOSE)), None)
