"""The ports of a broker of ours."""

from pathlib import Path

import pytest

from lakehouse.local import ports
from lakehouse.settings.broker_address import remembered_ports


def test_a_broker_and_its_controller_never_get_the_same_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lowest = next(port for port in range(20_000, 32_000) if ports.is_free(port) and ports.is_free(port + 1))
    monkeypatch.setattr(ports, "_LOWEST", lowest)
    monkeypatch.setattr(ports, "_HIGHEST", lowest + 2)
    for _ in range(20):
        drawn = ports.draw_ports(tmp_path)
        assert {drawn.broker, drawn.controller} == {lowest, lowest + 1}
        assert remembered_ports(tmp_path) == drawn
