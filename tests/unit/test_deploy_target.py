"""Which machine a name on the command line of `ddqueue deploy` means."""

from __future__ import annotations

import pytest

from ddqueue.domain.inventory import Host, Inventory
from ddqueue.errors import UsageError
from deploy.target import find_target

HOST = Host("rtx6000", 8, "RTX PRO 6000")


def inventory(address: str | None) -> Inventory:
    host = Host(HOST.name, HOST.gpus, HOST.gpu_kind, address=address)
    return Inventory(hosts={host.name: host}, models={}, engines={}, file="inventory.yaml")


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (None, ("rtx6000", None, None)),
        ("10.0.0.7", ("10.0.0.7", None, None)),
        ("root@rtx6000.example", ("rtx6000.example", "root", None)),
        ("root@rtx6000.example:2222", ("rtx6000.example", "root", 2222)),
        ("ops@[fd00::7]:2222", ("fd00::7", "ops", 2222)),
        ("my_alias", ("my_alias", None, None)),
    ],
)
def test_the_inventorys_address(address: str | None, expected: tuple[str, str | None, int | None]) -> None:
    target = find_target("rtx6000", inventory(address))
    assert (target.name, (target.address, target.user, target.port)) == ("rtx6000", expected)
    assert target.host is not None


def test_the_command_lines_user_and_port_count_more() -> None:
    target = find_target("rtx6000", inventory("root@rtx6000.example:2222"), user="ops", port=22)
    assert (target.address, target.user, target.port) == ("rtx6000.example", "ops", 22)


def test_any_other_name_is_an_address_and_no_gpu_host() -> None:
    target = find_target("ops@control:2200", inventory(None))
    assert (target.name, target.address, target.user, target.port) == ("ops@control:2200", "control", "ops", 2200)
    assert target.host is None


@pytest.mark.parametrize("name", ["", "-oProxyCommand=x", "a b", "root@", "host:0", "host:65536", "host:ssh", "a;b"])
def test_what_can_be_no_address(name: str) -> None:
    with pytest.raises(UsageError, match="is no ssh address"):
        find_target(name, inventory(None))
    with pytest.raises(UsageError, match=r"of rtx6000 in inventory\.yaml is no ssh address"):
        find_target("rtx6000", inventory(name or " "))
