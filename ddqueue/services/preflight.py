"""What can be known of a job before its server is started: whatever would fail is refused here, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ddqueue.domain.configuration import Cell
from ddqueue.domain.failures import AttemptFailure, Failure
from ddqueue.domain.inventory import EngineProfile, SettingTemplate
from ddqueue.domain.preflight.build import Build, flag_findings, renames, version_findings
from ddqueue.domain.preflight.context import context_findings
from ddqueue.domain.preflight.drafting import drafter_findings, drafting_findings, positions_findings
from ddqueue.domain.preflight.finding import Finding, Severity, doubtful, refused, unchecked
from ddqueue.domain.preflight.model_shape import ModelFiles, ModelShape
from ddqueue.domain.preflight.parallel import split_findings
from ddqueue.domain.preflight.proposal import Proposal, arguments_of
from ddqueue.domain.sweep import Point
from ddqueue.ports import LaunchRequest

NO_WEIGHTS = frozenset({"dummy", "remote", "remote_instance"})
"""Values of --load-format with which a server reads no weights from the model's folder."""


@dataclass(frozen=True)
class Examined:
    """A request as this build takes it, and what was found.

    `request` differs from the one examined where the build calls an argument by another name; `renamed` maps the asked
    names to those.
    """

    request: LaunchRequest
    findings: tuple[Finding, ...] = ()
    build: Build | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def provenance(self) -> dict[str, Any]:
        """What an attempt stores: the build's versions, renamed arguments, and what was found without refusing it."""
        return {
            "build": self.build.versions if self.build else {},
            "renamed": dict(self.renamed),
            "preflight": [f"{finding.severity}: {finding.text}" for finding in self.findings],
        }


@dataclass(frozen=True)
class Preflight:
    """`command` gives the words that would start a request and `build` asks that build, both raising AttemptFailure;
    `look` reads a model's folder (path, whether weights and whether a tokenizer are needed there).

    `on_host` is False on the machine that only plans: what is not there may well be on the host, so it is noted.
    """

    command: Callable[[LaunchRequest], Sequence[str]]
    build: Callable[[LaunchRequest], Build]
    look: Callable[[str, bool, bool], ModelFiles]
    on_host: bool = True

    def check(self, request: LaunchRequest, points: tuple[Point, ...]) -> Examined:
        """Examine a request that is about to be launched on this host.

        Raises:
            AttemptFailure: the first error's class, with every error as its evidence.
        """
        examined = self.examine(request, points)
        if examined.errors:
            first = examined.errors[0].failure or Failure.BAD_ARGS
            raise AttemptFailure(first, "before launch: " + "; ".join(error.text for error in examined.errors))
        return examined

    def examine(self, request: LaunchRequest, points: tuple[Point, ...]) -> Examined:
        """Everything there is to say about a request; raises nothing of its own."""
        try:
            words = self.command(request)
            build = self.build(request)
        except AttemptFailure as failure:
            return Examined(request, (refused(failure.failure, failure.evidence),))
        renamed = renames(arguments_of(words), build, request.profile.renamed)
        if renamed:
            request = _renamed(request, renamed)
            words = self.command(request)
        proposal = _proposal(request, arguments_of(words), points)
        findings = [
            *flag_findings(proposal.arguments, build),
            *version_findings(request.profile.expects, build),
            *drafting_findings(proposal),
            *self._model_findings(request, proposal),
        ]
        if not request.profile.preflight:
            findings = [_softened(finding) for finding in findings]
        return Examined(request, tuple(findings), build, renamed)

    def _model_findings(self, request: LaunchRequest, proposal: Proposal) -> list[Finding]:
        """A simulated engine's models have no files: only what the inventory says of them counts."""
        if request.profile.simulated:
            return context_findings(None, proposal)
        arguments = proposal.arguments
        has_tokenizer = not {"tokenizer-path", "skip-tokenizer-init"} & set(arguments)
        weights = arguments.get("load-format") not in NO_WEIGHTS
        findings, target = self._look(arguments["model-path"], weights, has_tokenizer)
        findings += context_findings(target, proposal)
        if target is not None:
            findings += split_findings(target, proposal)
        draft = arguments.get("speculative-draft-model-path")
        if draft is None:
            return findings
        # A drafter is loaded as its own format says, else as the target's; it uses the target's tokenizer.
        form = arguments.get("speculative-draft-load-format", arguments.get("load-format"))
        found, drafter = self._look(draft, form not in NO_WEIGHTS, False)
        findings += found
        if drafter is not None:
            findings += drafter_findings(drafter, proposal)
            findings += positions_findings(target, drafter, proposal) if target is not None else []
        return findings

    def _look(self, path: str, weights: bool, tokenizer: bool) -> tuple[list[Finding], ModelShape | None]:
        files = self.look(path, weights and self.on_host, tokenizer and self.on_host)
        if files.opaque:
            return [unchecked(f"not checked: {path} is no folder with a config.json")], None
        if self.on_host:
            return [refused(Failure.MODEL_NOT_FOUND, problem) for problem in files.problems], files.shape
        if files.shape is None:
            return [unchecked(f"not checked here: no usable config.json at {path}")], None
        return [], files.shape


def _proposal(request: LaunchRequest, arguments: Mapping[str, str], points: tuple[Point, ...]) -> Proposal:
    return Proposal(
        parallelism=request.parallelism,
        gpus=request.host.gpus,
        speculation=request.cell.speculation,
        arguments=arguments,
        environment={**request.profile.env, **request.cell.env},
        points=points,
        trained_block_size=request.model.drafter.block_size if request.model.drafter else None,
        context_length=request.model.context_length,
    )


def _softened(finding: Finding) -> Finding:
    return doubtful(finding.text) if finding.severity is Severity.ERROR else finding


def _renamed(request: LaunchRequest, names: Mapping[str, str]) -> LaunchRequest:
    """The request with every argument by the build's own name. The cell's hash stays that of what was asked: it is
    stored from the claim, never from here."""
    return replace(request, profile=_renamed_profile(request.profile, names), cell=_renamed_cell(request.cell, names))


def _renamed_profile(profile: EngineProfile, names: Mapping[str, str]) -> EngineProfile:
    flags = {f"--{old}": f"--{new}" for old, new in names.items()}
    settings = {
        setting: SettingTemplate(tuple(flags.get(word, word) for word in template.flags), template.env)
        for setting, template in profile.settings.items()
    }
    args = {names.get(name, name): value for name, value in profile.args.items()}
    return replace(profile, settings=settings, args=args)


def _renamed_cell(cell: Cell, names: Mapping[str, str]) -> Cell:
    return replace(cell, args={names.get(name, name): value for name, value in cell.args.items()})
