"""A proxy in front of an object store on loopback, in a separate process, because deltalake blocks Python.

Arguments: the port of the store, and with TLS, the file of a certificate with its key. It prints its own port, then
reads commands from standard input, one JSON object per line, and answers each with a line. It passes requests on
without a change, since signatures cover headers and body.
"""

import asyncio
import json
import re
import ssl
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

Kind = Literal[
    "delay",  # forward the request after some seconds
    "answer",  # answer with a status and an error code of S3, and forward nothing
    "lose answer",  # forward the request, then cut the connection
    "cut",  # cut the connection, and forward nothing
    "hang",  # never answer, and forward nothing
    "hold answer",  # forward the request, and never answer
]
COMMIT = re.compile(r"/_delta_log/\d{20}\.json$")
_LIMIT = 1 << 20  # bytes of a line or of headers


@dataclass(frozen=True)
class Fault:
    """A fault of a store: what happens, to which requests, to every which of them, and how often at most.

    ``method`` is a regular expression for the whole method, ``path`` for a part of the path. A request of several
    faults gets all their delays, then the first of the others.
    """

    kind: Kind
    method: str = ".*"
    path: str = ""
    commits_only: bool = False
    every: int = 1
    times: int | None = None
    seconds: float = 0.0
    status: int = 503
    code: str = "SlowDown"

    def matches(self, method: str, path: str) -> bool:
        is_ours = bool(re.fullmatch(self.method, method) and re.search(self.path, path))
        return is_ours and (not self.commits_only or bool(COMMIT.search(path)))


class _Head(NamedTuple):
    """The first line and the headers of a request or an answer; the names of headers are in lower case."""

    content: bytes
    words: list[str]
    headers: dict[str, str]


async def _read_head(reader: asyncio.StreamReader) -> _Head:
    content = await reader.readuntil(b"\r\n\r\n")
    first_line, *lines = content.decode("latin-1").rstrip().split("\r\n")
    pairs = [line.partition(":") for line in lines]
    return _Head(content, first_line.split(" ", 2), {name.strip().lower(): value.strip() for name, _, value in pairs})


async def _read_body(reader: asyncio.StreamReader, head: _Head) -> bytes:
    """Return the bytes of a body as they are sent, with the frames of its chunks."""
    if head.headers.get("transfer-encoding", "").lower() != "chunked":
        return await reader.readexactly(int(head.headers.get("content-length", 0)))
    parts = []
    while True:
        parts.append(await reader.readuntil(b"\r\n"))
        size = int(parts[-1].split(b";")[0], 16)
        if size == 0:
            break
        parts.append(await reader.readexactly(size + 2))
    while parts[-1] != b"\r\n":  # trailers, then an empty line
        parts.append(await reader.readuntil(b"\r\n"))
    return b"".join(parts)


async def _read_answer(reader: asyncio.StreamReader, method: str) -> tuple[int, bytes]:
    """Return the status and the bytes of the final answer."""
    head = await _read_head(reader)
    while int(head.words[1]) < 200:
        head = await _read_head(reader)
    status = int(head.words[1])
    has_body = method != "HEAD" and status not in (204, 304)
    return status, head.content + (await _read_body(reader, head) if has_body else b"")


def _error(fault: Fault, method: str) -> bytes:
    text = f"<Error><Code>{fault.code}</Code><Message>Injected.</Message><RequestId>1</RequestId></Error>"
    body = f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'.encode()
    head = f"HTTP/1.1 {fault.status} Injected\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + (b"" if method == "HEAD" else body)


@dataclass
class _Server:
    """The proxy itself; the answer to a command is what the method of its name returns."""

    target: int
    faults: list[tuple[Fault, list[int]]] = field(default_factory=list)  # with its requests, and those it applied to
    counted_requests: list[list[Any]] = field(default_factory=list)

    def requests(self) -> list[list[Any]]:
        return self.counted_requests

    def reset(self) -> None:
        self.counted_requests = []

    def add_fault(self, **fault: Any) -> None:
        self.faults.append((Fault(**fault), [0, 0]))

    def clear_faults(self) -> None:
        self.faults = []

    def choose_faults(self, method: str, path: str) -> list[Fault]:
        """Return the faults of a request, delays first."""
        chosen = []
        for fault, counts in self.faults:
            if not fault.matches(method, path):
                continue
            counts[0] += 1
            if counts[0] % fault.every == 0 and (fault.times is None or counts[1] < fault.times):
                counts[1] += 1
                chosen.append(fault)
        return sorted(chosen, key=lambda fault: fault.kind != "delay")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                while await self.answer(reader, writer):
                    pass
        finally:
            writer.transport.abort()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection stays open."""
        head = await _read_head(reader)
        if head.headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        content = head.content + await _read_body(reader, head)
        method, url = head.words[0], urlsplit(head.words[1])
        path = unquote(url.path)
        faults = self.choose_faults(method, path)
        request = [method, path, url.query, 0, "if-none-match" in head.headers, faults[-1].kind if faults else ""]
        self.counted_requests.append(request)
        await asyncio.sleep(sum(fault.seconds for fault in faults if fault.kind == "delay"))
        fault = faults[-1] if faults else Fault("delay")
        if fault.kind == "hang":
            await reader.read()  # until the client gives up
        if fault.kind in ("cut", "hang"):
            return False
        if fault.kind == "answer":
            request[3], answer = fault.status, _error(fault, method)
        else:
            request[3], answer = await self.forward(method, content)
        if fault.kind == "hold answer":
            await reader.read()
        if fault.kind in ("lose answer", "hold answer"):
            return False
        writer.write(answer)
        await writer.drain()
        return head.headers.get("connection", "").lower() != "close"

    async def forward(self, method: str, content: bytes) -> tuple[int, bytes]:
        """Send a request to the store over a new connection; return the status and the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.target, limit=_LIMIT)
        try:
            writer.write(content)
            await writer.drain()
            return await _read_answer(reader, method)
        finally:
            writer.close()


async def main() -> None:
    """Serve until the process that started it closes the pipe of commands."""
    proxy = _Server(int(sys.argv[1]))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH) if sys.argv[2:] else None
    if tls:
        tls.load_cert_chain(sys.argv[2])
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=_LIMIT, backlog=256, ssl=tls)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    commands = asyncio.StreamReader(limit=_LIMIT)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        command = json.loads(line)
        sys.stdout.write(json.dumps(getattr(proxy, command["name"])(**command["arguments"])) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
