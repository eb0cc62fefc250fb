"""What every request uses: the settings, the database and the token."""

from dataclasses import dataclass

from fastapi import Request
from pydantic import SecretStr

from lakehouse.serve.database import Database
from lakehouse.settings import Settings


@dataclass(frozen=True)
class Serving:
    """The state of a server."""

    settings: Settings
    database: Database

    @property
    def token(self) -> SecretStr | None:
        """The token that requests need; ``None`` if they need none."""
        return self.settings.serve_token

    @staticmethod
    def of(request: Request) -> "Serving":
        """Return the state of the server of a request."""
        state: Serving = request.app.state.serving
        return state
