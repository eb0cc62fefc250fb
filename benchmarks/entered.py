"""Which files of ``lakehouse`` one batch of a plain topic enters: the files that a reader of a batch has to open.

A file is entered if the body of one of its functions, methods, lambdas or comprehensions runs. What runs while a module
is imported does not count: neither its statements, nor bodies of classes, nor functions that they call. What a
decorator generates, such as the methods of a data class, has no file.

The batch is ``merge_all`` on a topic of JSON: a table with a key exists and has rows, the topic has new records that
insert and update rows. The table has no base, rollup or reference. The command around it, its session and the refreshes
after it do not count. The driver is a new process, so that its caches are empty. Its main thread counts, with the
threads that start during the batch. So does all that the workers of Spark run for the batch.
"""

import inspect
import multiprocessing
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType

import lakehouse

RECORDS = 2_000
_PACKAGE = f"{Path(lakehouse.__file__).parent}{os.sep}"
_HOOK = "from pathlib import Path\nfrom benchmarks.entered import record_calls\nrecord_calls(Path({path!r}))\n"
"""The module ``sitecustomize`` of the workers: Python imports it when it starts."""


def run() -> dict[str, list[str]]:
    """Return the entered files, as paths within the package, of the driver and of the workers."""
    from lakehouse.local.servers import running_broker  # noqa: PLC0415 - workers import this module too
    from lakehouse.settings import Settings  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder, "home"), spark_master="local[2]")
        with running_broker(settings):
            _run_in_new_process(settings.home, None)
            _run_in_new_process(settings.home, Path(folder))
        return {name: sorted({*_lines(Path(folder, name))}) for name in ("driver", "workers")}


def rows(entered: dict[str, list[str]]) -> list[dict[str, object]]:
    """One row for each folder of the package, with its files; the first row counts all."""
    files = sorted({file for part in entered.values() for file in part})
    folders = Counter(str(Path(file).parent) for file in files)
    counts = [{"": "all", "files": len(files), "names": ", ".join(f"{n}: {len(part)}" for n, part in entered.items())}]
    return counts + [
        {"": folder, "files": number, "names": ", ".join(Path(f).stem for f in files if str(Path(f).parent) == folder)}
        for folder, number in sorted(folders.items())
    ]


def _run_in_new_process(home: Path, folder: Path | None) -> None:
    process = multiprocessing.get_context("spawn").Process(target=merge, args=(home, folder))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"The batch failed: its process ended with {process.exitcode}.")


def merge(home: Path, folder: Path | None) -> None:
    """Publish and merge records; with a folder, its files ``driver`` and ``workers`` get the entered files."""
    from benchmarks.world import World  # noqa: PLC0415 - workers import this module too
    from lakehouse.examples.tables.temperatures import temperatures  # noqa: PLC0415
    from lakehouse.kafka import create_topic  # noqa: PLC0415
    from lakehouse.settings import Settings  # noqa: PLC0415
    from lakehouse.spark.sessions import build_session, stop_session  # noqa: PLC0415

    settings = Settings(home=home, spark_master="local[2]")
    table = replace(temperatures, base=None, rollups=[], references=[], samples=None)
    if folder:
        _hook_workers(folder)
    spark = build_session(settings)
    try:
        world = World(settings, spark, table=table)
        create_topic(settings, table)
        world.publish(RECORDS)
        if folder:
            with _recorded(folder / "driver"):
                world.merge()
        else:
            world.merge()
    finally:
        stop_session(spark)


def _hook_workers(folder: Path) -> None:
    (folder / "sitecustomize.py").write_text(_HOOK.format(path=str(folder / "workers")), encoding="utf-8")
    paths = [str(folder), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


@contextmanager
def _recorded(path: Path) -> Iterator[None]:
    record_calls(path)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def record_calls(path: Path) -> None:
    """Append each file of the package whose functions this process enters from now on, once for each function."""
    seen = set[CodeType]()

    def record(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code in seen:
            return
        is_body = code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(_PACKAGE)
        if is_body and _is_importing(frame):
            return
        seen.add(code)
        if is_body:
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{code.co_filename.removeprefix(_PACKAGE)}\n")

    threading.setprofile(record)
    sys.setprofile(record)


def _is_importing(frame: FrameType) -> bool:
    """Whether a module of the package is being imported."""
    caller: FrameType | None = frame
    while caller:
        if caller.f_code.co_name == "<module>" and caller.f_code.co_filename.startswith(_PACKAGE):
            return True
        caller = caller.f_back
    return False


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()
