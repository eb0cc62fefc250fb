"""The settings: the only reader of the environment."""

import json
import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args
from urllib.parse import urlsplit

from dotenv import dotenv_values
from pydantic import BeforeValidator, Field, FilePath, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from lakehouse.errors import SettingsError
from lakehouse.properties import parse_properties

_PREFIX = "LAKEHOUSE_"
_ENV_FILE = ".env"
_SERVERS = r"^(\[[0-9a-fA-F:]+\]|[^\s,:/\[\]]+):\d+(,(\[[0-9a-fA-F:]+\]|[^\s,:/\[\]]+):\d+)*$"
_MASTER = r"^(local(\[(\*|[1-9]\d*)(,\d+)?\])?|local-cluster\[\d+,\d+,\d+\]|yarn|(spark|k8s)://\S+)$"
_REMOTE = r"^sc://[^\s/:;@]+(:\d+)?(/\S*)?$"
# what both Spark and the readers without a JVM can open
_SCHEMES = ("abfs", "abfss", "file", "gs", "hdfs", "s3", "s3a")
# set in every container of Kubernetes beside a service called "lakehouse"
_NOT_OURS = re.compile(_PREFIX + r"(SERVICE_HOST|SERVICE_PORT\w*|PORT(_\d+_\w+)?)")
_HIGHEST_PORT = 65535
_ADVICE = "Correct it in the environment or in .env; README.md lists the settings."


def _expanded(path: Any) -> Any:
    return Path(path).expanduser() if isinstance(path, str | Path) else path


PemFile = Annotated[FilePath, BeforeValidator(_expanded)]


class Settings(BaseSettings):
    """Where things are, read from ``LAKEHOUSE_*`` variables or a ``.env`` file in the working directory.

    Every part takes a ``Settings`` as an argument; nothing else reads the environment. An empty variable is
    the same as none.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX,
        env_file=_ENV_FILE,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    home: Path = Field(Path(".lakehouse"), description="State folder: tables, broker data, Dagster's storage.")
    tables: str | None = Field(None, description="Root of the tables: a folder or a URI. Default: HOME/tables.")
    kafka_bootstrap_servers: str | None = Field(
        None, pattern=_SERVERS, description="host:port[,host:port]. Unset: the embedded broker of this home."
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="How to speak to the broker."
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-256", description="Used with the SASL protocols."
    )
    kafka_username: str | None = Field(None, description="Used with the SASL protocols.")
    kafka_password: SecretStr | None = Field(None, description="Used with the SASL protocols; never shown.")
    kafka_ca_file: PemFile | None = Field(None, description="PEM file of the authority that signed the broker.")
    kafka_client_certificate_file: PemFile | None = Field(
        None, description="PEM file of the certificate we show to the broker, for mutual TLS."
    )
    kafka_client_key_file: PemFile | None = Field(None, description="PEM file of its private key, in PKCS#8.")
    kafka_client_key_password: SecretStr | None = Field(None, description="Of an encrypted private key; never shown.")
    kafka_properties: SecretStr | None = Field(
        None, description="JSON object of any other property of Kafka's clients; its values are never shown."
    )
    spark_master: str = Field(
        "local[*]",
        pattern=_MASTER,
        description="Spark master of a session started here, as local[2] or spark://h:7077.",
    )
    spark_remote: SecretStr | None = Field(
        None, description="sc://host:port of a Spark Connect server, used instead; what follows may hold a token."
    )
    spark_driver_memory: str = Field(
        "2g", pattern="^[1-9][0-9]*[mg]$", description="Memory of the Spark driver started here, as 512m or 4g."
    )
    jars: Path = Field(
        Path("~/.cache/lakehouse/jars"), description="Cache of the jars, shared by every clone on a machine."
    )

    @classmethod
    def load(cls) -> "Settings":
        """Read the environment; a value that cannot be used is a ``SettingsError`` that names its variable."""
        _require_known([*_named_in_file(), *os.environ])
        try:
            return cls()
        except ValidationError as error:
            raise SettingsError(_explained(error.errors()[0]), action=_ADVICE) from None

    @field_validator("kafka_bootstrap_servers")
    @classmethod
    def _require_ports(cls, servers: str | None) -> str | None:
        for server in (servers or "").split(","):
            if server and not 1 <= int(server.rpartition(":")[2]) <= _HIGHEST_PORT:
                raise ValueError(f"a port is a number from 1 to {_HIGHEST_PORT}")
        return servers

    @field_validator("spark_remote")
    @classmethod
    def _require_remote(cls, remote: SecretStr | None) -> SecretStr | None:
        found = re.fullmatch(_REMOTE, remote.get_secret_value()) if remote else None
        if remote and not (found and int((found[1] or ":1")[1:]) <= _HIGHEST_PORT):
            raise ValueError("it has to be sc://host:port")
        return remote

    @field_validator("kafka_properties", mode="before")
    @classmethod
    def _parse_properties(cls, given: Any) -> Any:
        text = json.dumps(given) if isinstance(given, Mapping) else given
        parse_properties(text.get_secret_value() if isinstance(text, SecretStr) else text or "{}")
        return text

    @field_validator("home", "jars")
    @classmethod
    def _require_folder(cls, folder: Path) -> Path:
        _require_no_file(folder)
        return folder

    @field_validator("tables")
    @classmethod
    def _require_root(cls, root: str | None) -> str | None:
        if not root or "://" not in root:
            _require_no_file(Path(root or "."))
            return root
        address = urlsplit(root)
        if address.scheme not in _SCHEMES:
            raise ValueError(f"tables are kept in a folder or under one of {', '.join(_SCHEMES)}")
        if address.password is not None:
            raise ValueError("it is shown in many places and may hold no password")
        return root

    @model_validator(mode="after")
    def _require_what_belongs_together(self) -> Self:
        given = self.kafka_username and self.kafka_password
        if self.kafka_security_protocol.startswith("SASL") and not given:
            raise ValueError(
                f"{self.kafka_security_protocol} needs {_PREFIX}KAFKA_USERNAME and {_PREFIX}KAFKA_PASSWORD"
            )
        if bool(self.kafka_client_certificate_file) != bool(self.kafka_client_key_file):
            both = f"{_PREFIX}KAFKA_CLIENT_CERTIFICATE_FILE and {_PREFIX}KAFKA_CLIENT_KEY_FILE"
            raise ValueError(f"{both} go together, and one of them is missing")
        return self

    @cached_property
    def home_folder(self) -> Path:
        """The state folder as an absolute path; it may not exist yet."""
        return self.home.expanduser().resolve()

    @cached_property
    def jar_folder(self) -> Path:
        """The jar cache as an absolute path; it may not exist yet."""
        return self.jars.expanduser().resolve()

    @cached_property
    def tables_root(self) -> str:
        """The root under which each table has a folder of its name: an absolute path or a URI."""
        root = self.tables or str(self.home_folder / "tables")
        return root.rstrip("/") if "://" in root else str(Path(root).expanduser().resolve())

    @cached_property
    def client_properties(self) -> dict[str, str]:
        """Other properties of Kafka's clients by their names there; the values may be secret."""
        return parse_properties(self.kafka_properties.get_secret_value()) if self.kafka_properties else {}

    @cached_property
    def spark_place(self) -> str:
        """Where Spark runs, to be shown: what follows the address of a Connect server may hold a token."""
        remote = self.spark_remote.get_secret_value() if self.spark_remote else None
        return f"sc://{urlsplit(remote).netloc}" if remote else self.spark_master

    def make_folder(self, *names: str) -> Path:
        """Return a folder of the home, made where it is missing; ``SettingsError`` where it cannot be."""
        folder = self.home_folder.joinpath(*names)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(
                f"The state folder cannot be used: {error.strerror}",
                where=str(folder),
                action="Correct its permissions, or set LAKEHOUSE_HOME to another folder.",
            ) from None
        return folder

    def table_uri(self, name: str) -> str:
        """Where the table of that name is, whether it exists or not."""
        return f"{self.tables_root}/{name}"


def _require_no_file(folder: Path) -> None:
    """Refuse a folder that cannot be made, since it is a file or lies below one."""
    path = folder.expanduser().absolute()
    existing = next((each for each in (path, *path.parents) if each.exists()), None)
    if existing is not None and not existing.is_dir():
        raise ValueError(f"{existing} is a file and no folder")


def _named_in_file() -> list[str]:
    try:
        return list(dotenv_values(_ENV_FILE)) if Path(_ENV_FILE).exists() else []
    except (OSError, UnicodeDecodeError):
        raise SettingsError("The file .env cannot be read", where=str(Path(_ENV_FILE).absolute())) from None


def _require_known(names: Iterable[str]) -> None:
    """Refuse a variable with our prefix that no setting has: a misspelt one would count as not set."""
    known = [f"{_PREFIX}{name.upper()}" for name in Settings.model_fields]
    for name in map(str.upper, names):
        if name.startswith(_PREFIX) and name not in known and not _NOT_OURS.fullmatch(name):
            near = get_close_matches(name, known, 1)
            hint = f"; is it {near[0]}?" if near else ""
            raise SettingsError(f"{name} is no setting{hint}", action=_ADVICE)


def _explained(error: Any) -> str:
    """Name the variable, its value and what it is for; what several settings share shows no value."""
    fact = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return f"{_PREFIX}* cannot be used: {fact}"
    name = str(error["loc"][0]).removeprefix(_PREFIX.lower())
    field = Settings.model_fields[name]
    value = "" if _is_secret(field.annotation) or name == "tables" else f"={error['input']!r}"
    return f"{_PREFIX}{name.upper()}{value} cannot be used: {fact}. {field.description}"


def _is_secret(annotation: Any) -> bool:
    return SecretStr in (annotation, *get_args(annotation))
