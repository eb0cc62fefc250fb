"""The ports of the embedded broker."""

from pathlib import Path

import pytest

from lakehouse.local import process
from lakehouse.settings.addresses import remembered_ports


def test_a_broker_and_its_controller_get_different_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lowest = next(port for port in range(20_000, 32_000) if process.is_free(port) and process.is_free(port + 1))
    monkeypatch.setattr(process, "_LOWEST", lowest)
    monkeypatch.setattr(process, "_HIGHEST", lowest + 2)
    for _ in range(20):
        new_ports = process.draw_ports(tmp_path)
        assert {new_ports.broker, new_ports.controller} == {lowest, lowest + 1}
        assert remembered_ports(tmp_path) == new_ports
