"""Reading the GPUs again and again in a thread beside the measurement, which waits for another process meanwhile."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from ddqueue.domain.failures import AttemptFailure
from ddqueue.domain.telemetry import GpuSample
from ddqueue.ports import Recording

log = logging.getLogger(__name__)

INTERVAL_S = 0.1
"""Drivers renew their power reading about ten times a second, so that more often would tell nothing new."""

_FIRST_READING_S = 5.0
"""A driver without persistence mode takes a second or two to wake up a box; the measurement waits no longer."""

_LAST_READING_S = 2.0


class TelemetryReader(Protocol):
    """Reads a host's GPUs once."""

    def read(self) -> Sequence[GpuSample]:
        """One sample of each GPU that answers, in PCI order. Raises AttemptFailure when none can be read."""
        ...


class GpuTelemetry:
    """Watches GPUs through a reader; implements the port Telemetry. Nothing runs while nobody watches.

    One pass over eight GPUs is some sixty calls into the driver, each taken to last up to a millisecond, nearly all of
    it without Python's lock. A pass that takes longer than half the interval is followed by a pause as long as itself,
    so that never more than half a core is spent.
    """

    def __init__(self, reader: TelemetryReader, interval_s: float = INTERVAL_S) -> None:
        self._reader = reader
        self._interval_s = interval_s

    @contextmanager
    def watch(self) -> Iterator[Recording]:
        """See Telemetry. Never raises: trouble with reading is logged once, and leaves a gap in the samples."""
        sampling = _Sampling(self._reader, self._interval_s)
        try:
            sampling.begin()
            yield sampling
        finally:
            sampling.end()


class _Sampling:
    """One thread and what it has read."""

    def __init__(self, reader: TelemetryReader, interval_s: float) -> None:
        self._reader = reader
        self._interval_s = interval_s
        self._samples: list[GpuSample] = []
        self._has_failed = False
        self._has_begun = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu telemetry", daemon=True)

    def samples(self) -> Sequence[GpuSample]:
        return tuple(self._samples)

    def begin(self) -> None:
        """Returns after the first reading, whether it failed or not."""
        try:
            self._thread.start()
        except RuntimeError:
            log.exception("no thread for the GPUs' telemetry: nothing is read in this window")
            return
        if not self._has_begun.wait(_FIRST_READING_S):
            log.warning("the GPUs' telemetry has no first reading within %g s; the window begins", _FIRST_READING_S)

    def end(self) -> None:
        """Returns after the last reading, or without it when the driver does not answer."""
        self._over.set()
        if self._thread.ident is None:
            return
        self._thread.join(_LAST_READING_S)
        if self._thread.is_alive():
            log.warning("the GPUs' telemetry has no last reading within %g s", _LAST_READING_S)

    def _run(self) -> None:
        try:
            is_last = False
            while not is_last:
                is_last = self._over.is_set()  # asked before the reading, so that the last one lies after the end
                began_s = time.monotonic()
                self._take()
                self._has_begun.set()
                took_s = time.monotonic() - began_s
                if not is_last:
                    self._over.wait(max(self._interval_s - took_s, took_s))
        except Exception:
            log.exception("the GPUs' telemetry has ended early: the rest of the window is not covered")
        finally:
            self._has_begun.set()

    def _take(self) -> None:
        try:
            self._samples.extend(self._reader.read())
        except AttemptFailure as failure:
            if not self._has_failed:
                self._has_failed = True
                log.warning("a gap in the GPUs' telemetry, and perhaps more: %s", failure.evidence)
