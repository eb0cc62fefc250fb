"""A run of an export in a process of its own, which may be ordered to die at a chosen moment.

``python -m lakehouse_tests.helpers.attacks.export_worker HOME EXPORTS FORM [FUNCTION WHEN NTH]`` runs the export of a
form once and prints its result as JSON. It kills itself before or after the nth call (from 0) of a function of
``lakehouse.exports``.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from lakehouse.declaration import Day, Export
from lakehouse.errors import LakehouseError
from lakehouse.exports.exporter import Exporter
from lakehouse.settings import Settings

_WHOLE = Export("daily_sales", of="sales", by=Day("sold_at"))
EXPORTS = {
    "whole": _WHOLE,
    "changes": replace(_WHOLE, name="sales_changed", changes=True),
    "changes as lines": replace(_WHOLE, name="sales_lines", changes=True, format="jsonl"),
}
Moment = tuple[str, str, int]
"""A function as ``module.function``, ``before`` or ``after``, and which of its calls."""


def settings_of(home: Path, exports: Path) -> Settings:
    """The settings of a world of exports; files are synced."""
    return Settings(home=home, exports=exports, _env_file=None)


def start(settings: Settings, form: str, moment: Moment | None = None) -> "subprocess.Popen[str]":
    """Start a run in a process of its own."""
    command = [sys.executable, "-m", "lakehouse_tests.helpers.attacks.export_worker", str(settings.home_folder)]
    command += [str(settings.exports), form, *(map(str, moment) if moment else ())]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def inject(moment: Moment) -> None:
    """Let this process die at a moment."""
    name, when, nth = moment
    module_name, _, function = name.rpartition(".")
    module = import_module(f"lakehouse.{module_name if '.' in module_name else f'exports.{module_name}'}")
    original: Callable[..., Any] = getattr(module, function)
    calls = count()

    def call(*arguments: Any, **options: Any) -> Any:
        is_due = next(calls) == nth
        if is_due and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = original(*arguments, **options)
        if is_due:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(module, function, call)


def main() -> None:
    home, exports, form, *moment = sys.argv[1:]
    if moment:
        inject((moment[0], moment[1], int(moment[2])))
    try:
        update = Exporter(settings_of(Path(home), Path(exports)), EXPORTS[form]).update()
        sys.stdout.write(json.dumps(asdict(update)))
    except LakehouseError as error:
        sys.stdout.write(json.dumps({"error": str(error)}))


if __name__ == "__main__":
    main()
