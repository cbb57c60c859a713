"""Whether the drafter can run the way it is asked."""

from __future__ import annotations

from ddqueue.domain.failures import Failure
from ddqueue.domain.preflight.finding import Finding, doubtful, refused
from ddqueue.domain.preflight.model_shape import ModelShape
from ddqueue.domain.preflight.parallel import head_findings
from ddqueue.domain.preflight.proposal import BLOCK_DRAFTERS, Proposal


def drafting_findings(proposal: Proposal) -> list[Finding]:
    """What no model's files are needed for: pipeline parallelism, and a window no smaller than the block.

    Source: SGLang's argument checks: "only supports pp_size == 1", "must be >= block_size".
    """
    algorithm, pp = proposal.algorithm, proposal.parallelism.pp
    if algorithm not in BLOCK_DRAFTERS:
        return []
    found = []
    if pp > 1:
        found.append(refused(Failure.UNSUPPORTED, f"{algorithm} drafts with pp 1 only, and pp {pp} is asked"))
    window, block_size = _window_and_block(proposal)
    if window and window < block_size:
        text = f"a draft window of {window} is smaller than the block of {block_size}; {block_size} or more would do"
        found.append(refused(Failure.BAD_ARGS, text))
    return found


def drafter_findings(shape: ModelShape, proposal: Proposal) -> list[Finding]:
    """What the drafter's config.json says against it. The drafter is split over the same GPUs as the target."""
    return [*head_findings(shape, proposal, " of the drafter"), *_trained_findings(shape, proposal)]


def positions_findings(target: ModelShape, drafter: ModelShape, proposal: Proposal) -> list[Finding]:
    """Whether the drafter knows as many positions as the target will use."""
    used = proposal.number("context-length", 0) or target.context_length
    known = drafter.context_length
    if used is None or known is None or known >= used:
        return []
    text = f"the drafter knows {known} positions and the server would use {used}: args.context-length {known} fits both"
    return [doubtful(text)]


def _trained_findings(shape: ModelShape, proposal: Proposal) -> list[Finding]:
    """The inventory decides which cells are marked as out of distribution, so it must agree with the drafter."""
    trained, named = shape.block_size, proposal.trained_block_size
    if trained is None or proposal.speculation is None or named == trained:
        return []
    asked = proposal.speculation.block_size
    if named is not None:
        text = f"the drafter's config.json says block size {trained} and the inventory {named}: correct the inventory"
        return [refused(Failure.BAD_ARGS, text)]
    if asked == trained:
        return []
    text = (
        f"block size {asked} is out of distribution, the drafter's config.json says {trained}, and the inventory does "
        f"not know: write block_size: {trained} there and out_of_distribution: allow in the sweep, or ask {trained}"
    )
    return [refused(Failure.BAD_ARGS, text)]


def _window_and_block(proposal: Proposal) -> tuple[int, int]:
    """Both in tokens, 0 where nothing says it. A cell may also give the drafter's settings as plain arguments."""
    spec = proposal.speculation
    if spec is not None:
        return spec.window or 0, spec.block_size
    return proposal.number("speculative-draft-window-size", 0), proposal.number("speculative-num-draft-tokens", 0)
