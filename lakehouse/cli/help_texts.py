"""How ``--help`` shows the commands: paragraphs that the terminal wraps, and flags without a type."""

from collections.abc import Callable
from inspect import cleandoc
from typing import Any, TypeVar

from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.models import CommandInfo

_ABOUT_BROKER = (
    "Uses the broker in LAKEHOUSE_KAFKA_BOOTSTRAP_SERVERS. If that is not set, the command starts the embedded broker"
    " of this home, unless it runs already, and stops it at the end."
)
CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])


class PlainCommand(TyperCommand):
    """A command whose help shows ``--json``, not ``--json <bool>``: a flag takes no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, flags without a type."""
        return _hide_types_of_flags(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """The same for the options before a command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, flags without a type."""
        return _hide_types_of_flags(super().get_params(ctx))


def starts_broker(command: CommandFunction) -> CommandFunction:
    """Append to the help of a command which broker it uses, and that it starts one; placed below ``command()``."""
    command.__doc__ = f"{cleandoc(command.__doc__ or '')}\n\n{_ABOUT_BROKER}"
    return command


def show_plainly(command: CommandInfo) -> None:
    """Make the docstring of a command its help, with each paragraph as one line: the terminal wraps it."""
    command.help = join_lines((command.callback and command.callback.__doc__) or "")
    command.cls = PlainCommand


def join_lines(text: str) -> str:
    """Return the paragraphs of a docstring, each without line breaks."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in cleandoc(text).split("\n\n"))


def _hide_types_of_flags(parameters: list[Any]) -> list[Any]:
    for parameter in parameters:
        if isinstance(parameter, TyperOption) and parameter.is_flag:
            parameter.metavar = ""
    return parameters
