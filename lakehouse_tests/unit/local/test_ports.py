"""The ports of the embedded broker."""

from pathlib import Path

import pytest

from lakehouse.local import embedded
from lakehouse.settings.addresses import remembered_ports


def test_a_broker_and_its_controller_get_different_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lowest = next(port for port in range(20_000, 32_000) if embedded.is_free(port) and embedded.is_free(port + 1))
    monkeypatch.setattr(embedded, "_LOWEST", lowest)
    monkeypatch.setattr(embedded, "_HIGHEST", lowest + 2)
    for _ in range(20):
        new_ports = embedded.draw_ports(tmp_path)
        assert {new_ports.broker, new_ports.controller} == {lowest, lowest + 1}
        assert remembered_ports(tmp_path) == new_ports
