"""The simulated PCIe box gives the numbers of the sweep done by hand."""

from __future__ import annotations

import dataclasses

import pytest

from ddqueue.sim import calibration
from ddqueue.sim.cost import BOXES, PCIE


def test_every_number_of_the_sweep_comes_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert calibration.main([]) == 0
    printed = capsys.readouterr().out
    assert "30 of 30 within tolerance" in printed
    assert "assumptions, not measured" in printed


def test_a_wrong_constant_is_noticed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(calibration, "TARGETS", calibration.TARGETS[:1])
    monkeypatch.setattr(calibration, "PCIE", dataclasses.replace(PCIE, token_ms=PCIE.token_ms * 2))
    assert calibration.main([]) == 1
    assert "out of tolerance" in capsys.readouterr().out


def test_the_constants_say_what_they_rest_on() -> None:
    assert "without speculation was not measured" in BOXES["pcie"].provenance
    assert BOXES["nvlink"].provenance.startswith("Assumed, not measured")
