"""Turns settings into cells, checked against the model's drafter and the engine's templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ddqueue.domain.configuration import Cell, Scalar, Speculation
from ddqueue.domain.inventory import EngineProfile, Model, SettingTemplate
from ddqueue.domain.sweep import OutOfDistribution, SweepCell
from ddqueue.files.sweep_axes import ARGUMENT, VARIABLE, Setting, Settings
from ddqueue.files.typed import Field
from ddqueue.files.values import OWNED_ARGUMENTS, OWNED_VARIABLES, Owned, check_argument_owner, check_variable

_SPECULATIVE = "speculative-"
_TREE = ("block_size", "budget", "topk", "window")


def owned_when_speculating(profile: EngineProfile) -> Owned:
    """What ddqueue and the profile's templates set for a cell that speculates, each with the key to use instead."""
    arguments, variables = dict(OWNED_ARGUMENTS), dict(OWNED_VARIABLES)
    for setting, template in profile.settings.items():
        remedy = f"Leave it out: engine {profile.name} sets it for every cell that speculates."
        if setting in _TREE:
            remedy = f"Use `{setting}`: engine {profile.name} turns it into this."
        for word in template.flags:
            if word.startswith("--"):
                arguments[word.lstrip("-").split("=")[0]] = remedy
        variables.update(dict.fromkeys(template.env, remedy))
    return Owned(arguments, variables)


@dataclass(frozen=True)
class CellMaker:
    """Makes the cells of one sweep: what they share, and what they are checked against."""

    model: Model
    profile: EngineProfile
    args: Mapping[str, Scalar]
    env: Mapping[str, str]
    out_of_distribution: OutOfDistribution

    @property
    def trained_block_size(self) -> int | None:
        return self.model.drafter.block_size if self.model.drafter else None

    def baseline(self) -> Cell:
        """The cell without speculation."""
        return self._cell(None, _without_speculative(self.args), self.env)

    def cell(self, settings: Settings) -> Cell | None:
        """The cell that `settings` ask for, or None after noting why there is none."""
        tree = {axis: settings[axis] for axis in _TREE if axis in settings and settings[axis].value is not None}
        args, env = dict(self.args), dict(self.env)
        if "speculation" in settings:
            args = _without_speculative(args)
        for axis, setting in settings.items():
            if axis.startswith(ARGUMENT):
                args[axis.removeprefix(ARGUMENT)] = setting.value
            elif axis.startswith(VARIABLE):
                env[axis.removeprefix(VARIABLE)] = str(setting.value)
        if "speculation" in settings:
            sound = self._is_plain(settings, tree)
            return self._cell(None, args, env) if sound else None
        if not tree:
            return self._cell(None, args, env)
        speculation = self._speculation(settings, tree)
        return None if speculation is None else self._cell(speculation, args, env)

    def named(self, cells: Iterable[Cell]) -> list[SweepCell]:
        """The distinct ones among `cells`, in order, with their names in tables."""
        common = self._cell(None, self.args, self.env)
        distinct: dict[str, Cell] = {}
        for cell in cells:
            distinct.setdefault(cell.hash, cell)
        return [
            SweepCell(
                cell=cell,
                label=cell.label(self.trained_block_size, common),
                out_of_distribution=cell.speculation is not None and self._is_untrained(cell.speculation.block_size),
            )
            for cell in distinct.values()
        ]

    def _cell(self, speculation: Speculation | None, args: Mapping[str, Scalar], env: Mapping[str, str]) -> Cell:
        # An argument left out is the same server as one never given, unless the profile would add it.
        kept = {
            name: value if _is_said(value) else False
            for name, value in args.items()
            if _is_said(value) or name in self.profile.args
        }
        return Cell(self.model.name, self.profile.name, speculation, kept, dict(env))

    def _is_plain(self, settings: Settings, tree: Settings) -> bool:
        """Whether a cell that says `speculation: none` says nothing against it."""
        against = [
            *tree.items(),
            *((axis, s) for axis, s in settings.items() if axis.startswith(ARGUMENT + _SPECULATIVE)),
        ]
        for axis, setting in against:
            place = _place(setting)
            place.refuse(f"{axis} stands beside `speculation: none`", "Take one of the two out.")
        return not against

    def _speculation(self, settings: Settings, tree: Settings) -> Speculation | None:
        sound = [self._has_block_size(tree), self._fits_window(tree), self._is_supported(tree), self._is_trained(tree)]
        sound += [self._is_ours(axis, setting) for axis, setting in settings.items()]
        if not all(sound):
            return None
        return Speculation(**{axis: _number(setting) for axis, setting in tree.items()})

    def _has_block_size(self, tree: Settings) -> bool:
        if "block_size" in tree:
            return True
        trained = self.trained_block_size
        hint = f"block_size: {trained}" if trained else "a block_size"
        for axis, setting in tree.items():
            _place(setting).refuse(f"{axis} without a block size", f"Add {hint} to the cell or the grid.")
        return False

    def _fits_window(self, tree: Settings) -> bool:
        if "window" not in tree or "block_size" not in tree:
            return True
        window, block_size = _number(tree["window"]), _number(tree["block_size"])
        if window < block_size:
            remedy = f"Write at least {block_size}, or window: none for the full context."
            _place(tree["window"]).refuse(f"a window of {window} is smaller than the block of {block_size}", remedy)
        return window >= block_size

    def _is_supported(self, tree: Settings) -> bool:
        name, templates = self.profile.name, self.profile.settings
        place = _place(next(iter(tree.values())))
        if "speculation" not in templates:
            place.refuse(f"engine {name} has no template for speculation", "Use another engine, or give it one.")
            return False
        missing = [axis for axis in tree if axis not in templates]
        for axis in missing:
            remedy = f"Take {axis} out, or use an engine that has it: engine {name} has {_listed(templates)}."
            _place(tree[axis]).refuse(f"engine {name} has no template for {axis}", remedy)
        if self.model.drafter is None:
            place.refuse(f"model {self.model.name} has no drafter", "Add its drafter to the inventory.")
            return False
        if "budget" not in tree and any("{width}" in word for word in _words(templates.get("budget"))):
            place.refuse(f"engine {name} always grows a tree, and here no budget says how large", "Add a budget.")
            return False
        return not missing

    def _is_trained(self, tree: Settings) -> bool:
        """Whether the block size may be asked: the trained one, or another that the sweep allows and the build can."""
        if "block_size" not in tree:
            return True
        block_size, place, trained = _number(tree["block_size"]), _place(tree["block_size"]), self.trained_block_size
        template = self.profile.settings.get("block_size")
        if template is not None and not _words(template) and block_size != trained:
            known = trained or "unknown: say it in the inventory"
            problem = f"engine {self.profile.name} always runs the drafter's own block size ({known})"
            place.refuse(problem, "Use that block size, or another engine.")
            return False
        if self._is_untrained(block_size) and self.out_of_distribution is OutOfDistribution.REFUSE:
            place.refuse(
                f"block size {block_size} is out of distribution: the drafter of {self.model.name} was trained for "
                f"{trained}",
                "To run it all the same, write `out_of_distribution: allow` and a `hypothesis:`.",
            )
            return False
        return True

    def _is_untrained(self, block_size: int) -> bool:
        return self.trained_block_size is not None and block_size != self.trained_block_size

    def _is_ours(self, axis: str, setting: Setting) -> bool:
        if axis.startswith(ARGUMENT):
            owned = owned_when_speculating(self.profile)
            return check_argument_owner(axis.removeprefix(ARGUMENT), _place(setting), owned)
        if axis.startswith(VARIABLE):
            return check_variable(axis.removeprefix(VARIABLE), _place(setting), owned_when_speculating(self.profile))
        return True


def _without_speculative(args: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """A shared argument of the drafter means nothing to a server without one, and would make it no baseline."""
    return {name: value for name, value in args.items() if not name.startswith(_SPECULATIVE)}


def _is_said(value: Scalar) -> bool:
    return value is not None and value is not False


def _number(setting: Setting) -> int:
    if not isinstance(setting.value, int):
        raise TypeError("tree settings are whole numbers")
    return setting.value


def _place(setting: Setting) -> Field:
    if setting.place is None:
        raise TypeError("a setting read from a file knows its place")
    return setting.place


def _words(template: SettingTemplate | None) -> tuple[str, ...]:
    return () if template is None else (*template.flags, *template.env.values())


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
