"""The types of the settings: each refuses a value that cannot work, in one sentence."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, SecretStr

from lakehouse.settings.project import in_project
from lakehouse.settings.spark_conf import parse_object, parse_properties, parse_spark_conf
from lakehouse.settings.store import STORE_ADDRESSES, Store

_SEPARATORS = "@/?#"
_ADDRESS = re.compile(
    r"sc://(?P<host>[\w.-]+|\[[0-9a-fA-F:.]+\])(:(?P<port>\d+))?(/(;(?P<parameters>.*))?)?", re.DOTALL
)
_DEFAULT_PORT = 15002
_SPARK_PARAMETERS = ("token", "use_ssl", "user_id", "user_agent", "session_id")
_HEADER_NAME = re.compile(r"(?!grpc-)[a-z0-9_.-]+(?<!-bin)")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]+")
_MAX_VALUE_LENGTH = 2048
_PERCENT_CODES = {character: f"%{ord(character):02X}" for character in "=#?"}
"""Characters that end the value of a parameter for some readers of the address."""
_SERVER = r"(\[[0-9a-fA-F:]+\]|[^\s,:/@?\[\]]+):\d+"
_MASTER = r"local(\[(\*|[1-9]\d*)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|yarn|(spark|k8s)://[^\s@?]+"
_LOOPBACK = r"(localhost|127(\.\d+){3}|\[::1\])"
_CATALOG = re.compile(
    r"glue://[a-z0-9-]+/\w+|hive://(\[[0-9a-fA-F:]+\]|[\w.-]+):\d+/\w+"
    rf"|unity\+(https://[\w.-]+|http://{_LOOPBACK})(:\d+)?/[\w-]+\.[\w-]+",
    re.ASCII,
)
_DATA_EXPLORER = re.compile(
    rf"Data Source=(https://|http://{_LOOPBACK}[:/;])[^;]*.*;\s*Initial Catalog=[^;]", re.IGNORECASE
)
_MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_MISREAD_CHARACTERS = "#%?\\[]^|"
"""Characters that some readers of Delta tables misread in a path: the history of a table would seem empty."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Characters that are never shown or written to a properties file; also bytes that are not UTF-8."""
_HIGHEST_PORT = 65535


def require_clear_database_url(url: str) -> None:
    """Raise ``ValueError``, which quotes nothing of the URL, if its user or password is not certainly whole.

    libpq ends the password at the first ``@`` and the host at the first ``/``, other programs at the last ``@``. What
    one takes for a part of the password, another takes for the host and shows in its errors.
    """
    credentials, _, _ = url.partition(":")[2].removeprefix("//").rpartition("@")
    if any(separator in credentials for separator in _SEPARATORS):
        raise ValueError("in its user, password and other parts, @ / ? and # must be written as %40 %2F %3F and %23")


class RemoteAddress(NamedTuple):
    """Host and port of a server, and the parameters of each request to it; these may be secret."""

    host: str
    port: int
    parameters: dict[str, str]


def parse_remote(text: str) -> RemoteAddress:
    """Parse ``sc://host:port/;name=value;...`` and decode the values.

    Raises ``ValueError`` with a message that says how to write it and shows nothing that may be secret.
    """
    match = _ADDRESS.fullmatch(text)
    if not match or not 1 <= int(match["port"] or _DEFAULT_PORT) <= _HIGHEST_PORT:
        raise ValueError("it must be sc://host:port, with parameters as in sc://host:port/;use_ssl=true")
    parts = (match["parameters"] or "").split(";")
    return RemoteAddress(
        match["host"],
        int(match["port"] or _DEFAULT_PORT),
        dict(_parse_parameter(part, number) for number, part in enumerate(parts, 1) if part),
    )


def _parse_parameter(part: str, number: int) -> tuple[str, str]:
    """Return a name and its value. Errors show the number of an unknown name, which may be part of a secret."""
    name, equals, encoded_value = part.partition("=")
    shown_name = name if name in _SPARK_PARAMETERS else f"parameter {number}"
    if not equals:
        raise ValueError(f"{shown_name} is not written as name=value; a ; within a value is written %3B")
    if name not in _SPARK_PARAMETERS and not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"the name of {shown_name} is not valid as the name of a header")
    for character, code in _PERCENT_CODES.items():
        if character in encoded_value:
            raise ValueError(f"the value of {shown_name} contains {character}, which must be written {code}")
    if re.search("%(?![0-9a-fA-F]{2})", encoded_value):
        raise ValueError(f"the value of {shown_name} contains %, which must be written %25")
    value = unquote(encoded_value)
    if not _HEADER_VALUE.fullmatch(value) or len(value) > _MAX_VALUE_LENGTH:
        raise ValueError(
            f"the value of {shown_name} is empty, too long or not valid in a header, for example with a line break"
        )
    _require_valid(name, value)
    return name, value


def _require_valid(name: str, value: str) -> None:
    if name == "use_ssl" and value not in ("true", "false"):
        raise ValueError("use_ssl must be true or false")
    if name == "session_id":
        try:
            UUID(value)
        except ValueError:
            raise ValueError("session_id must be a UUID") from None


@contextmanager
def _readable() -> Iterator[None]:
    """Refuse a path whose status the system does not return."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from None


def _require_folder(value: Any) -> Any:
    """Refuse a folder that cannot exist: it or a parent is a file, or it is not on this machine."""
    if Store(str(value)).is_address:
        raise ValueError("it must be a folder on this machine")
    path = in_project(value)
    with _readable():
        existing_path = next((folder for folder in (path, *path.parents) if folder.exists()), None)
    if existing_path is not None and not existing_path.is_dir():
        raise ValueError(f"{existing_path} is a file, not a folder")
    return path


def require_home(value: Any) -> Any:
    """Return a folder that can be a home or contain one; ``ValueError`` if its name does not allow that."""
    folder = _require_table_folder(value)
    if "," in folder:
        raise ValueError(f"the name {folder} contains a comma, so Kafka would keep its data in two folders")
    return in_project(value)


def _require_table_folder(value: Any) -> str:
    """Return the folder with symbolic links followed."""
    _require_folder(value)
    folder = str(in_project(value).resolve())
    _require_unambiguous(folder, f"tables cannot be read in {folder}, whose name")
    return folder


def _require_unambiguous(path: str, subject: str) -> None:
    """Refuse a path that Spark and the readers without a JVM read differently; ``subject`` starts the message."""
    misread_characters = " ".join(sorted({*path} & {*_MISREAD_CHARACTERS}))
    if misread_characters or _CONTROL.search(path):
        raise ValueError(f"{subject} contains {misread_characters or 'a control character'}")


def require_declarations(value: str) -> str:
    """Return the folder, Python file or module of declarations; ``ValueError`` if it can be none of them."""
    with _readable():
        place = in_project(value)
        is_place = place.is_dir() or (place.suffix == ".py" and place.is_file())
        if not is_place and not _MODULE.fullmatch(value):
            raise ValueError("it is neither a folder, a Python file nor the name of a module")
    return value


def _require_root(root: str) -> str:
    if not Store(root).is_address:
        _require_table_folder(root)
        return str(in_project(root))
    _require_unambiguous(root, "tables cannot be read there: the address")
    store = Store(root)
    if store.kind is None:
        raise ValueError(f"it must be a folder, {STORE_ADDRESSES}, the only stores that are tested")
    if store.kind == "azure" and re.search(r"//|\.(/|$)", urlsplit(root).path):
        raise ValueError("Azure allows no folder without a name, and no dot at the end of a name")
    if "@" in urlsplit(root).netloc and store.kind == "s3":
        raise ValueError("it is shown in many places, so it must not contain a user or a password")
    return root


def _require_files_root(root: str) -> str:
    if Store(root).kind == "azure":
        raise ValueError("it must be a folder or s3://BUCKET/PREFIX: files in Azure are not read")
    return _require_root(root)


def _matching(pattern: str, message: str) -> AfterValidator:
    """Refuse a value that does not match the pattern, with a message instead of the pattern."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(message)
        return value

    return AfterValidator(check)


def _require_ports(servers: str) -> str:
    if any(not 1 <= int(server.rpartition(":")[2]) <= _HIGHEST_PORT for server in servers.split(",")):
        raise ValueError(f"a port is a number from 1 to {_HIGHEST_PORT}")
    return servers


def _require_remote(remote: SecretStr) -> SecretStr:
    parse_remote(remote.get_secret_value())
    return remote


def _parsed_by(parse: Callable[[str], object]) -> BeforeValidator:
    """Refuse a value that ``parse`` refuses; a mapping becomes its JSON text."""

    def check(value: Any) -> Any:
        text = json.dumps(value) if isinstance(value, Mapping) else value
        if text is not None:
            parse(text.get_secret_value() if isinstance(text, SecretStr) else text)
        return text

    return BeforeValidator(check)


def _require_header_text(value: Any) -> Any:
    """Refuse text that a header cannot hold: a secret from a file often ends with a line break."""
    if isinstance(value, str) and (value != value.strip() or _CONTROL.search(value)):
        raise ValueError("it starts or ends with white space, or contains a control character")
    return value


def _require_text(value: Any) -> Any:
    """Refuse bytes that are not UTF-8: no client can send them."""
    if isinstance(value, str) and re.search("[\ud800-\udfff]", value):
        raise ValueError("it contains bytes that are not UTF-8")
    return value


def _require_url(url: str) -> str:
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname or _CONTROL.search(url) or " " in url:
        raise ValueError("it must be a URL that starts with http:// or https://")
    if "@" in address.netloc or address.query or address.fragment:
        raise ValueError("it is shown in many places, so it must not contain a user, a password or a query")
    return url


def _require_catalog(address: str) -> str:
    if not _CATALOG.fullmatch(address) or urlsplit(address).port == 0:
        forms = "glue://REGION/DATABASE, hive://HOST:PORT/DATABASE or unity+https://HOST[:PORT]/CATALOG.SCHEMA"
        raise ValueError(f"it must be {forms}; unity+http:// only for this machine")
    return address


def _require_database_url(url: SecretStr, *schemes: str) -> SecretStr:
    """Refuse a URL that names no database of PostgreSQL or of more kinds, with a message that quotes nothing of it."""
    require_clear_database_url(url.get_secret_value())
    address = _parse_address(url, "postgresql", "postgres", *schemes)
    if address is None or not address.path.strip("/"):
        names = " or ".join(("postgresql", *schemes))
        raise ValueError(f"it must be a URL such as {names}://USER:PASSWORD@HOST:PORT/DATABASE")
    return url


def parse_sink_urls(text: str) -> dict[str, str]:
    """Return the URL of each database by its name. Raises ``ValueError`` with a message that shows no URL."""
    urls = parse_object(text, lambda _: None, '{"postgres": "postgresql://USER:PASSWORD@HOST/DATABASE"}')
    for name, url in urls.items():
        try:
            if not url.lower().startswith("data source="):
                _require_database_url(SecretStr(url), "mssql")
            elif not _DATA_EXPLORER.match(url):
                raise ValueError("it must be Data Source=https://CLUSTER...;Initial Catalog=DATABASE;...")
        except ValueError as error:
            raise ValueError(f"the URL of {name} is wrong: {error}") from None
    return urls


def _require_secret_url(url: SecretStr) -> SecretStr:
    """Refuse a URL that no client can send a request to, with a message that quotes nothing of it."""
    text = url.get_secret_value()
    if _parse_address(url, "http", "https") is None or _CONTROL.search(text) or " " in text:
        raise ValueError("it must be a URL that starts with http:// or https://")
    return url


def _parse_address(url: SecretStr, *schemes: str) -> SplitResult | None:
    """The parts of a secret URL; ``None`` if it has another scheme, no host or no possible port."""
    with suppress(ValueError):  # its text would reveal the secret
        address = urlsplit(url.get_secret_value())
        return address if address.scheme in schemes and address.hostname and address.port != 0 else None
    return None


def _require_file(value: Any) -> Any:
    path = in_project(value)
    with _readable():
        if not path.is_file():
            raise ValueError("it is a folder, not a file" if path.is_dir() else "the file does not exist")
    return path


Catalog = Annotated[str, AfterValidator(_require_catalog)]
Declarations = Annotated[str, AfterValidator(require_declarations)]
FilesRoot = Annotated[str, AfterValidator(_require_files_root)]
Folder = Annotated[Path, BeforeValidator(_require_folder)]
HeaderText = Annotated[str, BeforeValidator(_require_header_text)]
Home = Annotated[Path, BeforeValidator(require_home)]
Master = Annotated[
    str,
    _matching(_MASTER, "it must be local[*], local[N], yarn, spark://host:port or k8s://host, without user and query"),
]
Memory = Annotated[str, _matching("[1-9][0-9]*[mg]", "it must be a whole number followed by m or g")]
PemFile = Annotated[Path, BeforeValidator(_require_file)]
Properties = Annotated[SecretStr, _parsed_by(parse_properties)]
SinkUrls = Annotated[SecretStr, _parsed_by(parse_sink_urls)]
Remote = Annotated[SecretStr, AfterValidator(_require_remote)]
Root = Annotated[str, AfterValidator(_require_root)]
Secret = Annotated[SecretStr, BeforeValidator(_require_header_text)]
SparkConf = Annotated[SecretStr, _parsed_by(parse_spark_conf)]
SecretText = Annotated[SecretStr, BeforeValidator(_require_text)]
DatabaseUrl = Annotated[SecretStr, AfterValidator(_require_database_url)]
SecretUrl = Annotated[SecretStr, AfterValidator(_require_secret_url)]
Servers = Annotated[
    str,
    _matching(
        f"{_SERVER}(,{_SERVER})*", "it must be host:port, or several with a comma between, without user and query"
    ),
    AfterValidator(_require_ports),
]
Utf8Text = Annotated[str, BeforeValidator(_require_text)]
Url = Annotated[str, AfterValidator(_require_url)]
