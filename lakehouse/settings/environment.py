"""The class ``Settings``: the only code that reads the environment."""

import os
from functools import cached_property
from getpass import getuser
from pathlib import Path
from socket import gethostname
from typing import Literal, Self

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from lakehouse.errors import SettingsError
from lakehouse.settings import shapes
from lakehouse.settings.project import (
    ADVICE,
    ENV_FILE,
    PREFIX,
    declarations_of_project,
    describe_error,
    one_project,
    require_known,
    variable_of,
    variables_in_file,
)
from lakehouse.settings.spark_conf import is_of_session, parse_properties, parse_spark_conf
from lakehouse.settings.store import STORE_ADDRESSES, Store, declare_access, keep_copies_in

_FILE_SYSTEM_FOLDER = "lost+found"


def user_of_host() -> str:
    """Who runs this process, as ``USER@HOST``; the number of a user without a name, as in a container."""
    try:
        return f"{getuser()}@{gethostname()}"
    except (KeyError, OSError):
        return f"{os.getuid()}@{gethostname()}"


class Settings(BaseSettings):
    """The settings, read from ``LAKEHOUSE_*`` variables or the ``.env`` file of the project.

    The project is the nearest folder upwards whose ``pyproject.toml`` has ``[tool.lakehouse]``, else the working
    directory. Relative paths start there. An empty variable counts as not set. Other code takes a ``Settings`` as an
    argument and does not read the environment.
    """

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_file=ENV_FILE,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    home: shapes.Home = Field(
        Path(".lakehouse"),
        validate_default=True,  # the default is relative to the project
        description="State folder: tables, broker data, Dagster's storage.",
    )
    tables: shapes.Root | None = Field(None, description="Root of the tables: a folder or a URI. Default: HOME/tables.")
    declarations: shapes.Declarations | None = Field(
        None,
        description="Where the tables are declared: a folder of Python files, one file, or a module. Default:"
        " declarations under [tool.lakehouse] in pyproject.toml.",
    )
    files: shapes.FilesRoot | None = Field(
        None, description="Where relative folders of files begin: a folder or a URI. Default: the working directory."
    )
    exports: shapes.Folder | None = Field(
        None, description="Where relative folders of exports begin. Default: HOME/exports."
    )
    sink_urls: shapes.SinkUrls | None = Field(
        None, description="JSON object with the URL of each database that sinks name; its values are never shown."
    )
    kafka_bootstrap_servers: shapes.Servers | None = Field(
        None, description="host:port[,host:port]. Unset: the embedded broker of this home."
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="Security protocol of the broker."
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-256", description="Used with the SASL protocols."
    )
    kafka_username: shapes.Utf8Text | None = Field(None, description="Used with the SASL protocols.")
    kafka_password: shapes.SecretText | None = Field(None, description="Used with the SASL protocols; never shown.")
    kafka_ca_file: shapes.PemFile | None = Field(
        None, description="PEM file of the authority that signed the broker's certificate."
    )
    kafka_client_certificate_file: shapes.PemFile | None = Field(
        None, description="PEM file of the client certificate, for mutual TLS."
    )
    kafka_client_key_file: shapes.PemFile | None = Field(
        None, description="PEM file of the client certificate's private key, in PKCS#8."
    )
    kafka_client_key_password: shapes.SecretText | None = Field(
        None, description="Password of an encrypted private key; never shown."
    )
    kafka_properties: shapes.Properties | None = Field(
        None, description="JSON object of other properties of Kafka's clients; its values are never shown."
    )
    registry_url: shapes.Url | None = Field(
        None, description="http(s)://host[:port][/path] of a schema registry. Unset: the embedded one of this home."
    )
    registry_username: shapes.HeaderText | None = Field(
        None, description="User of the schema registry; needs the password too."
    )
    registry_password: shapes.Secret | None = Field(None, description="Password of the schema registry; never shown.")
    registry_token: shapes.Secret | None = Field(
        None, description="Token of the schema registry, instead of user and password; never shown."
    )
    registry_ca_file: shapes.PemFile | None = Field(
        None, description="PEM file of the authority that signed the registry's certificate."
    )
    alert_url: shapes.SecretUrl | None = Field(
        None, description="http(s):// address that receives alerts. Unset: no alert is sent. Never shown."
    )
    alert_format: Literal["json", "slack"] = Field(
        "json", description="Form of an alert: plain JSON, or the JSON of Slack's incoming webhooks."
    )
    database_url: shapes.DatabaseUrl | None = Field(
        None, description="postgresql://USER:PASSWORD@HOST:PORT/DATABASE that tables are compared with. Never shown."
    )
    serve_token: shapes.Secret | None = Field(
        None, description="Token that requests to lakehouse serve need; never shown. Unset: they need none."
    )
    catalog: shapes.Catalog | None = Field(
        None,
        description="Catalog in which tables are registered: glue://REGION/DATABASE, hive://HOST:PORT/DATABASE or"
        " unity+https://HOST[:PORT]/CATALOG.SCHEMA.",
    )
    catalog_token: shapes.Secret | None = Field(None, description="Token of a Unity Catalog; never shown.")
    catalog_follows: bool = Field(
        False, description="Whether Dagster registers tables in the catalog when their columns or documentation change."
    )
    docs_url: shapes.Url | None = Field(
        None,
        description="http(s):// address where this documentation is published, for links in Dagster.",
    )
    spark_master: shapes.Master = Field(
        "local[*]", description="Master of a Spark that lakehouse starts, for example local[2] or spark://host:7077."
    )
    spark_remote: shapes.Remote | None = Field(
        None,
        description="sc://host:port of a Spark Connect server to use instead; parameters may follow, never shown.",
    )
    spark_driver_memory: shapes.Memory = Field(
        "2g", description="Memory of a Spark driver that lakehouse starts, for example 512m or 4g."
    )
    spark_conf: shapes.SparkConf | None = Field(
        None,
        description="JSON object of other Spark settings, except those that rows depend on; its values are never"
        " shown.",
    )
    reviewed: bool = Field(
        False,
        description="Whether declarations are reviewed before they are deployed: sensors then create new tables, and"
        " take up changed declarations.",
    )
    record_user: bool = Field(
        False,
        description="Whether the history of the tables says who ran a command, as USER@HOST, or the user tag of a run.",
    )
    sync: bool = Field(
        True,
        description="Whether a commit to a local disk is synced, to survive a power cut, before it is reported.",
    )
    store_endpoint: shapes.Url | None = Field(
        None,
        description="http(s)://host:port of the store of the tables. Unset: AWS_ENDPOINT_URL, else AWS or Azure.",
    )
    store_region: str | None = Field(None, description="Region of the bucket of the tables. Unset: AWS_REGION.")
    store_access_key: shapes.Secret | None = Field(
        None, description="Access key for the bucket of the tables. Unset: that of AWS_*, a profile or a role."
    )
    store_secret_key: shapes.Secret | None = Field(
        None, description="Its secret key, or the key or a signature (SAS) of an Azure storage account; never shown."
    )
    store_path_style: bool | None = Field(
        None, description="Whether the address of an object begins with the endpoint, not the bucket. Unset: it does."
    )
    store_writers: Literal["many", "one"] = Field(
        "many", description="Say one if nothing writes tables in a store at the same time, not even another Spark."
    )
    jars: shapes.Folder = Field(
        Path("~/.cache/lakehouse/jars"), description="Cache of the jars, shared by all clones on a machine."
    )

    @classmethod
    def load(cls) -> "Settings":
        """Read the environment. Raises ``SettingsError``, which names the variable, if a value cannot be used."""
        with one_project() as folder:
            file = folder / ENV_FILE
            require_known([*variables_in_file(file), *os.environ], cls.model_fields)
            try:
                return cls(_env_file=file)
            except ValidationError as error:
                raise SettingsError(describe_error(error.errors()[0], cls.model_fields), action=ADVICE) from None

    @model_validator(mode="after")
    def _require_consistency(self) -> Self:
        has_credentials = self.kafka_username and self.kafka_password
        if self.kafka_security_protocol.startswith("SASL") and not has_credentials:
            protocol = f"{PREFIX}KAFKA_SECURITY_PROTOCOL={self.kafka_security_protocol}"
            raise ValueError(f"{protocol} needs {PREFIX}KAFKA_USERNAME and {PREFIX}KAFKA_PASSWORD")
        self._require_both("registry_username", "registry_password")
        start_settings = [name for name in self.spark_settings if self.spark_remote and not is_of_session(name)]
        if start_settings:
            raise ValueError(
                f"{start_settings[0]} in {PREFIX}SPARK_CONF takes effect only when Spark starts, but the server of"
                f" {PREFIX}SPARK_REMOTE runs already; set it there"
            )
        self._require_both("kafka_client_certificate_file", "kafka_client_key_file")
        if self.store.kind == "s3":
            self._require_both("store_access_key", "store_secret_key")
        self._open_store()
        return self

    def _open_store(self) -> None:
        """Let this process reach the bucket of the tables as these settings say; copies of logs lie in the home."""
        store, names = self.store, [name for name in sorted(self.model_fields_set) if name.startswith("store_")]
        values = {name: getattr(self, name) for name in names}
        values = {name: value for name, value in values.items() if value != type(self).model_fields[name].default}
        for name in values:
            if name.removeprefix("store_") not in store.access_class.settings:
                place = "tables in S3" if store.kind else f"{PREFIX}TABLES={STORE_ADDRESSES}"
                raise ValueError(f"{variable_of(name)} needs {place}")
        if store.bucket:
            declare_access(store.bucket, {name.removeprefix("store_"): value for name, value in values.items()})
            keep_copies_in(self.home_folder / "logs-of-stores")

    def _require_both(self, *names: str) -> None:
        """Refuse two settings of which only one is set."""
        missing_names = [name for name in names if not getattr(self, name)]
        if len(missing_names) == 1:
            variables = " and ".join(variable_of(name) for name in names)
            raise ValueError(f"{variables} go together, but {variable_of(missing_names[0])} is not set")

    @cached_property
    def command_run(self) -> str:
        """What the commits of a command have in place of a run: who ran it, if that is to be recorded."""
        return user_of_host() if self.record_user else "cli"

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
        """The root of the tables, an absolute path or a URI; each table is a folder of its name in it."""
        return Store(self.tables or str(self.home_folder / "tables")).absolute

    @property
    def store(self) -> Store:
        """The place of the tables."""
        return Store(self.tables_root)

    @cached_property
    def declared_in(self) -> str:
        """The folder, file or module of the declarations: this setting, else the one of the project file."""
        return self.declarations or declarations_of_project(shapes.require_declarations)

    @cached_property
    def client_properties(self) -> dict[str, str]:
        """Other properties of Kafka's clients, by their Kafka names; values may be secret."""
        return parse_properties(self.kafka_properties.get_secret_value()) if self.kafka_properties else {}

    @cached_property
    def sink_addresses(self) -> dict[str, str]:
        """The URL of each database that sinks name; they are secret."""
        return shapes.parse_sink_urls(self.sink_urls.get_secret_value()) if self.sink_urls else {}

    @cached_property
    def spark_settings(self) -> dict[str, str]:
        """Other Spark settings, by their Spark names; values may be secret."""
        return parse_spark_conf(self.spark_conf.get_secret_value()) if self.spark_conf else {}

    @property
    def spark_is_local(self) -> bool:
        """Whether a Spark started here is one process; ``local-cluster`` starts separate executors."""
        return self.spark_master.partition("[")[0] == "local"

    @cached_property
    def remote_address(self) -> shapes.RemoteAddress | None:
        """The Spark Connect server to use, with parameters that may be secret; ``None`` if none is set."""
        return shapes.parse_remote(self.spark_remote.get_secret_value()) if self.spark_remote else None

    @cached_property
    def spark_place(self) -> str:
        """Where Spark runs, safe to show: without the parameters of a Spark Connect address, which may hold a token."""
        remote = self.remote_address
        return f"sc://{remote.host}:{remote.port}" if remote else self.spark_master

    def make_folder(self, *names: str) -> Path:
        """Return a folder of the home; create it if it is missing. ``SettingsError`` if that fails."""
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
        """Return the path of a log of the home; create its folder, which only lakehouse uses."""
        return self.make_folder("logs", "lakehouse") / name

    def claim_folder(self, name: str) -> Path:
        """Return a folder of the home; create it if it is missing. The caller creates ``lock`` in it first.

        Raises ``SettingsError`` if it holds files but no ``lock``: another program owns them.
        """
        folder = self.make_folder(name)
        file_names = {file.name for file in folder.iterdir()} - {_FILE_SYSTEM_FOLDER}
        if file_names and "lock" not in file_names:
            raise SettingsError(
                f"The state folder holds {name}/{min(file_names)}, which lakehouse did not create",
                where=str(folder),
                action="Set LAKEHOUSE_HOME to a folder that no other program uses.",
            )
        return folder

    @property
    def files_root(self) -> str:
        """The path or URI at which relative folders of files begin."""
        return str(self.files or Path.cwd())

    def table_uri(self, name: str) -> str:
        """The path or URI of the table of that name, whether it exists or not."""
        return f"{self.tables_root}/{name}"
