"""Several hosts on one machine: boxes with their own kernel namespaces, systemd and sshd on a bridge, a control host
with real servers, and what happens to a sweep while a box is cut off, loses its power, or the control host is away.

`make test-multihost` runs it; docs/decisions/0014-how-several-hosts-are-tested.md says how and how far it goes.
"""
