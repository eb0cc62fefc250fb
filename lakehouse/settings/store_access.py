"""How a bucket is reached: the settings ``LAKEHOUSE_STORE_*`` for that of the tables, else the variables ``AWS_*``."""

import os
from collections.abc import Mapping
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple, Self

from lakehouse.errors import SetupError

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_KEY, _SECRET = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
_DECLARED = dict[str, dict[str, Any]]()  # what settings of this process say of a bucket


class Access(NamedTuple):
    """The endpoint, region and keys of a bucket; what is ``None`` comes from the provider's own chain.

    ``of_settings`` means that settings have the keys. ``one_writer`` means that a person vouches that nothing writes
    its tables at the same time.
    """

    endpoint: str | None = None
    region: str | None = None
    key: str | None = None
    secret: str | None = None
    token: str | None = None
    path_style: bool = True
    of_settings: bool = False
    one_writer: bool = False

    @classmethod
    def of_environment(cls) -> Self:
        """Read the variables ``AWS_*`` now. Raises ``SetupError`` if the endpoint is not an address."""
        name = next((name for name in _ENDPOINTS if os.environ.get(name)), None)
        if name and not os.environ[name].startswith(("http://", "https://")):
            raise SetupError(f"{name} is not the address of a store", action=f"Write {name}=https://host:port.")
        return cls(
            endpoint=os.environ[name] if name else None,
            region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"),
            key=os.environ.get(_KEY) or None,
            secret=os.environ.get(_SECRET) or None,
            token=os.environ.get("AWS_SESSION_TOKEN") or None,
            path_style=os.environ.get("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "").lower() != "true",
        )

    def with_keys(self) -> Self:
        """Return it with keys: if it has none, those of a profile or a role, as they are now.

        Raises ``SetupError`` if there are none. Without the package that finds them, each client asks for itself.
        """
        if self.key or os.environ.get("AWS_SKIP_SIGNATURE") or not find_spec("botocore"):
            return self
        keys = _find_keys()
        return self._replace(key=keys.access_key, secret=keys.secret_key, token=keys.token)

    @property
    def is_unencrypted(self) -> bool:
        """Whether the endpoint has no TLS."""
        return (self.endpoint or "").startswith("http://")

    @property
    def options(self) -> dict[str, str]:
        """The options of deltalake and obstore."""
        options = {
            "aws_endpoint": self.endpoint,
            "aws_region": self.region,
            "aws_access_key_id": self.key,
            "aws_secret_access_key": self.secret,
            "aws_session_token": self.token,
            "aws_virtual_hosted_style_request": str(not self.path_style).lower() if self.endpoint else None,
        }
        return {name: value for name, value in options.items() if value is not None}


def _find_keys() -> Any:
    """Return the keys of a profile or a role as they are now."""
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - slow to import, and rarely needed

    action = f"Set {_KEY} and {_SECRET}, or AWS_PROFILE, or give the machine a role."
    try:
        variables = tuple(item for item in os.environ.items() if item[0].startswith("AWS_"))
        return _find_credentials(variables).get_frozen_credentials()
    except LookupError:
        raise SetupError("There are no keys for the object store", action=action) from None
    except BotoCoreError as error:
        raise SetupError(f"The keys for the object store cannot be read: {error}", action=action) from None


@lru_cache(maxsize=4)  # they renew keys that expire; that there are none is not cached
def _find_credentials(variables: tuple[tuple[str, str], ...]) -> Any:  # noqa: ARG001 - others lead to other keys
    from botocore.session import Session  # noqa: PLC0415 - as above

    credentials = Session().get_credentials()
    if credentials is None:
        raise LookupError
    return credentials


def declare_access(bucket: str, values: Mapping[str, Any]) -> None:
    """Note what settings say of a bucket, for all that this process reads and writes there."""
    _DECLARED[bucket] = dict(values)


def access_of(bucket: str) -> Access:
    """How a bucket is reached now: what settings do not say, the environment does."""
    access, values = Access.of_environment(), _DECLARED.get(bucket)
    if not values:
        return access
    token = None if "key" in values else access.token
    return access._replace(token=token, of_settings="key" in values, **values)
