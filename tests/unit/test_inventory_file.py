"""Inventory files: what each key means, and what each mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ddqueue.domain.inventory import Drafter, Host, Inventory, Model, SettingTemplate
from ddqueue.errors import FileError, FileProblem
from ddqueue.files.examples import NAMES, example
from ddqueue.files.inventory_file import inventory_from_text, read_inventory

HOSTS = "hosts: {rtx6000: {gpus: 8, gpu: RTX PRO 6000}}\n"
MODELS = "models: {m: {path: /m}}\n"
ENGINES = "engines: {e: {command: [x]}}\n"


def problems_of(text: str) -> list[tuple[int, str, str, str]]:
    with pytest.raises(FileError) as caught:
        inventory_from_text(text, "i.yaml")
    return [(problem.line, problem.key, problem.problem, problem.remedy) for problem in caught.value.problems]


def test_the_shipped_inventory() -> None:
    inventory = inventory_from_text(example("inventory.yaml"), "inventory.yaml")
    assert inventory.hosts == {
        "rtx6000": Host("rtx6000", 8, "RTX PRO 6000 Blackwell", "pcie", "root@rtx6000.example"),
        "b300": Host("b300", 8, "B300", "nvlink", "root@b300.example"),
    }
    assert inventory.models == {
        "kimi-k2.6": Model(
            name="kimi-k2.6",
            paths={"rtx6000": "/models/kimi-k2.6", "*": "/data/models/kimi-k2.6"},
            drafter=Drafter({"rtx6000": "/models/kimi-k2.6-dflash", "*": "/data/models/kimi-k2.6-dflash"}, 8),
            context_length=262144,
        )
    }
    assert set(inventory.engines) == {"sglang-dflash", "sglang-ddtree", "sglang-ddtree-width"}
    assert set(inventory.engine("sglang-dflash").settings) == {"speculation", "block_size", "window"}
    tree = inventory.engine("sglang-ddtree")
    assert tree.commands == {"*": ("/opt/sglang-ddtree/bin/python", "-m", "sglang.launch_server")}
    assert tree.args == {"trust-remote-code": True}
    assert tree.settings == {
        "speculation": SettingTemplate(
            ("--speculative-algorithm", "DDTREE", "--speculative-draft-model-path", "{drafter}")
        ),
        "block_size": SettingTemplate(("--speculative-num-draft-tokens", "{value}")),
        "budget": SettingTemplate(("--speculative-ddtree-budget", "{value}")),
        "topk": SettingTemplate(env={"SGLANG_DDTREE_MAX_TOPK": "{value}"}),
        "window": SettingTemplate(("--speculative-draft-window-size", "{value}")),
    }
    width = inventory.engine("sglang-ddtree-width")
    assert width.settings["block_size"] == SettingTemplate()
    assert width.settings["budget"] == SettingTemplate(("--speculative-num-draft-tokens", "{width}"))


def test_the_shipped_simulated_inventory() -> None:
    inventory = inventory_from_text(example("inventory-sim.yaml"), "inventory-sim.yaml")
    assert {name: host.simulated_box for name, host in inventory.hosts.items()} == {
        "sim-rtx6000": "pcie",
        "sim-b300": "nvlink",
    }
    assert inventory.model("kimi-k2.6").paths == {"*": "/simulated/kimi-k2.6"}
    assert inventory.engine("sim").commands == {"*": ("{python}", "-m", "ddqueue.sim.server")}
    assert inventory.engine("sim").simulated
    real = inventory_from_text(example("inventory.yaml"), "inventory.yaml")
    assert inventory.engine("sim").settings == real.engine("sglang-ddtree").settings


def test_every_example_is_package_data_and_no_other_name_is_one() -> None:
    assert all(example(name).endswith("\n") for name in NAMES)
    with pytest.raises(KeyError):
        example("../inventory_file.py")


def test_commands_and_paths_for_each_host_and_for_every_other() -> None:
    text = (
        "hosts: {a: {gpus: 1, gpu: x, simulated: no}, b: {gpus: 2, gpu: y}}\n"
        "models: {m: {path: {a: /a, '*': /rest}, drafter: none}}\n"
        "engines: {e: {command: {a: [/opt/a, 3], '*': [/opt/b]}, env: {A: 010}, settings: {no_window: {}}}}\n"
    )
    inventory = inventory_from_text(text, "i.yaml")
    assert inventory.models["m"].paths == {"a": "/a", "*": "/rest"}
    assert inventory.models["m"].drafter is None
    assert inventory.engines["e"].commands == {"a": ("/opt/a", "3"), "*": ("/opt/b",)}
    assert inventory.engines["e"].env == {"A": "010"}
    assert inventory.engines["e"].settings == {"no_window": SettingTemplate()}
    assert not inventory.hosts["a"].simulated


@pytest.mark.parametrize(
    ("text", "line", "key", "problem", "remedy"),
    [
        (HOSTS + MODELS, 1, "engines", "engines is missing", "Write `engines:` and its names"),
        (HOSTS + MODELS + "engines: {E: {command: [x]}}", 3, "engines.E", "'E' is not a name", "lower-case"),
        ("hosts: {h: {gpu: x}}\n" + MODELS + ENGINES, 1, "hosts.h.gpus", "gpus is missing", "e.g. 8"),
        ("hosts: {h: {gpus: 8.5, gpu: x}}\n" + MODELS + ENGINES, 1, "hosts.h.gpus", "8.5 is not a whole", "1 to 64"),
        ("hosts: {h: {gpus: 8, gpu: 6000}}\n" + MODELS + ENGINES, 1, "hosts.h.gpu", "6000 is not text", "driver"),
        ("hosts: {h: {gpus: 8, gpu: x, adress: y}}\n" + MODELS + ENGINES, 1, "hosts.h.adress", "unknown", "address?"),
        (
            "hosts: {h: {gpus: 8, gpu: x, simulated: true}}\n" + MODELS + ENGINES,
            *(1, "hosts.h.simulated", "true is no plain value", "Write one value"),
        ),
        (
            "hosts: {h: {gpus: 8, gpu: x, simulated: infiniband}}\n" + MODELS + ENGINES,
            *(1, "hosts.h.simulated", "no simulated box infiniband", "pcie or nvlink"),
        ),
        (
            HOSTS + "models: {m: {path: {rtx600: /m}}}\n" + ENGINES,
            *(2, "models.m.path.rtx600", "no host 'rtx600'", "Did you mean rtx6000?"),
        ),
        (HOSTS + "models: {m: {path: {}}}\n" + ENGINES, 2, "models.m.path", "names no host", "* for every one"),
        (
            HOSTS + "models: {m: {path: /m, drafter: /d}}\n" + ENGINES,
            *(2, "models.m.drafter", "/d is not a mapping", "{path: ..., block_size: 8}"),
        ),
        (
            HOSTS + "models: {m: {path: /m, drafter: {path: /d, block_size: 1}}}\n" + ENGINES,
            *(2, "models.m.drafter.block_size", "1 is out of range", "from 2"),
        ),
        (
            HOSTS + MODELS + "engines: {e: {command: python -m sglang}}",
            *(3, "engines.e.command", "is not a list", "Write a list of words"),
        ),
        (
            HOSTS + MODELS + "engines:\n  e:\n    command: [x]\n    settings:\n      budget: {flags: [--b, '{valeu}']}",
            *(7, "engines.e.settings.budget.flags[1]", "nothing fills in {valeu}", "{drafter}, {value}, {width}"),
        ),
        (
            HOSTS + MODELS + "engines: {e: {command: ['{drafter}']}}",
            *(3, "engines.e.command[0]", "nothing fills in {drafter}", "{python}"),
        ),
        (
            HOSTS + MODELS + "engines: {e: {command: [x], settings: {topk: {env: {A: '{width}'}}}}}",
            *(3, "engines.e.settings.topk.env.A", "nothing fills in {width}", "{value}"),
        ),
        (
            HOSTS + MODELS + "engines: {e: {command: [x], settings: {topk: {flags: [--topk]}}}}",
            *(3, "engines.e.settings.topk", "never says its value", '"{value}"'),
        ),
        (
            HOSTS + MODELS + "engines: {e: {command: [x], settings: {budget: {}}}}",
            *(3, "engines.e.settings.budget", "says nothing", "leave budget out"),
        ),
        (
            HOSTS + MODELS + "engines: {e: {command: [x], settings: {depth: {flags: [--d]}}}}",
            *(3, "engines.e.settings.depth", "unknown key 'depth'", "block_size, budget"),
        ),
        (
            HOSTS + MODELS + "engines: {e: {command: [x], args: {port: 30000}}}",
            *(3, "engines.e.args.port", "ddqueue sets port itself", "fresh port"),
        ),
        (
            HOSTS + MODELS + "engines: {e: {command: [x], simulated: yes}}",
            *(3, "engines.e.simulated", "yes is neither true nor false", "true or false"),
        ),
    ],
)
def test_a_mistake_is_told_with_line_key_and_remedy(text: str, line: int, key: str, problem: str, remedy: str) -> None:
    matching = [found for found in problems_of(text) if found[:2] == (line, key)]
    assert any(problem in found[2] and remedy in found[3] for found in matching), problems_of(text)


def test_all_mistakes_are_told_at_once() -> None:
    text = "hosts: {h: {gpus: 0}}\nmodels: {}\nengines: {e: {}}\nhost: 1\n"
    assert [(line, key) for line, key, _, _ in problems_of(text)] == [
        (1, "hosts.h.gpu"),
        (1, "hosts.h.gpus"),
        (3, "engines.e.command"),
        (4, "host"),
    ]


def test_a_missing_file_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"there is no such file\n  .*ddqueue init"):
        read_inventory(tmp_path / "inventory.yaml")


def outcome(text: str) -> Inventory | list[FileProblem]:
    """What came out; any error but FileError goes on and fails the test."""
    try:
        return inventory_from_text(text, "fuzz.yaml")
    except FileError as error:
        return error.problems


@given(st.data())
@settings(deadline=None)
def test_a_shipped_inventory_with_one_piece_changed_gives_an_inventory_or_a_file_error(data: st.DataObject) -> None:
    text = example(data.draw(st.sampled_from(["inventory.yaml", "inventory-sim.yaml"])))
    start = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 20))
    piece = data.draw(st.text(max_size=5) | st.sampled_from(["~", "[]", "{}", "{x}", "true", "1e3", ".nan", ": "]))
    result = outcome(text[:start] + piece + text[start + length :])
    assert isinstance(result, Inventory) or all(problem.line >= 1 and problem.remedy for problem in result)
