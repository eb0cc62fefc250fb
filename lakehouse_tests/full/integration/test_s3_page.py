"""The page about tables in S3: its commands, typed in a new project, with keys that have the rights of its policy."""

import os
import re
import stat
import sys
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from lakehouse_tests.helpers.pages import HOW_TO, Step, read_steps
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.seaweed import LIMITED_KEY, LIMITED_SECRET, SeaweedStore, running_store
from lakehouse_tests.helpers.typed_pages import TypedPage, user_environment

PAGE = HOW_TO / "s3.md"
STEPS = read_steps(PAGE)
(POLICY,) = [step.text for step in STEPS if step.language == "json"]
PLACE, MOVED = "s3://bucket/lake", "s3://bucket/lake/moved"
ROWS = Step("sh", "lakehouse query 'SELECT celsius FROM readings ORDER BY celsius'", ("...11.00 14.50 16.00 3 rows",))
# what the page needs of the command of AWS: objects that the other place does not have, except those of some names
AWS = f"""#!{sys.executable}
import sys
from fnmatch import fnmatch
from pyarrow.fs import FileSelector, FileSystem, FileType, LocalFileSystem, S3FileSystem
from lakehouse.settings.store_access import S3Access

access = S3Access.of_environment()
address = access.endpoint.removeprefix("http://")
keys = dict(access_key=access.access_key, secret_key=access.secret_key, region=access.region)
_, command, verb, source, target, *options = sys.argv
assert (command, verb) == ("s3", "sync") and {{*options[::2]}} == {{"--exclude"}}
def place(name):
    if name.startswith("s3://"):
        return S3FileSystem(**keys, endpoint_override=address, scheme="http"), name.removeprefix("s3://")
    return LocalFileSystem(), name
def files_in(files, folder):
    selector = FileSelector(folder, recursive=True, allow_not_found=True)
    return {{file.path.removeprefix(f"{{folder}}/"): file for file in files.get_file_info(selector) if file.is_file}}
(source_files, source_folder), (target_files, target_folder) = place(source), place(target)
existing = files_in(target_files, target_folder)
for name, file in sorted(files_in(source_files, source_folder).items()):
    if name in existing or any(fnmatch(name, pattern) for pattern in options[1::2]):
        continue
    path = f"{{target_folder}}/{{name}}"
    if target_folder == target:
        target_files.create_dir(path.rpartition("/")[0])
    with source_files.open_input_stream(file.path) as data, target_files.open_output_stream(path) as output:
        output.write(data.read())
    print(name)
"""


@pytest.fixture
def seaweed() -> Iterator[SeaweedStore]:
    with running_store(POLICY) as store:
        yield store


@pytest.fixture
def page(seaweed: SeaweedStore, tmp_path: Path) -> Iterator[TypedPage]:
    """A folder and an environment in which the command of AWS has all rights, and lakehouse those of ``.env``."""
    command = tmp_path / "bin" / "aws"
    command.parent.mkdir()
    command.write_text(AWS)
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    folders = f"{command.parent}{os.pathsep}{Path(sys.executable).parent}"
    page = TypedPage(tmp_path, user_environment(Path(folders), PYTHONPATH=str(ROOT)))
    yield page
    page.stop()


def with_store(step: Step, port: int) -> Step:
    """A step with the address and the keys of the store of the test."""
    text = re.sub(r"(_ENDPOINT=).+", rf"\g<1>http://127.0.0.1:{port}", step.text)
    text = re.sub(r"(_ACCESS_KEY=).+", rf"\g<1>{LIMITED_KEY}", text)
    return step._replace(text=re.sub(r"(_SECRET_KEY=).+", rf"\g<1>{LIMITED_SECRET}", text))


def change_place(folder: Path, place: str) -> None:
    """Set the place of the tables in the file of settings; on a disk, without the settings of the store."""
    file = folder / ".env"
    is_disk = not place.startswith("s3://")
    lines = [
        line.lstrip("#") if line.startswith("#LAKEHOUSE_STORE") else line for line in file.read_text().splitlines()
    ]
    lines = [f"#{line}" if is_disk and line.startswith("LAKEHOUSE_STORE") else line for line in lines]
    lines = [line for line in lines if not line.startswith("LAKEHOUSE_TABLES=")]
    file.write_text("\n".join([*lines, f"LAKEHOUSE_TABLES={place}", ""]))


@pytest.mark.timeout(900)
def test_the_steps_of_the_page_lead_to_tables_in_a_store_that_move_there_and_back(
    page: TypedPage, seaweed: SeaweedStore
) -> None:
    install, *steps = takewhile(lambda step: step.language == "sh", STEPS)
    assert install.text.startswith("pip install ")
    assert page.follow(with_store(step, seaweed.port) for step in steps) == []
    page.stop()
    assert {"readings", "readings_by_sensor", "readings_changes"} <= {*seaweed.names("lake")}
    there, back, audit = [step for step in STEPS[len(steps) + 1 :] if step.language == "sh"]
    there = there._replace(text=there.text.replace(PLACE, MOVED))
    for copying, place in ((back, ".lakehouse/tables"), (there, MOVED)):
        page.follow([copying])
        change_place(page.folder, place)
        assert page.follow([audit, ROWS]) == []
