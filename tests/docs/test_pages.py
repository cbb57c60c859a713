"""Commands in every page: spelt as the program knows them, and typed where the page can be followed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from walking import ROOT, follow, lines_of, misspelt

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
FOLLOWED = ["docs/operations.md", "docs/engines.md", "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_exists(page: Path) -> None:
    assert [wrong for line in lines_of(page) if (wrong := misspelt(line)) is not None] == []


def test_what_does_not_exist_is_found() -> None:
    from walking import Line

    assert misspelt(Line("ddqueue hold rtx6000 --until now", "")) is not None
    assert misspelt(Line("ddqueue restor x", "")) is not None
    assert misspelt(Line("ddqueue db backup ddqueue.dump", "")) is None


@pytest.mark.parametrize("page", FOLLOWED)
def test_the_page_can_be_followed(page: str, environment: dict[str, str], tmp_path: Path) -> None:
    assert lines_of(ROOT / page)
    follow(ROOT / page, environment, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    named = set(
        re.findall(r"`((?:docs|tests|deploy|benchmarks|ddqueue|migrations|scripts)/[\w./-]+\w)`", page.read_text())
    )
    assert [name for name in sorted(named) if not list(ROOT.glob(f"{name}*"))] == []
