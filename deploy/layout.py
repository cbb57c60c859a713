"""Where things lie on a box."""

from __future__ import annotations

ROOT = "/opt/ddqueue"
RELEASES = f"{ROOT}/releases"
WHEELS = f"{ROOT}/wheels"
CURRENT = f"{ROOT}/current"
"""A link to the release in use. Whoever starts something follows it once, so that a process stays with its release."""
HISTORY = f"{ROOT}/history"
"""A folder for each deployment that passed its health check: its release's name, and its files."""

CONFIGURATION = "/etc/ddqueue"
ENVIRONMENT = f"{CONFIGURATION}/ddqueue.env"
FLOWER_ENVIRONMENT = f"{CONFIGURATION}/flower.env"
INVENTORY = f"{CONFIGURATION}/inventory.yaml"
UNITS = "/etc/systemd/system"
SUPERVISOR = f"{CONFIGURATION}/supervisord.conf"
LOGS = "/var/log/ddqueue"
"""Only where there is no journal of systemd's."""
LOCK = "/run/ddqueue-deploy.lock"

STATE = "/var/lib/ddqueue"
"""DDQUEUE_HOME of the services."""
