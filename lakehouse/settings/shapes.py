"""What a setting may look like: types that refuse in one sentence what could never work."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr

from lakehouse.settings.project import in_project
from lakehouse.settings.properties import parse_properties
from lakehouse.settings.remote import parse_remote
from lakehouse.settings.spark_conf import parse_spark_conf
from lakehouse.settings.store import Store

_SERVER = r"(\[[0-9a-fA-F:]+\]|[^\s,:/@?\[\]]+):\d+"
_MASTER = r"local(\[(\*|[1-9]\d*)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|yarn|(spark|k8s)://[^\s@?]+"
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_SCHEMES = ("abfs", "abfss", "file", "gs", "hdfs", "s3", "s3a")
"""What both Spark and the readers without a JVM can open."""
_NAMING_CONTAINERS = ("abfs", "abfss")
"""Their addresses name a container where others name a user."""
_MISREAD = "#%?\\[]^|"
"""What readers of Delta tables take for something else in a path, or end at: a table's history would seem empty."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""What no name shown to a person or written into a file of properties may hold; also bytes that are not UTF-8."""
_HIGHEST_PORT = 65535


@contextmanager
def _looked_at() -> Iterator[None]:
    """Refuse a path that the system does not let us look at."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"it cannot be looked at: {error.strerror}") from None


def _require_folder(given: Any) -> Any:
    """Refuse a folder that cannot be made, since it is a file, lies below one, or is somewhere else."""
    if not Store(str(given)).is_path:
        raise ValueError("it has to be a folder of this machine")
    path = in_project(given)
    with _looked_at():
        existing = next((each for each in (path, *path.parents) if each.exists()), None)
    if existing is not None and not existing.is_dir():
        raise ValueError(f"{existing} is a file and no folder")
    return path


def require_home(given: Any) -> Any:
    """Return a folder that can be a home, or be where one is; ``ValueError`` where its name keeps it from that."""
    folder = _require_folder_of_tables(given)
    if "," in folder:
        raise ValueError(f"Kafka would keep its data in two folders: the name {folder} holds a comma")
    return in_project(given)


def _require_folder_of_tables(given: Any) -> str:
    """Return the folder as it will be used, with symbolic links followed."""
    _require_folder(given)
    folder = str(in_project(given).resolve())
    _require_read_alike(folder, f"tables cannot be read in {folder}, whose name")
    return folder


def _require_read_alike(path: str, whose: str) -> None:
    """Refuse a path that Spark and the readers without a JVM would not read alike."""
    misread = " ".join(sorted({*path} & {*_MISREAD}))
    if misread or _CONTROL.search(path):
        raise ValueError(f"{whose} holds {misread or 'a control character'}")


def require_declarations(given: str) -> str:
    """Return where tables are declared; ``ValueError`` where that can be neither a folder nor a module."""
    with _looked_at():
        if not _MODULE.fullmatch(given) and not in_project(given).is_dir():
            raise ValueError("it is neither a folder nor the name of a module")
    return given


def _require_root(root: str) -> str:
    if Store(root).is_path:
        _require_folder_of_tables(root)
        return str(in_project(root))
    _require_read_alike(root, "tables cannot be read there: the address")
    address = urlsplit(root)
    if address.scheme not in _SCHEMES:
        raise ValueError(f"tables are kept in a folder or under one of {', '.join(_SCHEMES)}")
    container = address.scheme in _NAMING_CONTAINERS and address.password is None
    if "@" in address.netloc and not container:
        raise ValueError("it is shown in many places and may hold no user and no password")
    return root


def _written(pattern: str, fact: str) -> AfterValidator:
    """Refuse what is not written so, with a fact that a person understands."""

    def check(given: str) -> str:
        if not re.fullmatch(pattern, given):
            raise ValueError(fact)
        return given

    return AfterValidator(check)


def _require_ports(servers: str) -> str:
    if any(not 1 <= int(server.rpartition(":")[2]) <= _HIGHEST_PORT for server in servers.split(",")):
        raise ValueError(f"a port is a number from 1 to {_HIGHEST_PORT}")
    return servers


def _require_remote(remote: SecretStr) -> SecretStr:
    parse_remote(remote.get_secret_value())
    return remote


def _parsed_by(parse: Callable[[str], object]) -> BeforeValidator:
    """Refuse an object that cannot be used; given as one, it is kept as its text."""

    def check(given: Any) -> Any:
        text = json.dumps(given) if isinstance(given, Mapping) else given
        if text is not None:
            parse(text.get_secret_value() if isinstance(text, SecretStr) else text)
        return text

    return BeforeValidator(check)


def _require_plain(given: Any) -> Any:
    """Refuse what no header holds: a secret from a file often ends with its line."""
    if isinstance(given, str) and (given != given.strip() or _CONTROL.search(given)):
        raise ValueError("it begins or ends with a blank or a line end, or holds a control character")
    return given


def _require_text(given: Any) -> Any:
    """Refuse bytes that are no text, which no client can send."""
    if isinstance(given, str) and re.search("[\ud800-\udfff]", given):
        raise ValueError("it holds bytes that are not UTF-8")
    return given


def _require_url(url: str) -> str:
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname or _CONTROL.search(url) or " " in url:
        raise ValueError("it is no address that begins with http:// or https://")
    if "@" in address.netloc or address.query or address.fragment:
        raise ValueError("it is shown in many places and may hold no user, no password and no query")
    return url


def _require_file(given: Any) -> Any:
    path = in_project(given)
    with _looked_at():
        if not path.is_file():
            raise ValueError("it is no file")
    return path


Declarations = Annotated[str, AfterValidator(require_declarations)]
Folder = Annotated[Path, BeforeValidator(_require_folder)]
Home = Annotated[Path, BeforeValidator(require_home)]
Master = Annotated[str, _written(_MASTER, "it is no master that Spark knows, without user and query")]
Memory = Annotated[str, _written("[1-9][0-9]*[mg]", "it has to be a number of m or g")]
PemFile = Annotated[Path, BeforeValidator(_require_file)]
Plain = Annotated[str, BeforeValidator(_require_plain)]
Properties = Annotated[SecretStr, _parsed_by(parse_properties)]
Remote = Annotated[SecretStr, AfterValidator(_require_remote)]
Root = Annotated[str, AfterValidator(_require_root)]
Secret = Annotated[SecretStr, BeforeValidator(_require_plain)]
SparkConf = Annotated[SecretStr, _parsed_by(parse_spark_conf)]
SecretText = Annotated[SecretStr, BeforeValidator(_require_text)]
Servers = Annotated[
    str,
    _written(f"{_SERVER}(,{_SERVER})*", "it is no list of servers alone"),
    AfterValidator(_require_ports),
]
Text = Annotated[str, BeforeValidator(_require_text)]
Url = Annotated[str, AfterValidator(_require_url)]
