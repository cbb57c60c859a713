"""What was asked against what the server says it runs. SGLang changes some settings with no more than a warning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ddqueue.domain.configuration import Scalar
from ddqueue.ports import ConfigurationCheck

_NOT_SERVER_SETTINGS = frozenset({"internal_states"})


def compare(requested: Mapping[str, Scalar], info: Mapping[str, Any]) -> ConfigurationCheck:
    """Compare the settings on the command line with `GET /server_info`.

    A setting the server does not report cannot be confirmed and is no difference; the requested values keep it.
    """
    effective = {name: value for name, value in info.items() if name not in _NOT_SERVER_SETTINGS and _is_plain(value)}
    difference = {
        name: [asked, effective[name]]
        for name, asked in requested.items()
        if name in effective and not _same(asked, effective[name])
    }
    return ConfigurationCheck(dict(requested), effective, difference)


def _same(asked: Scalar, effective: Any) -> bool:
    if isinstance(asked, bool) or isinstance(effective, bool) or effective is None:
        return str(asked) == str(effective)
    try:
        return float(asked or 0) == float(effective)
    except (TypeError, ValueError):
        return str(asked) == str(effective)


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))
