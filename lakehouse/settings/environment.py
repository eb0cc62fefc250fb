"""The settings: the only reader of the environment."""

import os
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from lakehouse.errors import SettingsError
from lakehouse.settings.project import declarations_of_project, one_project
from lakehouse.settings.properties import parse_properties
from lakehouse.settings.remote import RemoteAddress, parse_remote
from lakehouse.settings.shapes import (
    Declarations,
    Folder,
    Home,
    Master,
    Memory,
    PemFile,
    Plain,
    Properties,
    Remote,
    Root,
    Secret,
    SecretText,
    Servers,
    SparkConf,
    Text,
    Url,
    require_declarations,
)
from lakehouse.settings.spark_conf import is_of_session, parse_spark_conf
from lakehouse.settings.store import Store
from lakehouse.settings.variables import ADVICE, ENV_FILE, PREFIX, require_known, variables_in_file

_OF_THE_DISK = "lost+found"


class Settings(BaseSettings):
    """Where things are, read from ``LAKEHOUSE_*`` variables or the ``.env`` file of the project.

    The project is the nearest folder upwards whose ``pyproject.toml`` has ``[tool.lakehouse]``, else the working
    directory. Relative paths belong to it. Every part takes a ``Settings`` as an argument; nothing else reads the
    environment. An empty variable is the same as none.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=ENV_FILE,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    home: Home = Field(
        Path(".lakehouse"),
        validate_default=True,  # it lies in the project
        description="State folder: tables, broker data, Dagster's storage.",
    )
    tables: Root | None = Field(None, description="Root of the tables: a folder or a URI. Default: HOME/tables.")
    declarations: Declarations | None = Field(
        None,
        description="Where the tables are declared: a folder of Python files, or a module. Default: what pyproject.toml"
        " says under [tool.lakehouse].",
    )
    kafka_bootstrap_servers: Servers | None = Field(
        None, description="host:port[,host:port]. Unset: the embedded broker of this home."
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="How to speak to the broker."
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-256", description="Used with the SASL protocols."
    )
    kafka_username: Text | None = Field(None, description="Used with the SASL protocols.")
    kafka_password: SecretText | None = Field(None, description="Used with the SASL protocols; never shown.")
    kafka_ca_file: PemFile | None = Field(None, description="PEM file of the authority that signed the broker.")
    kafka_client_certificate_file: PemFile | None = Field(
        None, description="PEM file of the certificate we show to the broker, for mutual TLS."
    )
    kafka_client_key_file: PemFile | None = Field(None, description="PEM file of its private key, in PKCS#8.")
    kafka_client_key_password: SecretText | None = Field(None, description="Of an encrypted private key; never shown.")
    kafka_properties: Properties | None = Field(
        None, description="JSON object of any other property of Kafka's clients; its values are never shown."
    )
    registry_url: Url | None = Field(
        None, description="http(s)://host[:port][/path] of a schema registry. Unset: the embedded one of this home."
    )
    registry_username: Plain | None = Field(None, description="Of the schema registry, with its password.")
    registry_password: Secret | None = Field(None, description="Of the schema registry; never shown.")
    registry_token: Secret | None = Field(None, description="Of the schema registry, instead; never shown.")
    registry_ca_file: PemFile | None = Field(None, description="PEM file of the authority that signed the registry.")
    spark_master: Master = Field(
        "local[*]", description="Spark master of a session started here, as local[2] or spark://host:7077."
    )
    spark_remote: Remote | None = Field(
        None, description="sc://host:port of a Spark Connect server, used instead; what follows may hold a token."
    )
    spark_driver_memory: Memory = Field("2g", description="Memory of the Spark driver started here, as 512m or 4g.")
    spark_conf: SparkConf | None = Field(
        None,
        description="JSON object of any other Spark setting, but those on which rows depend; its values are never"
        " shown.",
    )
    sync: bool = Field(
        True,
        description="true or false: whether a commit to tables on a local disk is on the disk, in case of a power cut,"
        " before it is reported.",
    )
    jars: Folder = Field(
        Path("~/.cache/lakehouse/jars"), description="Cache of the jars, shared by every clone on a machine."
    )

    @classmethod
    def load(cls) -> "Settings":
        """Read the environment; a value that cannot be used is a ``SettingsError`` that names its variable."""
        with one_project() as folder:
            file = folder / ENV_FILE
            require_known([*variables_in_file(file), *os.environ], cls.model_fields)
            try:
                return cls(_env_file=file)
            except ValidationError as error:
                raise SettingsError(_explained(error.errors()[0]), action=ADVICE) from None

    @model_validator(mode="after")
    def _require_what_belongs_together(self) -> Self:
        given = self.kafka_username and self.kafka_password
        if self.kafka_security_protocol.startswith("SASL") and not given:
            raise ValueError(f"{self.kafka_security_protocol} needs {PREFIX}KAFKA_USERNAME and {PREFIX}KAFKA_PASSWORD")
        if bool(self.registry_username) != bool(self.registry_password):
            both = f"{PREFIX}REGISTRY_USERNAME and {PREFIX}REGISTRY_PASSWORD"
            raise ValueError(f"{both} go together, and one of them is missing")
        elsewhere = [name for name in self.spark_settings if self.spark_remote and not is_of_session(name)]
        if elsewhere:
            raise ValueError(
                f"{elsewhere[0]} in {PREFIX}SPARK_CONF is for a Spark that is started here, and {PREFIX}SPARK_REMOTE"
                " names one that runs: set it there"
            )
        if bool(self.kafka_client_certificate_file) != bool(self.kafka_client_key_file):
            both = f"{PREFIX}KAFKA_CLIENT_CERTIFICATE_FILE and {PREFIX}KAFKA_CLIENT_KEY_FILE"
            raise ValueError(f"{both} go together, and one of them is missing")
        return self

    @cached_property
    def home_folder(self) -> Path:
        """The state folder with symbolic links followed; it may not exist yet."""
        return self.home.resolve()

    @cached_property
    def jar_folder(self) -> Path:
        """The jar cache with symbolic links followed; it may not exist yet."""
        return self.jars.expanduser().resolve()

    @cached_property
    def tables_root(self) -> str:
        """The root under which each table has a folder of its name: an absolute path or a URI."""
        root = self.tables or str(self.home_folder / "tables")
        return str(Path(root).resolve()) if Store(root).is_path else root.rstrip("/")

    @property
    def store(self) -> Store:
        """Where the tables are."""
        return Store(self.tables_root)

    @cached_property
    def declared_in(self) -> str:
        """The folder or module of the declarations: as set here, or as the project says."""
        return self.declarations or declarations_of_project(require_declarations)

    @cached_property
    def client_properties(self) -> dict[str, str]:
        """Other properties of Kafka's clients by their names there; the values may be secret."""
        return parse_properties(self.kafka_properties.get_secret_value()) if self.kafka_properties else {}

    @cached_property
    def spark_settings(self) -> dict[str, str]:
        """Other settings of Spark by their names there; the values may be secret."""
        return parse_spark_conf(self.spark_conf.get_secret_value()) if self.spark_conf else {}

    @property
    def spark_is_local(self) -> bool:
        """Whether a Spark started here is one process; ``local-cluster`` has executors of its own."""
        return self.spark_master.partition("[")[0] == "local"

    @cached_property
    def remote_address(self) -> RemoteAddress | None:
        """The Spark Connect server to use, with parameters that may be secret; ``None``: none is set."""
        return parse_remote(self.spark_remote.get_secret_value()) if self.spark_remote else None

    @cached_property
    def spark_place(self) -> str:
        """Where Spark runs, to be shown: what follows the address of a Connect server may hold a token."""
        remote = self.remote_address
        return f"sc://{remote.host}:{remote.port}" if remote else self.spark_master

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

    def log_file(self, name: str) -> Path:
        """Where a log of the home is written; its folder is made, and nobody else has one of that name."""
        return self.make_folder("logs", "lakehouse") / name

    def claim_folder(self, name: str) -> Path:
        """Return a folder of the home, made where it is missing, for who makes ``lock`` in it before any other file.

        ``SettingsError`` where it holds files and no lock: they are somebody else's, and might be written over.
        """
        folder = self.make_folder(name)
        others = {each.name for each in folder.iterdir()} - {_OF_THE_DISK}
        if others and "lock" not in others:
            raise SettingsError(
                f"The state folder holds {name}/{min(others)}, which is not of lakehouse",
                where=str(folder),
                action="Set LAKEHOUSE_HOME to a folder of its own.",
            )
        return folder

    def table_uri(self, name: str) -> str:
        """Where the table of that name is, whether it exists or not."""
        return f"{self.tables_root}/{name}"


def _explained(error: Any) -> str:
    """Name the variable, its value and what it is for; what may hold a secret is not shown."""
    fact = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return f"{PREFIX}* cannot be used: {fact}"
    name = str(error["loc"][0]).removeprefix(PREFIX.lower())
    field = Settings.model_fields[name]
    given = str(error["input"])
    pasted = "-----BEGIN" in given  # a key in place of its file
    hidden = "SecretStr" in repr(field.annotation) or name == "tables" or pasted or {"@", "?"} & {*given}
    value = "" if hidden else f"={given!r}"
    return f"{PREFIX}{name.upper()}{value} cannot be used: {fact}. {field.description}"
