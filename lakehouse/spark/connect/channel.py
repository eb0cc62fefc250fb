"""The connection to an engine on loopback, with its token."""

from pathlib import Path

import grpc
from pyspark.sql.connect.client import ChannelBuilder

from lakehouse.local.ports import accepts_connection
from lakehouse.settings.broker_address import LOOPBACK
from lakehouse.spark.engine import Address, read_address, read_token

_USER = "lakehouse"  # the same for all clients: the session id alone identifies a session


class EngineChannel(ChannelBuilder):
    """The connection of a client to an engine. It uses 127.0.0.1, so that no other program receives the token.

    PySpark itself sends a token without TLS only to ``localhost``, which may resolve to another address.
    """

    def __init__(self, address: Address, token: str, session: str | None = None) -> None:
        params = {self.PARAM_USER_ID: _USER} | ({self.PARAM_SESSION_ID: session} if session else {})
        super().__init__(params=params)
        self._port = address.port
        self._credentials = grpc.composite_channel_credentials(
            grpc.local_channel_credentials(), grpc.access_token_call_credentials(token)
        )

    @property
    def host(self) -> str:
        """The address that PySpark shows."""
        return LOOPBACK

    def toChannel(self) -> grpc.Channel:  # noqa: N802 - PySpark's name
        """Open the connection."""
        return self._secure_channel(f"{LOOPBACK}:{self._port}", self._credentials)


def open_channel(folder: Path, session: str | None = None) -> EngineChannel | None:
    """Return the connection to the engine of this folder; ``None`` if nothing listens there (yet).

    Raises ``SetupError`` if another user owns the engine.
    """
    address = read_address(folder)
    if address is None or not accepts_connection(LOOPBACK, address.port):
        return None
    return EngineChannel(address, read_token(folder), session)
