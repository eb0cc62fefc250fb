"""Fills pages of the site with what the code says: the commands and their options."""

import re
from pathlib import Path

from typer.cli import docs as _  # noqa: F401 - fails here if typer no longer writes Markdown
from typer.cli import get_docs_for_click
from typer.main import get_command


def on_page_markdown(markdown: str, page, config, files) -> str:  # noqa: ANN001, ARG001
    if page.file.src_uri != "reference/cli.md":
        return markdown
    from lakehouse.cli.main import app
    command = get_command(app)
    import click
    ctx = click.Context(command, info_name="lakehouse")
    return markdown + get_docs_for_click(obj=command, ctx=ctx, name="lakehouse")
