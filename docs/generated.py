"""A hook of the site: the page of the commands is what their ``--help`` says."""

import click
from mkdocs.structure.pages import Page
from typer.cli import get_docs_for_click
from typer.main import get_command

from lakehouse.cli.main import app

_PAGE = "reference/cli.md"


def on_page_markdown(markdown: str, *, page: Page, **_: object) -> str:
    """Append every command with its arguments, options and examples to its page; others stay as they are."""
    if page.file.src_uri != _PAGE:
        return markdown
    command = get_command(app)
    context = click.Context(command, info_name="lakehouse")
    return markdown + get_docs_for_click(obj=command, ctx=context, name="lakehouse")
