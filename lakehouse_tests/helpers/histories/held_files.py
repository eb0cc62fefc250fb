"""Files that cannot be read: root obeys permissions for a while, and a file grows forever."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from lakehouse_tests.helpers.waiting import wait_until

_VERSION_3 = 0x20080522  # of the structure of capabilities
_IGNORE_PERMISSIONS = 0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def permissions_obeyed() -> Iterator[None]:
    """Let this thread read only what its permissions allow, even if it belongs to root; its files stay its own."""
    header, capabilities = (ctypes.c_uint32 * 2)(_VERSION_3, 0), (ctypes.c_uint32 * 6)()
    assert _LIBC.capget(header, capabilities) == 0, os.strerror(ctypes.get_errno())
    former, capabilities[0] = capabilities[0], capabilities[0] & ~_IGNORE_PERMISSIONS
    assert _LIBC.capset(header, capabilities) == 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        capabilities[0] = former
        assert _LIBC.capset(header, capabilities) == 0, os.strerror(ctypes.get_errno())


@contextmanager
def growing(file: Path) -> Iterator[None]:
    """Append to a file again and again during the block, and before it."""
    stop, size = Event(), file.stat().st_size

    def append() -> None:
        while True:
            with file.open("a") as lines:
                lines.write("{}\n")
            if stop.wait(0.05):
                return

    thread = Thread(target=append)
    thread.start()
    try:
        assert wait_until(lambda: file.stat().st_size > size)
        yield
    finally:
        stop.set()
        thread.join()
