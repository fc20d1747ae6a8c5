# SPDX-License-Identifier: Apache-2.0
"""From timings to rows: what is compared with what, and the table."""

import dataclasses

from clocks import Clocks
from contenders import (
    DENSE_GEMM,
    OUR_FORWARD,
    OUR_GEMM,
    OUR_SCHEDULE,
    PEER_FORWARD,
    PEER_GEMM,
    PEER_SCHEDULE,
    ROUTER,
    our_forward_on,
)
from shapes import Shape


@dataclasses.dataclass(frozen=True)
class Row:
    """ratio: the other's time over ours, so that more is better. correctness: "-" where the row leaves nothing that
    could be checked."""

    shape: str
    what: str
    against: str
    ours_ms: float | None
    other_ms: float | None
    flops: int  # 0 = it is not about them
    must: float | None
    aim: float | None
    clocks: Clocks
    correctness: str

    @property
    def ratio(self) -> float | None:
        return self.other_ms / self.ours_ms if self.ours_ms and self.other_ms else None

    @property
    def verdict(self) -> str:
        if self.must is None or self.ratio is None:
            return ""
        return "aim" if self.ratio >= self.aim else "must" if self.ratio >= self.must else "below"

    def as_json(self) -> dict:
        return dataclasses.asdict(self) | {
            "ratio": self.ratio,
            "verdict": self.verdict,
            "ours_tflops": tflops(self.flops, self.ours_ms),
            "other_tflops": tflops(self.flops, self.other_ms),
        }


def tflops(flops: int, milliseconds: float | None) -> float | None:
    return flops / milliseconds / 1e9 if flops and milliseconds else None


def make_rows(
    shape: Shape, medians: dict[str, float], ranks: list[int], clocks: Clocks, correctness: str
) -> list[Row]:
    """Rows of which neither side was run are left out."""
    flops = shape.forward_flops
    plan = [
        ("router", "softmax, topk", None, ROUTER, 0, None, None),
        ("schedule", "sort", OUR_SCHEDULE, PEER_SCHEDULE, 0, None, None),
        ("GEMMs alone", "cuBLAS dense", OUR_GEMM, DENSE_GEMM, flops, None, None),
        ("GEMMs alone", "grouped_mm", OUR_GEMM, PEER_GEMM, flops, None, None),
        ("forward", "peer", OUR_FORWARD, PEER_FORWARD, flops, shape.must, shape.aim),
    ]
    plan += [(f"forward R={r}", "ours R=1", our_forward_on(r), OUR_FORWARD, flops, None, None) for r in ranks]
    rows = []
    for what, against, ours, other, row_flops, must, aim in plan:
        ours_ms, other_ms = medians.get(ours), medians.get(other)
        has_its_subject = ours_ms is not None or (other_ms is not None and against != "ours R=1")
        if has_its_subject:
            # The forward shows whether the schedule was right; the products alone leave undefined outputs.
            result = correctness if what.startswith(("schedule", "forward")) else "-"
            rows.append(Row(shape.name, what, against, ours_ms, other_ms, row_flops, must, aim, clocks, result))
    return rows


# ---- The table ----
_HEADS = (
    "shape", "what", "against", "ours ms", "other ms", "ours TFLOP/s", "other TFLOP/s", "ratio", "must", "aim",
    "reached", "SM MHz", "W", "result",
)  # fmt: skip
_TEXT_COLUMNS = (0, 1, 2, 10, 13)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _cells(row: Row) -> list[str]:
    return [
        row.shape,
        row.what,
        row.against,
        _number(row.ours_ms, 3),
        _number(row.other_ms, 3),
        _number(tflops(row.flops, row.ours_ms), 0),
        _number(tflops(row.flops, row.other_ms), 0),
        _number(row.ratio, 2),
        _number(row.must, 2),
        _number(row.aim, 2),
        row.verdict,
        _number(row.clocks.sm_mhz, 0),
        _number(row.clocks.watts, 0),
        row.correctness.split(":")[0],
    ]


def table(rows: list[Row]) -> str:
    lines = [list(_HEADS), *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADS))]

    def layout(line: list[str]) -> str:
        cells = zip(line, widths, range(len(line)))
        return "  ".join(c.ljust(w) if n in _TEXT_COLUMNS else c.rjust(w) for c, w, n in cells).rstrip()

    return "\n".join(layout(line) for line in lines)
