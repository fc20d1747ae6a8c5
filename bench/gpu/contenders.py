# SPDX-License-Identifier: Apache-2.0
"""Everything that takes its turn on one shape: ours, the peer's, and cuBLAS."""

import dataclasses

import torch

import library
import peer
from data import Tensors, rank_addresses, split_tokens
from measure import Contender

ROUTER = "router"
OUR_SCHEDULE, PEER_SCHEDULE = "ours: schedule", "peer: sort"
OUR_GEMM, DENSE_GEMM, PEER_GEMM = "ours: multiply only", "cuBLAS: one dense pair", "peer: grouped GEMMs"
OUR_FORWARD, PEER_FORWARD = "ours: forward", "peer: forward"


def our_forward_on(ranks: int) -> str:
    return f"ours: forward, R={ranks}"


@dataclasses.dataclass
class OurLayer:
    """One layer of the library with its output."""

    layer: library.Layer
    out: torch.Tensor

    def schedule(self) -> None:
        self.layer.schedule(torch.cuda.current_stream().cuda_stream)

    def multiply(self) -> None:
        self.layer.forward(torch.cuda.current_stream().cuda_stream, multiply_only=True)

    def forward(self) -> None:
        """As in training: the router's choice is new in each step, and so is the schedule."""
        self.schedule()
        self.layer.forward(torch.cuda.current_stream().cuda_stream)


def make_ours(
    loaded: library.Library, tensors: Tensors, tuning: library.Tuning, tokens_per_rank: list[int]
) -> OurLayer:
    out = torch.empty_like(tensors.x)
    addresses = rank_addresses(tensors, out, tokens_per_rank)
    layer = library.Layer(loaded, tensors.shape, addresses, tuning, tensors.x.device.index)
    ours = OurLayer(layer, out)
    ours.schedule()  # multiply() takes one
    return ours


def our_contenders(ours: dict[int, OurLayer], only: str | None) -> list[Contender]:
    """`ours`: one layer for each number of ranks, 1 among them."""
    contenders = [Contender(OUR_SCHEDULE, ours[1].schedule), Contender(OUR_GEMM, ours[1].multiply)]
    contenders.append(Contender(OUR_FORWARD, ours[1].forward))
    contenders += [Contender(our_forward_on(r), layer.forward) for r, layer in ours.items() if r > 1]
    return [c for c in contenders if only != "gemm" or c.name == OUR_GEMM]


def peer_contenders(tensors: Tensors, layer: peer.PeerLayer, only: str | None) -> list[Contender]:
    """The router belongs to neither layer and stands here because it is PyTorch's."""
    experts, topk = tensors.shape.experts, tensors.shape.topk
    contenders = []
    if only != "gemm":
        contenders += [
            Contender(ROUTER, lambda: peer.router(tensors.logits, topk)),
            Contender(PEER_SCHEDULE, lambda: peer.route(tensors.topk_experts, experts)),
            Contender(
                PEER_FORWARD, lambda: layer.forward(tensors.x, tensors.router_weights, tensors.topk_experts)
            ),
        ]
    return contenders + _gemm_contenders(tensors)


def _gemm_contenders(tensors: Tensors) -> list[Contender]:
    """On the rows that the layer multiplies. The dense pair has one expert's weights and everybody's rows."""
    routing = peer.route(tensors.topk_experts, tensors.shape.experts)
    rows = tensors.x[routing.order // tensors.shape.topk]
    hidden = peer.swiglu(peer.grouped_mm(rows, tensors.gate_up, routing))

    def dense() -> None:
        torch.mm(rows, tensors.gate_up[0].T)
        torch.mm(hidden, tensors.down[0].T)

    def grouped() -> None:
        peer.grouped_mm(rows, tensors.gate_up, routing)
        peer.grouped_mm(hidden, tensors.down, routing)

    return [Contender(DENSE_GEMM, dense), Contender(PEER_GEMM, grouped)]


def all_ranks(shape, ranks: list[int]) -> dict[int, list[int]]:
    """Tokens of each rank, for one rank and for the asked numbers of ranks that the shape can have."""
    return {r: split_tokens(shape.tokens, r) for r in [1, *ranks] if shape.can_have_ranks(r)}
