"""Who listens where, as Linux tells it."""

import socket
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path

_LISTENS = "0A"


def listening(processes: Iterable[int]) -> dict[tuple[str, int], int]:
    """Address and port of every TCP socket on which one of these processes listens, with its number."""
    owners = {inode: process for process in processes for inode in _sockets(process)}
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and fields[9] in owners:
                found[_decoded(fields[1])] = owners[fields[9]]
    return found


def exposed(processes: Iterable[int]) -> dict[tuple[str, int], int]:
    """Those that others than this machine could reach."""
    return {place: process for place, process in listening(processes).items() if not _is_loopback(place[0])}


def _sockets(process: int) -> set[str]:
    """Numbers of the sockets that a process holds; none where it has ended meanwhile."""
    found = set()
    with suppress(OSError):
        for link in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):  # closed meanwhile
                found.add(str(link.readlink()))
    return {text[8:-1] for text in found if text.startswith("socket:[")}


def _decoded(place: str) -> tuple[str, int]:
    """An address as the kernel writes it: words of four bytes, each in the order of the machine."""
    address, port = place.split(":")
    words = [bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, b"".join(words)), int(port, 16)


def _is_loopback(address: str) -> bool:
    parsed = ip_address(address)
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return (mapped or parsed).is_loopback


def free_address() -> str:
    """An address on loopback at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"
