# SPDX-License-Identifier: Apache-2.0
"""Whether what was timed is also right.

On sampled tokens the layer is computed in float64, once exactly and once with the roundings of
docs/numerics.md. Ours may be at most twice as far from the exact result as the rounded one is, by norm and for
the worst token. On all tokens ours may be at most twice as far from the peer's as the sample's distances of both
add up to.
"""

import dataclasses

import torch
import torch.nn.functional as F

from data import Tensors

_SAMPLED_TOKENS = 32


@dataclasses.dataclass(frozen=True)
class Distance:
    """Relative to the norm of the exact result. worst: relative to the root mean square of its rows' norms."""

    norm: float
    worst: float

    def is_within(self, factor: float, *limits: "Distance") -> bool:
        norm, worst = sum(limit.norm for limit in limits), sum(limit.worst for limit in limits)
        # Written so that NaN fails.
        return self.norm <= factor * norm and self.worst <= factor * worst

    def __str__(self) -> str:
        return f"{self.norm:.1e} ({self.worst:.1e} for the worst token)"


@dataclasses.dataclass(frozen=True)
class Check:
    ok: bool
    sentence: str
    rounded: Distance
    ours: Distance | None = None
    peer: Distance | None = None
    between: Distance | None = None


def distance(got: torch.Tensor, expected: torch.Tensor) -> Distance:
    rows = (got.double() - expected.double()).norm(dim=1)
    expected_norm = expected.double().norm()
    mean_row = expected_norm / expected.shape[0] ** 0.5
    return Distance((rows.norm() / expected_norm).item(), (rows.max() / mean_row).item())


def sample(tokens: int, device: torch.device) -> torch.Tensor:
    """Evenly spread, the first and the last among them."""
    return torch.linspace(0, tokens - 1, min(tokens, _SAMPLED_TOKENS), device=device).round().long()


def reference(tensors: Tensors, tokens: torch.Tensor, rounded: bool) -> torch.Tensor:
    """The layer's output for these tokens in float64, with the roundings to bf16 or without."""

    def store(values: torch.Tensor) -> torch.Tensor:
        return values.bfloat16().double() if rounded else values

    experts = tensors.topk_experts[tokens]
    weights = tensors.router_weights[tokens].double()
    x = tensors.x[tokens].double()
    out = torch.zeros_like(x)
    for expert in experts.unique().tolist():
        if expert < 0:
            continue
        row, choice = (experts == expert).nonzero(as_tuple=True)
        gate, up = store(x[row] @ tensors.gate_up[expert].double().T).chunk(2, -1)
        y = store(store(F.silu(gate) * up) @ tensors.down[expert].double().T)
        out.index_add_(0, row, y * weights[row, choice].unsqueeze(-1))
    return store(out)


def check(tensors: Tensors, ours: torch.Tensor | None, peer: torch.Tensor | None) -> Check:
    """Either may be None, where it was not run."""
    tokens = sample(tensors.shape.tokens, tensors.x.device)
    exact = reference(tensors, tokens, rounded=False)
    rounded = distance(reference(tensors, tokens, rounded=True), exact)
    of_ours = distance(ours[tokens], exact) if ours is not None else None
    of_peer = distance(peer[tokens], exact) if peer is not None else None
    between = distance(ours, peer) if ours is not None and peer is not None else None
    if of_ours is not None and not of_ours.is_within(2, rounded):
        problem = f"ours is {of_ours} from float64, and may be twice {rounded}"
    elif of_peer is not None and not of_peer.is_within(4, rounded):
        # The peer rounds where it pleases, so it gets more room. Beyond that it computes something else.
        problem = f"the peer is {of_peer} from float64, and may be four times {rounded}"
    elif between is not None and not between.is_within(2, of_ours, of_peer):
        problem = f"ours is {between} from the peer, and on the sample they are {of_ours} and {of_peer} from float64"
    else:
        return Check(True, "right", rounded, of_ours, of_peer, between)
    return Check(False, f"WRONG: {problem}", rounded, of_ours, of_peer, between)
