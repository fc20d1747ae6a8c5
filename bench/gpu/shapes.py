# SPDX-License-Identifier: Apache-2.0
"""The layers that are measured, and what the forward is held to against the PyTorch layer."""

import dataclasses


class UsageError(Exception):
    """Something that the caller can put right. Its text is a sentence that says how."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """T tokens of all ranks together, E experts of all ranks together. must, aim: peer's time over ours."""

    name: str
    tokens: int
    hidden: int
    intermediate: int
    experts: int
    topk: int
    must: float | None = None
    aim: float | None = None

    @property
    def routes(self) -> int:
        return self.tokens * self.topk

    @property
    def forward_flops(self) -> int:
        """Real routes only: gate, up and down, a multiply and an add each."""
        return 6 * self.routes * self.hidden * self.intermediate

    def can_have_ranks(self, ranks: int) -> bool:
        return self.experts % ranks == 0 and self.tokens % ranks == 0

    def __str__(self) -> str:
        sizes = f"T={self.tokens} H={self.hidden} I={self.intermediate} E={self.experts} K={self.topk}"
        return f"{self.name} ({sizes})"


# A slash: the part of the model's experts that one of so many GPUs holds.
SHAPES = {
    shape.name: shape
    for shape in (
        Shape("qwen3-30b", 16384, 2048, 768, 128, 8, 1.50, 1.70),
        Shape("qwen3-235b/4", 8192, 4096, 1536, 32, 8, 1.22, 1.32),
        Shape("deepseek-v3/8", 8192, 7168, 2048, 32, 8, 1.12, 1.20),
        Shape("gpt-oss-20b-like", 16384, 2880, 2880, 32, 4, 1.12, 1.25),
        Shape("mixtral", 8192, 4096, 14336, 8, 2, 1.03, 1.10),
        Shape("olmoe", 32768, 2048, 1024, 64, 8, 1.30, 1.55),
        Shape("qwen3-30b-small", 512, 2048, 768, 128, 8),
        Shape("100-rows-per-expert", 800, 2048, 1024, 64, 8),
    )
}


def choose_shapes(names: list[str] | None) -> list[Shape]:
    """The named ones, all of them where nothing is named."""
    if not names:
        return list(SHAPES.values())
    for name in names:
        if name not in SHAPES:
            raise UsageError(f"--shapes has '{name}'; choose among {', '.join(SHAPES)}.")
    return [SHAPES[name] for name in names]
