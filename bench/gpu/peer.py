# SPDX-License-Identifier: Apache-2.0
"""What users have today: an MoE layer of PyTorch's own parts, all experts on one GPU.

Routes are sorted by expert, rows gathered, multiplied in groups; SwiGLU and the weighted sum are compiled.
Nothing in it waits for the GPU.
"""

import dataclasses

import torch
import torch.nn.functional as F


@dataclasses.dataclass(frozen=True)
class Routing:
    order: torch.Tensor  # [T*K] slots, sorted by expert
    place: torch.Tensor  # [T*K] where a slot stands in that order
    group_ends: torch.Tensor  # [E] int32


def router(logits: torch.Tensor, topk: int) -> tuple[torch.Tensor, torch.Tensor]:
    """router_weights f32 [T,K], which add up to one for each token, and topk_experts int64 [T,K]."""
    weights, experts = torch.topk(logits.softmax(-1), topk)
    return (weights / weights.sum(-1, keepdim=True)).float(), experts


def route(topk_experts: torch.Tensor, experts: int) -> Routing:
    by_expert, order = torch.sort(topk_experts.reshape(-1), stable=True)
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel(), device=order.device)
    every_expert = torch.arange(experts, device=order.device)
    # Not bincount, which would wait for the GPU.
    ends = torch.searchsorted(by_expert, every_expert, right=True, out_int32=True)
    return Routing(order, place, ends)


def swiglu(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate) * up


def combine(rows: torch.Tensor, place: torch.Tensor, router_weights: torch.Tensor) -> torch.Tensor:
    tokens, topk = router_weights.shape
    by_token = rows[place].view(tokens, topk, rows.shape[-1])
    return (by_token.float() * router_weights.unsqueeze(-1)).sum(1).to(rows.dtype)


def grouped_mm(rows: torch.Tensor, weights: torch.Tensor, routing: Routing) -> torch.Tensor:
    """rows [T*K, in] times each expert's [out, in]."""
    return torch._grouped_mm(rows, weights.transpose(-2, -1), offs=routing.group_ends)


class PeerLayer:
    """Weights [E,2I,H] and [E,H,I]."""

    def __init__(self, gate_up: torch.Tensor, down: torch.Tensor, compiled: bool = True):
        self.gate_up = gate_up
        self.down = down
        # dynamic=False: code for these sizes alone, the fastest that the compiler has.
        self._swiglu = torch.compile(swiglu, dynamic=False) if compiled else swiglu
        self._combine = torch.compile(combine, dynamic=False) if compiled else combine

    def forward(
        self, x: torch.Tensor, router_weights: torch.Tensor, topk_experts: torch.Tensor
    ) -> torch.Tensor:
        """Routing included, as the router's choice is new in each step."""
        routing = route(topk_experts, self.gate_up.shape[0])
        rows = x[routing.order // router_weights.shape[1]]
        hidden = self._swiglu(grouped_mm(rows, self.gate_up, routing))
        return self._combine(grouped_mm(hidden, self.down, routing), routing.place, router_weights)
