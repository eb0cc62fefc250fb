"""Find the listening sockets of processes in ``/proc``."""

import socket
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path

_LISTEN_STATE = "0A"


def listening(processes: Iterable[int]) -> dict[tuple[str, int], int]:
    """Return every TCP address and port on which one of these processes listens, with the process id."""
    owners = {inode: process for process in processes for inode in _socket_inodes(process)}
    sockets = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN_STATE and fields[9] in owners:
                sockets[_decode_address(fields[1])] = owners[fields[9]]
    return sockets


def exposed_ports(processes: Iterable[int]) -> dict[tuple[str, int], int]:
    """Return the sockets that other machines can reach."""
    return {address: process for address, process in listening(processes).items() if not _is_loopback(address[0])}


def _socket_inodes(process: int) -> set[str]:
    """Return the inodes of the sockets of a process, or none if the process has ended."""
    links = set()
    with suppress(OSError):
        for link in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):  # closed in the meantime
                links.add(str(link.readlink()))
    return {link[8:-1] for link in links if link.startswith("socket:[")}


def _decode_address(text: str) -> tuple[str, int]:
    """Decode an address of the kernel: words of four bytes, each in the byte order of the machine."""
    address, port = text.split(":")
    words = [bytes.fromhex(address[start : start + 8])[::-1] for start in range(0, len(address), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    return socket.inet_ntop(family, b"".join(words)), int(port, 16)


def _is_loopback(address: str) -> bool:
    ip = ip_address(address)
    ipv4 = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return (ipv4 or ip).is_loopback


def free_address() -> str:
    """Return an address on loopback without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"
