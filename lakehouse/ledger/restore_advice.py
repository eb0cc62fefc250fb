"""The command that restores a table: every error and check that advises a restore shows it."""


def restore_advice(uri: str = "", version: int | None = None) -> str:
    """Say how to restore the table at a path or URI to a version; what is unknown is in capitals in the command.

    It ends the text: a period after it would break it when it is pasted.
    """
    name = uri.rstrip("/").rpartition("/")[2] or "TABLE"
    number = "VERSION" if version is None else version
    wanted_version = "an earlier version" if version is None else f"version {version}"
    return f"To restore {wanted_version}, run: lakehouse restore {name} --version {number}"
