"""The URL of a database with a password: refused if programs find different parts in it."""

_SEPARATORS = "@/?#"


def require_clear_database_url(url: str) -> None:
    """Raise ``ValueError``, which quotes nothing of the URL, if its user or password is not certainly whole.

    libpq ends the password at the first ``@`` and the host at the first ``/``, other programs at the last ``@``. What
    one takes for a part of the password, another takes for the host and shows in its errors.
    """
    credentials, _, _ = url.partition(":")[2].removeprefix("//").rpartition("@")
    if any(separator in credentials for separator in _SEPARATORS):
        raise ValueError("in its user, password and other parts, @ / ? and # must be written as %40 %2F %3F and %23")
