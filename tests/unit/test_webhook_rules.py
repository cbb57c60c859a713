"""What a webhook's URL may be, how long it is tried, and what a message says in words."""

from __future__ import annotations

import pytest

from ddqueue.domain.webhooks import MOST_TRIES, WebhookMessage, check_url, retry_delay_s, words
from ddqueue.errors import UsageError

ENDED = {
    "kind": "sweep_ended",
    "sweep": "night@2",
    "simulated": False,
    "jobs": {"total": 10, "succeeded": 7, "failed": 2, "unsupported": 1, "cancelled": 0, "pruned": 0},
}
SHUT = {
    "kind": "host_quarantined",
    "sweep": "night@2",
    "simulated": True,
    "host": "b300",
    "failure": "GPU_LOST",
    "reason": "GPU 3 does not answer",
    "jobs_waiting": 4,
}


@pytest.mark.parametrize(
    "url", ["https://example.org/hook/3f9a", "http://127.0.0.1:8080", "http://[::1]:80/x?y=1", "https://a.b/%20"]
)
def test_urls_that_messages_can_be_sent_to(url: str) -> None:
    assert check_url(url) == url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://example.org/x", "https or http, not ftp"),
        ("file:///etc/passwd", "https or http, not file"),
        ("example.org/hook", "a URL without a scheme"),
        ("https:///hook", "names no host"),
        ("https://example.org:port/x", "cannot be read"),
        ("https://example.org:99999/x", "cannot be read"),
        ("https://[::1/x", "cannot be read"),
        ("https://me:secret@example.org/x", "put the receiver's secret into its path"),
        ("https://example.org/a b", "a character that no URL has"),
        ("https://example.org/x\r\nHost: other", "a character that no URL has"),
        ("https://exämple.org/x", "a character that no URL has"),
        ("", "a URL without a scheme"),
    ],
)
def test_urls_that_they_cannot(url: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        check_url(url)
    assert "secret@" not in str(refused.value)


def test_tries_are_bounded_and_further_and_further_apart() -> None:
    delays = [retry_delay_s(tries) for tries in range(1, MOST_TRIES + 1)]
    assert delays[:4] == [1.0, 2.0, 4.0, 8.0]
    assert delays[-1] is None
    known = [delay for delay in delays if delay is not None]
    assert len(known) == MOST_TRIES - 1
    assert known == sorted(known)
    assert 6.0 < sum(known) / 3600 < 8.0


def test_messages_in_words() -> None:
    assert words(ENDED) == "night@2 has ended: 7 of 10 jobs succeeded, 2 failed, 1 unsupported"
    said = "night@2 (simulated): b300 is quarantined, 4 jobs wait for it. GPU_LOST: GPU 3 does not answer"
    assert words(SHUT) == said


def test_a_message_carries_its_id_and_a_log_does_not_carry_the_secret() -> None:
    message = WebhookMessage(12, "https://chat.example.org:8443/hooks/T0PS3CRET?key=1", ENDED, 1)
    assert message.body == {"id": 12, "version": 1, "text": words(ENDED), **ENDED}
    assert message.place == "https://chat.example.org:8443"
