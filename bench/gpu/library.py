# SPDX-License-Identifier: Apache-2.0
"""Our layer, through the C functions of mok_bench_c.cpp. Knows addresses alone, nothing of PyTorch."""

import ctypes
import dataclasses
import pathlib

from shapes import UsageError


class LibraryError(Exception):
    """What the library threw: its own sentence."""


@dataclasses.dataclass(frozen=True)
class Tuning:
    """0 = the library's choice. None of them changes a bit of a result."""

    comm_sms: int = 0
    minibatch: int = 0
    macrobatch: int = 0


# ---- The structs of mok_bench_c.cpp, field by field ----
class _Sizes(ctypes.Structure):
    _fields_ = [
        ("max_tokens", ctypes.c_int64),
        ("hidden", ctypes.c_int64),
        ("intermediate", ctypes.c_int64),
        ("minibatch", ctypes.c_int64),
        ("macrobatch", ctypes.c_int64),
        ("experts", ctypes.c_int32),
        ("topk", ctypes.c_int32),
        ("ranks", ctypes.c_int32),
        ("comm_sms", ctypes.c_int32),
        ("device", ctypes.c_int32),
    ]


class RankAddresses(ctypes.Structure):
    """One rank's tensors on the GPU. They must stay there as long as the layer uses them."""

    _fields_ = [
        ("tokens", ctypes.c_int64),
        ("topk_experts", ctypes.c_void_p),
        ("router_weights", ctypes.c_void_p),
        ("x", ctypes.c_void_p),
        ("gate_up", ctypes.c_void_p),
        ("down", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
    ]


_FUNCTIONS = {
    "create": [ctypes.POINTER(_Sizes), ctypes.POINTER(ctypes.c_void_p)],
    "destroy": [ctypes.c_void_p],
    "set_ranks": [ctypes.c_void_p, ctypes.POINTER(RankAddresses), ctypes.c_int32],
    "schedule": [ctypes.c_void_p, ctypes.c_void_p],
    "forward": [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32],
    "check": [ctypes.c_void_p],
    "nbytes": [ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64)],
}


class Library:
    def __init__(self, path: pathlib.Path):
        if not path.is_file():
            raise UsageError(f"--library names {path}, which is not there; tools/gpu build makes it.")
        try:
            library = ctypes.CDLL(str(path.resolve()))
        except OSError as error:
            raise UsageError(f"--library names {path}, which cannot be loaded: {error}.") from error
        self._functions = {}
        for name, arguments in _FUNCTIONS.items():
            function = getattr(library, f"mok_bench_{name}")
            function.argtypes = arguments
            function.restype = ctypes.c_char_p
            self._functions[name] = function

    def call(self, name: str, *arguments) -> None:
        sentence = self._functions[name](*arguments)
        if sentence is not None:
            raise LibraryError(sentence.decode())


class Layer:
    """A workspace and a layer on one GPU. Everything is enqueued on `stream`, an address; nothing waits."""

    def __init__(self, library: Library, shape, ranks: list[RankAddresses], tuning: Tuning, device: int):
        self._library = library
        self._handle = ctypes.c_void_p()
        max_tokens = max(rank.tokens for rank in ranks)
        sizes = _Sizes(
            max_tokens=max_tokens,
            hidden=shape.hidden,
            intermediate=shape.intermediate,
            minibatch=tuning.minibatch,
            macrobatch=tuning.macrobatch,
            experts=shape.experts,
            topk=shape.topk,
            ranks=len(ranks),
            comm_sms=tuning.comm_sms,
            device=device,
        )
        library.call("create", ctypes.byref(sizes), ctypes.byref(self._handle))
        library.call("set_ranks", self._handle, (RankAddresses * len(ranks))(*ranks), len(ranks))

    def schedule(self, stream: int) -> None:
        self._library.call("schedule", self._handle, stream)

    def forward(self, stream: int, multiply_only: bool = False) -> None:
        """With the schedule that was built last."""
        self._library.call("forward", self._handle, stream, int(multiply_only))

    def check(self) -> None:
        """Waits for the GPU; raises LibraryError where the last schedule or pass failed."""
        self._library.call("check", self._handle)

    def nbytes(self) -> int:
        bytes_held = ctypes.c_int64()
        self._library.call("nbytes", self._handle, ctypes.byref(bytes_held))
        return bytes_held.value

    def close(self) -> None:
        if self._handle:
            self._library.call("destroy", self._handle)
            self._handle = ctypes.c_void_p()
