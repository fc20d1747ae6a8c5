# SPDX-License-Identifier: Apache-2.0
"""Routing that a training run has recorded, as docs/trace-format.md describes it."""

import dataclasses
import json
import pathlib

from shapes import Shape, UsageError


@dataclasses.dataclass(frozen=True)
class RoutingStep:
    """Flat lists over all ranks, one rank after the other."""

    shape: Shape
    tokens_per_rank: list[int]
    topk_experts: list[int]
    router_weights: list[float]

    @property
    def has_dropped_routes(self) -> bool:
        return -1 in self.topk_experts


def read_step(path: pathlib.Path, wanted: int | None) -> RoutingStep:
    """The step of that number, or the last one. The layer has the trace's own sizes."""
    lines = _read_lines(path)
    header, steps, end = lines[0], lines[1:-1], lines[-1]
    if header.get("format") != "mok-routing-trace" or header.get("version") != 1:
        raise UsageError(f"{path} is no routing trace of version 1; mok train --trace writes one.")
    if not end.get("end") or end.get("steps") != len(steps):
        raise UsageError(f"{path} was cut short: it has no closing line; record it again.")
    if not header.get("hidden") or not header.get("intermediate"):
        raise UsageError(f"{path} does not say hidden and intermediate in its header; add them there.")
    found = [step for step in steps if wanted is None or step["step"] == wanted]
    if not found:
        numbers = ", ".join(str(step["step"]) for step in steps) or "none"
        raise UsageError(f"--trace-step is {wanted}; {path} holds the steps {numbers}.")
    return _make_step(path, header, found[-1])


def _read_lines(path: pathlib.Path) -> list[dict]:
    try:
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except OSError as error:
        raise UsageError(f"--trace names {path}, which cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise UsageError(f"{path} is no routing trace: {error}.") from error
    if len(lines) < 2 or not all(isinstance(line, dict) for line in lines):
        raise UsageError(f"{path} is no routing trace: it takes a header and a closing line.")
    return lines


def _make_step(path: pathlib.Path, header: dict, step: dict) -> RoutingStep:
    ids = [expert for rank in step["ranks"] for expert in rank["topk_experts"]]
    weights = [weight for rank in step["ranks"] for weight in rank["router_weights"]]
    tokens = [rank["tokens"] for rank in step["ranks"]]
    experts, topk = header["experts"], header["topk"]
    if len(ids) != sum(tokens) * topk or len(weights) != len(ids):
        raise UsageError(f"{path}, step {step['step']}: ids or weights are not tokens * topk in number.")
    if not ids:
        raise UsageError(f"{path}, step {step['step']} has no tokens; choose another with --trace-step.")
    if min(ids) < -1 or max(ids) >= experts:
        raise UsageError(f"{path}, step {step['step']}: ids must be from -1 to {experts - 1}.")
    name = f"trace step {step['step']}"
    shape = Shape(name, sum(tokens), header["hidden"], header["intermediate"], experts, topk)
    return RoutingStep(shape, tokens, ids, weights)
