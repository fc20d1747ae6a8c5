# SPDX-License-Identifier: Apache-2.0
"""Times calls that take turns: a card that grows warm slows all of them alike."""

import dataclasses
import statistics
import time
from collections.abc import Callable

import torch

# About 0.2 ms in which the host gets ahead, so that no call waits for its own launches.
_SPIN_CYCLES = 400_000


@dataclasses.dataclass(frozen=True)
class Contender:
    name: str
    call: Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Timing:
    """Milliseconds on the GPU; host: what the call itself took, enqueueing."""

    milliseconds: list[float]
    host_milliseconds: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.milliseconds)

    def as_json(self) -> dict:
        quarters = statistics.quantiles(self.milliseconds, n=4) if len(self.milliseconds) > 1 else []
        return {
            "median_ms": self.median,
            "quartiles_ms": quarters,
            "host_median_ms": statistics.median(self.host_milliseconds),
            "all_ms": self.milliseconds,
        }


def warm_up(contenders: list[Contender], seconds: float) -> None:
    """Compiles what is compiled late, and brings the card to the temperature that it keeps."""
    end = time.monotonic() + seconds
    while True:
        for contender in contenders:
            contender.call()
        torch.cuda.synchronize()
        if time.monotonic() >= end:
            return


def take_turns(contenders: list[Contender], rounds: int) -> dict[str, Timing]:
    """Each round calls everyone once, beginning with another one each time."""
    events: dict[str, list] = {contender.name: [] for contender in contenders}
    host: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for number in range(rounds):
        torch.cuda._sleep(_SPIN_CYCLES)
        first = number % len(contenders)
        for contender in contenders[first:] + contenders[:first]:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            before = time.perf_counter()
            contender.call()
            host[contender.name].append((time.perf_counter() - before) * 1000)
            end.record()
            events[contender.name].append((begin, end))
    torch.cuda.synchronize()
    return {
        name: Timing([begin.elapsed_time(end) for begin, end in pairs], host[name])
        for name, pairs in events.items()
    }
