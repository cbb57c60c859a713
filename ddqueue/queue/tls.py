"""What a broker's URL says of TLS, in the one form that Celery, Flower and the direct client all take.

Left to itself Kombu takes a plain `rediss://` for one without any proof of who answers, and Flower does not read the
URL's options at all. Here the certificate and the name in it are checked unless the URL itself says otherwise.
"""

from __future__ import annotations

import os
import socket
import ssl
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from ddqueue.errors import NotReachable, UsageError

_FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
_CHECKS = {
    "required": ssl.CERT_REQUIRED,
    "CERT_REQUIRED": ssl.CERT_REQUIRED,
    "none": ssl.CERT_NONE,
    "CERT_NONE": ssl.CERT_NONE,
}
_CHECK_S = 3.0
_FORM = "write redis://:PASSWORD@HOST:PORT/0, or rediss:// for TLS"


def broker_tls(url: str) -> tuple[str, dict[str, Any] | None]:
    """The URL without its options for TLS, and these as redis-py names them; None without TLS.

    Raises:
        UsageError: it is no URL of Redis, or an option is unknown or names a file that cannot be read. The URL is not
            repeated, since it may hold the password.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise UsageError(f"the broker's URL cannot be read; {_FORM}") from None
    if parts.scheme not in ("redis", "rediss"):
        raise UsageError(f"the broker's URL is not one of Redis; {_FORM}")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    asked = {name: value for name, value in options.items() if name.startswith("ssl_")}
    if unknown := [name for name in options if name not in asked]:
        raise UsageError(f"the broker's URL has the option {unknown[0]}, which ddqueue does not take; leave it out")
    if parts.scheme == "redis":
        if asked:
            raise UsageError(f"the broker's URL says {min(asked)}, but without rediss:// nothing is encrypted")
        return url, None
    bare = urlunsplit(parts._replace(query=""))
    return bare, _options(asked)


def _options(asked: dict[str, str]) -> dict[str, Any]:
    checks = asked.pop("ssl_cert_reqs", "required")
    if checks not in _CHECKS:
        raise UsageError("the broker's URL: ssl_cert_reqs is required, as without it, or none, which proves nothing")
    by_name = asked.pop("ssl_check_hostname", "true").lower()
    if by_name not in ("true", "false"):
        raise UsageError("the broker's URL: ssl_check_hostname is true, as without it, or false")
    for name, path in asked.items():
        if name not in _FILES:
            raise UsageError(f"the broker's URL has the option {name}; ddqueue knows {', '.join(_FILES)}")
        if not os.access(path, os.R_OK):
            raise UsageError(f"the broker's URL: {name} names {path}, which cannot be read")
    proven = _CHECKS[checks] is ssl.CERT_REQUIRED
    return {"ssl_cert_reqs": _CHECKS[checks], "ssl_check_hostname": proven and by_name == "true", **asked}


def check_certificate(url: str) -> None:
    """Returns when the broker has proven who it is, has not to, or is away: whoever connects waits for it then.

    Celery would try again for ever with a certificate that no waiting mends.

    Raises:
        NotReachable: its certificate is of an unknown authority or for another name, or it speaks no TLS.
        UsageError: as broker_tls, and when a file holds no certificate.
    """
    bare, options = broker_tls(url)
    if options is None:
        return
    parts = urlsplit(bare)
    host, port = parts.hostname or "127.0.0.1", parts.port or 6379
    context = _context(options)
    try:
        with (
            socket.create_connection((host, port), _CHECK_S) as plain,
            context.wrap_socket(plain, server_hostname=host),
        ):
            return
    except ssl.SSLCertVerificationError as error:
        remedy = "name the authority that signed it: rediss://...?ssl_ca_certs=FILE"
        raise NotReachable(f"the broker at {host}:{port} is not proven: {error.verify_message}; {remedy}") from error
    except ssl.SSLError as error:
        raise NotReachable(f"the broker at {host}:{port} speaks no TLS that we do: {error.reason}") from error
    except OSError:
        return


def _context(options: dict[str, Any]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.get("ssl_ca_certs"))
        context.check_hostname = options["ssl_check_hostname"]
        context.verify_mode = options["ssl_cert_reqs"]
        if "ssl_certfile" in options:
            context.load_cert_chain(options["ssl_certfile"], options.get("ssl_keyfile"))
    except (ssl.SSLError, OSError) as error:
        raise UsageError(f"the broker's URL: a file of its certificates cannot be used: {error.strerror}") from error
    return context
