#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times the layer on a GPU against a PyTorch layer and against cuBLAS, in one process, call by call in turns.

PyTorch brings the data, the peer and cuBLAS; the library is called with addresses. Prints a table, and writes
all numbers to a JSON file. Exits 1 where a result is wrong, 2 where nothing can be measured.
"""

import argparse
import datetime
import importlib
import json
import pathlib
import sys

import routing_trace
from library import Library
from shapes import SHAPES, Shape, UsageError, choose_shapes

_CAPABILITY = (9, 0)
_MAX_RANKS = 8


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--shapes", nargs="*", metavar="NAME", help=f"among {', '.join(SHAPES)} (default: all)")
    add("--only", choices=("peer", "ours", "gemm"), help="leave the others out")
    add("--ranks", nargs="*", type=int, default=[4], metavar="R", help="also R virtual ranks (default: 4)")
    add("--json", type=pathlib.Path, default=pathlib.Path("build/gpu-bench.json"), metavar="PATH")
    add("--repeats", type=int, default=20, metavar="N", help="rounds; medians are over them (default: 20)")
    add("--warm-up", type=float, default=1.0, metavar="SECONDS", help="before each shape (default: 1)")
    add("--trace", type=pathlib.Path, metavar="FILE", help="sizes and routing that mok train --trace wrote")
    add("--trace-step", type=int, metavar="STEP", help="of that file (default: its last)")
    add("--comm-sms", type=int, default=0, metavar="N", help="SMs that communicate (default: chosen)")
    add("--minibatch", type=int, default=0, metavar="ROWS", help="default: the library's")
    add("--macrobatch", type=int, default=0, metavar="ROWS", help="default: the library's")
    add("--eager-peer", action="store_true", help="do not compile the peer's parts")
    add("--seed", type=int, default=1)
    add("--library", type=pathlib.Path, default=pathlib.Path("build/sm90/libmok_bench.so"), metavar="PATH")
    arguments = parser.parse_args()
    _check_arguments(arguments)
    return arguments


def _check_arguments(arguments: argparse.Namespace) -> None:
    if arguments.repeats < 1:
        raise UsageError(f"--repeats is {arguments.repeats}; it must be 1 or more.")
    for ranks in arguments.ranks:
        if not 1 <= ranks <= _MAX_RANKS:
            raise UsageError(f"--ranks has {ranks}; it must be from 1 to {_MAX_RANKS}.")
    if arguments.trace is not None and arguments.shapes:
        raise UsageError("--shapes and --trace both say what to measure; give one of them.")
    if arguments.trace_step is not None and arguments.trace is None:
        raise UsageError(f"--trace-step is {arguments.trace_step}, of which file? Give --trace too.")


def require_gpu():
    """PyTorch, where it is there with a GPU that the kernels run on."""
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        advice = "It is the peer, and brings the data: install it with 'pip install torch'."
        raise UsageError(f"PyTorch cannot be imported here ({error}). {advice}") from error
    if not torch.cuda.is_available():
        raise UsageError(f"PyTorch {torch.__version__} finds no GPU here; this takes a Hopper GPU.")
    capability = torch.cuda.get_device_capability()
    if capability != _CAPABILITY:
        name = f"{torch.cuda.get_device_name()} of compute capability {capability[0]}.{capability[1]}"
        raise UsageError(f"The GPU is {name}; the kernels are made for 9.0 (H100, H200, GH200).")
    return torch


def what_to_measure(
    arguments: argparse.Namespace,
) -> list[tuple[Shape, routing_trace.RoutingStep | None]]:
    if arguments.trace is None:
        return [(shape, None) for shape in choose_shapes(arguments.shapes)]
    step = routing_trace.read_step(arguments.trace, arguments.trace_step)
    if step.has_dropped_routes and arguments.only != "ours":
        raise UsageError(f"{arguments.trace} has dropped routes; the peer knows none, so add --only ours.")
    return [(step.shape, step)]


def write_json(path: pathlib.Path, torch, arguments: argparse.Namespace, results: list) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    report = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "arguments": {key: str(value) for key, value in vars(arguments).items()},
        "rows": [row.as_json() for result in results for row in result.rows],
        "shapes": [result.record for result in results],
    }
    path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def measure_all(torch, arguments: argparse.Namespace) -> bool:
    # Here, because they import PyTorch.
    report, run = importlib.import_module("report"), importlib.import_module("run")
    loaded = None if arguments.only == "peer" else Library(arguments.library)
    results = []
    for shape, step in what_to_measure(arguments):
        print(f"{shape} ...", flush=True)
        with torch.no_grad():
            result = run.measure_shape(shape, arguments, loaded, step)
        if result.note:
            print(f"  {result.note}", flush=True)
        results.append(result)
        torch.cuda.empty_cache()
        write_json(arguments.json, torch, arguments, results)  # after each: a later one may end the process
    print(f"\n{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, medians of {arguments.repeats}")
    print(report.table([row for result in results for row in result.rows]))
    print(f"All numbers: {arguments.json}")
    return all(result.ok for result in results)


def main() -> int:
    try:
        arguments = parse_arguments()
        what_to_measure(arguments)  # a slip in a name shows before anything is measured
        return 0 if measure_all(require_gpu(), arguments) else 1
    except UsageError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
