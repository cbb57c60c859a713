"""One installation a test, on the session's servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from installation import Installation


@pytest.fixture
def installation(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Installation]:
    made = Installation(tmp_path / "home", database_url, redis_url)
    yield made
    made.stop()
