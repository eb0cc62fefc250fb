"""The settings: the only reader of the environment."""

from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, FilePath, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from lakehouse.errors import SettingsError

_PREFIX = "LAKEHOUSE_"
_SERVERS = r"^(\[[0-9a-fA-F:]+\]|[^\s,:/\[\]]+):\d+(,(\[[0-9a-fA-F:]+\]|[^\s,:/\[\]]+):\d+)*$"


class Settings(BaseSettings):
    """Where things are, read from ``LAKEHOUSE_*`` variables or a ``.env`` file in the working directory.

    Every part takes a ``Settings`` as an argument; nothing else reads the environment. An empty variable is
    the same as none.
    """

    model_config = SettingsConfigDict(
        env_prefix=_PREFIX, env_file=".env", env_ignore_empty=True, extra="ignore", frozen=True
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
    kafka_ca_file: FilePath | None = Field(None, description="PEM file of the authority that signed the broker.")
    spark_master: str = Field("local[*]", description="Spark master of a session started here.")
    spark_remote: str | None = Field(
        None, pattern="^sc://.+", description="sc://host:port of a Spark Connect server, used instead."
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
        try:
            return cls()
        except ValidationError as error:
            raise SettingsError(
                _explained(error.errors()[0]),
                action="Correct it in the environment or in .env; README.md lists the settings.",
            ) from None

    @model_validator(mode="after")
    def _require_credentials(self) -> Self:
        given = self.kafka_username and self.kafka_password
        if self.kafka_security_protocol.startswith("SASL") and not given:
            raise ValueError(
                f"{self.kafka_security_protocol} needs {_PREFIX}KAFKA_USERNAME and {_PREFIX}KAFKA_PASSWORD"
            )
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

    def table_uri(self, name: str) -> str:
        """Where the table of that name is, whether it exists or not."""
        return f"{self.tables_root}/{name}"


def _explained(error: Any) -> str:
    """Name the variable, its value and what it is for; what several settings share shows no value."""
    if not error["loc"]:
        return f"{_PREFIX}* cannot be used: {error['msg'].removeprefix('Value error, ')}"
    name = str(error["loc"][0]).removeprefix(_PREFIX.lower())
    meaning = Settings.model_fields[name].description
    return f"{_PREFIX}{name.upper()}={error['input']!r} cannot be used: {error['msg']}. {meaning}"
