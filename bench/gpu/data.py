# SPDX-License-Identifier: Apache-2.0
"""The tensors of one layer, shared by all that are measured on it: nobody copies a weight."""

import dataclasses

import torch

from library import RankAddresses
from peer import router
from routing_trace import RoutingStep
from shapes import Shape


@dataclasses.dataclass(frozen=True)
class Tensors:
    """All ranks' tokens and all ranks' experts, one rank after the other."""

    shape: Shape
    logits: torch.Tensor  # f32 [T,E]
    router_weights: torch.Tensor  # f32 [T,K]
    topk_experts: torch.Tensor  # int64 [T,K]
    x: torch.Tensor  # bf16 [T,H]
    gate_up: torch.Tensor  # bf16 [E,2I,H]
    down: torch.Tensor  # bf16 [E,H,I]


def make_tensors(shape: Shape, device: torch.device, seed: int, step: RoutingStep | None = None) -> Tensors:
    """Random numbers, never zeros: products of zeros take less power and so less time. Uniform random routing,
    or that of a recorded step."""
    generator = torch.Generator(device).manual_seed(seed)

    def normal(*sizes: int, scale: float = 1.0) -> torch.Tensor:
        return torch.randn(*sizes, device=device, generator=generator).mul_(scale)

    def weights(rows: int, columns: int) -> torch.Tensor:
        values = torch.empty(shape.experts, rows, columns, device=device, dtype=torch.bfloat16)
        for expert in values:  # one by one: float32 takes twice the memory
            expert.copy_(normal(rows, columns, scale=columns**-0.5))
        return values

    logits = normal(shape.tokens, shape.experts)
    if step is None:
        router_weights, topk_experts = router(logits, shape.topk)
    else:
        sizes = (shape.tokens, shape.topk)
        router_weights = torch.tensor(step.router_weights, device=device, dtype=torch.float32).view(sizes)
        topk_experts = torch.tensor(step.topk_experts, device=device, dtype=torch.int64).view(sizes)
    return Tensors(
        shape,
        logits,
        router_weights,
        topk_experts,
        normal(shape.tokens, shape.hidden).bfloat16(),
        weights(2 * shape.intermediate, shape.hidden),
        weights(shape.hidden, shape.intermediate),
    )


def split_tokens(tokens: int, ranks: int) -> list[int]:
    return [tokens // ranks] * ranks


def rank_addresses(
    tensors: Tensors, out: torch.Tensor, tokens_per_rank: list[int]
) -> list[RankAddresses]:
    """The same tokens in the same order over that many ranks, each with its share of the experts."""
    local_experts = tensors.shape.experts // len(tokens_per_rank)
    addresses = []
    begin = 0
    for rank, tokens in enumerate(tokens_per_rank):
        of_rank = slice(begin, begin + tokens)
        first_expert = rank * local_experts
        addresses.append(
            RankAddresses(
                tokens,
                tensors.topk_experts[of_rank].data_ptr(),
                tensors.router_weights[of_rank].data_ptr(),
                tensors.x[of_rank].data_ptr(),
                tensors.gate_up[first_expert].data_ptr(),
                tensors.down[first_expert].data_ptr(),
                out[of_rank].data_ptr(),
            )
        )
        begin += tokens
    return addresses


def poison(out: torch.Tensor) -> None:
    """Every bit set, so that each element is NaN until it is written."""
    out.view(torch.int16).fill_(-1)
