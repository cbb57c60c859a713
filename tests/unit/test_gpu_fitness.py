"""What a GPU's name says about its kind."""

from __future__ import annotations

import pytest

from ddqueue.gpu.fitness import is_kind


@pytest.mark.parametrize(
    ("name", "kind", "same"),
    [
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000", True),
        ("NVIDIA B300 SXM6 AC", "B300", True),
        ("NVIDIA H200", "nvidia h200", True),
        ("NVIDIA H200 NVL", "H200", True),
        ("NVIDIA H200", "H20", False),
        ("NVIDIA H200", "H200 NVL", False),
        ("NVIDIA RTX PRO 6000 Blackwell", "RTX 6000", False),
        ("NVIDIA A100-SXM4-80GB", "A100", True),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB", True),
        ("NVIDIA B200", "B300", False),
    ],
)
def test_whole_words_together_name_the_kind(name: str, kind: str, same: bool) -> None:
    assert is_kind(name, kind) is same
