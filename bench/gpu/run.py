# SPDX-License-Identifier: Apache-2.0
"""One shape: makes its tensors, lets everyone take turns, checks what came out."""

import argparse
import dataclasses

import torch

import peer
from check import Check, check
from clocks import ClockSampler
from contenders import OurLayer, all_ranks, make_ours, our_contenders, peer_contenders
from data import Tensors, make_tensors, poison
from library import Library, LibraryError, Tuning
from measure import Contender, take_turns, warm_up
from report import Row, make_rows
from routing_trace import RoutingStep
from shapes import Shape


@dataclasses.dataclass
class ShapeResult:
    rows: list[Row]
    record: dict  # for the JSON file
    ok: bool
    note: str


def measure_shape(
    shape: Shape, arguments: argparse.Namespace, loaded: Library | None, step: RoutingStep | None
) -> ShapeResult:
    """`loaded`: None measures the peer alone."""
    device = torch.device("cuda", torch.cuda.current_device())
    tensors = make_tensors(shape, device, arguments.seed, step)
    ours, problem = _try_to_make_ours(loaded, tensors, arguments, step)
    try:
        return _measure(tensors, ours, problem, arguments)
    finally:
        # Also after a failure: the next shape takes the memory.
        torch.cuda.synchronize()
        for layer in ours.values():
            layer.layer.close()


def _try_to_make_ours(
    loaded: Library | None, tensors: Tensors, arguments: argparse.Namespace, step: RoutingStep | None
) -> tuple[dict[int, OurLayer], str]:
    """The layers that have run once, by their number of ranks, up to the first that could not; and why not."""
    if loaded is None:
        return {}, ""
    tokens_of = all_ranks(tensors.shape, arguments.ranks if arguments.only != "gemm" else [])
    if step is not None and len(step.tokens_per_rank) > 1:
        tokens_of = {1: tokens_of[1], len(step.tokens_per_rank): step.tokens_per_rank}
    tuning = Tuning(arguments.comm_sms, arguments.minibatch, arguments.macrobatch)
    ours: dict[int, OurLayer] = {}
    for ranks, tokens in tokens_of.items():
        try:
            ours[ranks] = make_ours(loaded, tensors, tuning, tokens)
            ours[ranks].forward()
            ours[ranks].layer.check()
        except LibraryError as error:
            if ranks in ours:
                ours.pop(ranks).layer.close()
            return ours, f"FAILED at R={ranks}: {error}"
    return ours, ""


def _measure(
    tensors: Tensors, ours: dict[int, OurLayer], problem: str, arguments: argparse.Namespace
) -> ShapeResult:
    contenders: list[Contender] = our_contenders(ours, arguments.only) if ours else []
    peer_layer = None
    if arguments.only != "ours":
        torch.compiler.reset()  # or the code for other shapes counts against the compiler's limit
        peer_layer = peer.PeerLayer(tensors.gate_up, tensors.down, compiled=not arguments.eager_peer)
        contenders += peer_contenders(tensors, peer_layer, arguments.only)
    if not contenders:
        return ShapeResult([], {"shape": dataclasses.asdict(tensors.shape), "result": problem}, False, problem)

    warm_up(contenders, arguments.warm_up)
    sampler = ClockSampler(f"GPU-{torch.cuda.get_device_properties(tensors.x.device).uuid}")
    sampler.start()
    timings = take_turns(contenders, arguments.repeats)
    clocks = sampler.stop()

    outcome, sentence = None, "-"
    if arguments.only != "gemm":
        outcome, sentence = _check(tensors, ours, peer_layer)
    if problem and not ours:
        sentence = problem
    medians = {name: timing.median for name, timing in timings.items()}
    rows = make_rows(tensors.shape, medians, [r for r in ours if r > 1], clocks, sentence)
    record = {
        "shape": dataclasses.asdict(tensors.shape),
        "timings": {name: timing.as_json() for name, timing in timings.items()},
        "check": dataclasses.asdict(outcome) if outcome else None,
        "result": sentence,
        "problem": problem,
        "our_bytes": {str(r): layer.layer.nbytes() for r, layer in ours.items()},
    }
    note = problem or ("" if sentence == "-" else sentence)
    return ShapeResult(rows, record, sentence in ("right", "-") and not problem, note)


def _check(
    tensors: Tensors, ours: dict[int, OurLayer], peer_layer: peer.PeerLayer | None
) -> tuple[Check, str]:
    """Runs both once more into poisoned outputs."""
    expected = None
    if peer_layer is not None:
        expected = peer_layer.forward(tensors.x, tensors.router_weights, tensors.topk_experts)
    try:
        for layer in ours.values():
            poison(layer.out)
            layer.forward()
            layer.layer.check()
    except LibraryError as error:
        return check(tensors, None, expected), f"FAILED: {error}"
    outcome = check(tensors, ours[1].out if ours else None, expected)
    for ranks, layer in ours.items():
        # Bits, not values: NaN would equal nothing.
        if not torch.equal(layer.out.view(torch.int16), ours[1].out.view(torch.int16)):
            return outcome, f"WRONG: R={ranks} and R=1 give other bits"
    return outcome, outcome.sentence
