"""The built site names everything that a user can name, shows only commands that exist, and asks no other host."""

import re
from datetime import date, timedelta
from functools import cache
from html import unescape
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from typer.main import get_command

import lakehouse
from lakehouse import Promise, errors
from lakehouse.cli.main import app
from lakehouse.decoding.formats import KNOWN_REASONS
from lakehouse.defs.build import build_defs
from lakehouse.defs.specs import CHECKS_PAGE
from lakehouse.examples.tables.temperatures import temperatures
from lakehouse.ledger.commits import Commit
from lakehouse.settings import Settings
from lakehouse_tests.helpers.places import ROOT
from lakehouse_tests.helpers.tables.tables import redeclare

COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]
ERRORS = sorted(
    name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, errors.LakehouseError)
)
PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_MKDOCS_2_WARNING", "true")
        patch.chdir(ROOT)
        build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder)))
    return folder


@cache
def codes(page: Path) -> frozenset[str]:
    """The texts that a page shows as code, and its headings."""
    pattern = r"<(code|h[1-6])\b[^>]*>(.*?)</\1>"
    matches = re.findall(pattern, page.read_text(encoding="utf-8"), re.DOTALL)
    return frozenset(unescape(re.sub(r"<[^>]+>", "", text)).removesuffix("¶").strip() for _, text in matches)


def test_every_public_name_is_on_the_page_of_python(site: Path) -> None:
    assert set(lakehouse.__all__) - codes(site / "reference" / "python.html") == set()


def test_every_command_is_on_the_page_of_commands(site: Path) -> None:
    headings = codes(site / "reference" / "cli.html")
    assert [name for name in COMMANDS if f"lakehouse {name}" not in headings] == []


def test_the_page_of_settings_has_every_setting_and_no_other(site: Path) -> None:
    page = {text for text in codes(site / "reference" / "settings.html") if re.fullmatch(r"LAKEHOUSE_[A-Z_]+", text)}
    assert page - {"LAKEHOUSE_"} == {f"LAKEHOUSE_{name.upper()}" for name in Settings.model_fields}


def test_the_page_of_rejections_has_every_reason(site: Path) -> None:
    assert set(KNOWN_REASONS) - codes(site / "reference" / "rejections.html") == set()


def test_the_page_of_errors_has_every_error(site: Path) -> None:
    assert set(ERRORS) - codes(site / "reference" / "errors.html") == set()


def test_the_page_of_commits_has_every_field(site: Path) -> None:
    assert set(Commit.model_fields) - codes(site / "reference" / "commits.html") == set()


def test_each_check_has_a_link_to_its_section(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_DOCS_URL", "https://docs.example.com/lakehouse/")
    monkeypatch.setenv("LAKEHOUSE_CATALOG", "glue://eu-central-1/lake")
    table = redeclare(
        temperatures, promise=Promise(fresh=timedelta(minutes=5), max_lag=100), replay_from=date(2026, 1, 1)
    )
    assets = build_defs([table]).resolve_asset_graph()
    specs = [assets.get_check_spec(key) for key in assets.asset_check_keys]
    sections = set(re.findall(r'\bid="([^"]+)"', (site / CHECKS_PAGE).read_text(encoding="utf-8")))
    link = re.compile(
        rf"\[What to do if it fails\]\(https://docs\.example\.com/lakehouse/{re.escape(CHECKS_PAGE)}#(.+)\)$"
    )
    linked = {spec.name: link.search(spec.description or "") for spec in specs}
    assert len(linked) > len(table.checks) + 10
    assert {name for name, match in linked.items() if match is None or match[1] not in sections} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_only_commands_that_exist(page: Path) -> None:
    shown_commands = re.findall(r"^\s*(?:\$ )?lakehouse ([a-z][a-z-]*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(shown_commands) <= set(COMMANDS)


def test_no_page_asks_another_host_for_a_font_a_script_or_a_picture(site: Path) -> None:
    loaded_assets = (
        r"""<(?:script|img|iframe)\b[^>]*\bsrc="(https?:)?//|<link\b[^>]*\brel="(?:stylesheet|preconnect)"[^>]*//"""
    )
    pages = list(site.rglob("*.html"))
    assert pages
    assert [page.name for page in pages if re.search(loaded_assets, page.read_text(encoding="utf-8"))] == []
