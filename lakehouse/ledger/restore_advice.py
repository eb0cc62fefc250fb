"""The command that restores a table: every error and check that advises a restore shows it."""

from shlex import quote


def restore_advice(uri: str = "", version: int | None = None) -> str:
    """Say how to restore the table at a path or URI to a version; what is unknown is in capitals in the command.

    The command needs no JVM, and deltalake takes the credentials of a store from the environment, as all readers do.
    It ends the text: a period after it would break it when it is pasted.
    """
    number = "VERSION" if version is None else version
    wanted_version = "an earlier version" if version is None else f"version {version}"
    code = f'from deltalake import DeltaTable as T; T("{uri or "TABLE"}").restore({number})'
    return f"To restore {wanted_version}, stop what writes the table, then run: python -c {quote(code)}"
