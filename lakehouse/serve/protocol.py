"""HTTP of a connection whose head of a request must be complete in time: half a head would hold it forever."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0


class TimedProtocol(H11Protocol):
    """Closes a connection that does not send the whole head of a request within ``HEAD_SECONDS``."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Read what has arrived; a head that is not complete has to be so in time."""
        super().data_received(data)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._cancel_deadline()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(HEAD_SECONDS, self._close)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self, *_: Any) -> None:
        if self.conn.their_state is h11.IDLE:
            self.transport.close()
