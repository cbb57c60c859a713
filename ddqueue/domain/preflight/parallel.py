"""Whether a model can be split the way it is asked: heads over tp, experts over ep, expert weights in whole blocks.

Source of the rules: SGLang's model runner (check_quantized_moe_compatibility), its attention layers, which divide the
heads and either divide or repeat the key-value heads, and its FusedMoE layer, which divides the experts.
"""

from __future__ import annotations

from collections.abc import Sequence

from ddqueue.domain.failures import Failure
from ddqueue.domain.preflight.finding import Finding, doubtful, refused
from ddqueue.domain.preflight.model_shape import ModelShape
from ddqueue.domain.preflight.proposal import Proposal


def split_findings(shape: ModelShape, proposal: Proposal) -> list[Finding]:
    """What keeps the target from being split; each names the division and the sizes that would do."""
    return [*head_findings(shape, proposal), *_expert_findings(shape, proposal)]


def head_findings(shape: ModelShape, proposal: Proposal, whose: str = "") -> list[Finding]:
    """Whether the attention heads can be spread; `whose` says of which model, e.g. " of the drafter"."""
    heads, ranks = shape.attention_heads, proposal.attention_ranks
    if heads is None or _spreads(heads, shape.kv_heads, ranks):
        return []
    tp = proposal.parallelism.tp
    said = f"tp {tp}" if ranks == tp else f"tp {tp} / {tp // ranks} = {ranks}"
    if heads % ranks:
        what = f"{said} does not divide {heads} attention heads{whose}"
    else:
        what = f"{shape.kv_heads} key-value heads{whose} can neither be divided by nor repeated over {said}"
    good = [size for size in range(1, proposal.gpus + 1) if _spreads(heads, shape.kv_heads, size)]
    return [refused(Failure.UNSUPPORTED, f"{what}; {_would(good)}")]


def _spreads(heads: int, kv_heads: int | None, ranks: int) -> bool:
    if heads % ranks:
        return False
    return kv_heads is None or kv_heads % ranks == 0 or ranks % kv_heads == 0


def _expert_findings(shape: ModelShape, proposal: Proposal) -> list[Finding]:
    ep = proposal.expert_ranks
    if shape.experts is None:
        if ep > 1 and shape.attention_heads is not None:
            return [doubtful(f"config.json names no experts, so ep {ep} would change nothing")]
        return []
    if proposal.parallelism.tp % ep:
        good = _divisors(proposal.parallelism.tp)
        return [refused(Failure.UNSUPPORTED, f"ep {ep} does not divide tp {proposal.parallelism.tp}; {_would(good)}")]
    return _count_findings(shape, proposal, ep) or _block_findings(shape, proposal, ep)


def _count_findings(shape: ModelShape, proposal: Proposal, ep: int) -> list[Finding]:
    if _divides_experts(shape, proposal, ep):
        return []
    redundant = proposal.number("ep-num-redundant-experts", 0)
    said = f"{shape.experts} experts" + (f" and {redundant} redundant ones" if redundant else "")
    return [
        refused(
            Failure.UNSUPPORTED,
            f"ep {ep} does not divide {said}; with tp {proposal.parallelism.tp}, ep {_good_ep(shape, proposal)}",
        )
    ]


def _block_findings(shape: ModelShape, proposal: Proposal, ep: int) -> list[Finding]:
    """Every rank must hold whole blocks of the expert weights."""
    size = shape.moe_intermediate_size
    ranks = _moe_ranks(proposal, ep)
    if size is None or _holds_whole_blocks(shape, ranks):
        return [] if size is None else _group_findings(shape, size, ranks)
    tp = proposal.parallelism.tp
    division = f"moe_intermediate_size {size} / moe tp {ranks} (tp {tp} / ep {ep})"
    if size % ranks:
        what = f"{division} is no whole number"
    else:
        what = (
            f"{division} = {size // ranks}, which is not a multiple of the quantisation block of {shape.weight_block}"
        )
    return [refused(Failure.UNSUPPORTED, f"{what}; with tp {tp}, ep {_good_ep(shape, proposal)}")]


def _group_findings(shape: ModelShape, size: int, ranks: int) -> list[Finding]:
    """Whether a group may be cut depends on the kernel, so this is no refusal."""
    if shape.weight_group is None or (size // ranks) % shape.weight_group == 0:
        return []
    return [
        doubtful(
            f"moe_intermediate_size {size} / moe tp {ranks} = {size // ranks} cuts quantisation groups of "
            f"{shape.weight_group}; not every kernel takes that"
        )
    ]


def _moe_ranks(proposal: Proposal, ep: int) -> int:
    return max(1, proposal.parallelism.tp // ep // proposal.number("moe-dp-size", 1))


def _holds_whole_blocks(shape: ModelShape, ranks: int) -> bool:
    size = shape.moe_intermediate_size
    if size is None:
        return True
    return size % ranks == 0 and (shape.weight_block is None or (size // ranks) % shape.weight_block == 0)


def _divides_experts(shape: ModelShape, proposal: Proposal, ep: int) -> bool:
    return ((shape.experts or 0) + proposal.number("ep-num-redundant-experts", 0)) % ep == 0


def _good_ep(shape: ModelShape, proposal: Proposal) -> str:
    return _would(
        [
            ep
            for ep in _divisors(proposal.parallelism.tp)
            if _divides_experts(shape, proposal, ep) and _holds_whole_blocks(shape, _moe_ranks(proposal, ep))
        ]
    )


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


def _would(sizes: Sequence[int]) -> str:
    return f"{', '.join(map(str, sizes))} would" if sizes else "no size would"
