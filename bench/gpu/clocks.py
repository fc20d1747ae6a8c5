# SPDX-License-Identifier: Apache-2.0
"""The GPU's clock and power while something runs, through the driver's management library."""

import ctypes
import dataclasses
import statistics
import threading

_CLOCK_SM = 1  # NVML_CLOCK_SM
_SECONDS_BETWEEN_SAMPLES = 0.02


@dataclasses.dataclass(frozen=True)
class Clocks:
    """Medians over what ran; None where the driver does not tell."""

    sm_mhz: float | None
    watts: float | None


class ClockSampler:
    """Samples in a thread of its own between start() and stop(). Without the library it knows nothing."""

    def __init__(self, uuid: str | None):
        self._samples: list[tuple[int, int]] = []
        self._library, self._device = _open_device(uuid)
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._samples = []
        self._stopped.clear()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> Clocks:
        if self._thread is not None:
            self._stopped.set()
            self._thread.join()
            self._thread = None
        if not self._samples:
            return Clocks(None, None)
        mhz, milliwatts = zip(*self._samples)
        return Clocks(statistics.median(mhz), statistics.median(milliwatts) / 1000)

    def _run(self) -> None:
        while not self._stopped.wait(_SECONDS_BETWEEN_SAMPLES):
            sample = self._sample()
            if sample is None:
                return
            self._samples.append(sample)

    def _sample(self) -> tuple[int, int] | None:
        if self._library is None:
            return None
        mhz, milliwatts = ctypes.c_uint(), ctypes.c_uint()
        if self._library.nvmlDeviceGetClockInfo(self._device, _CLOCK_SM, ctypes.byref(mhz)) != 0:
            return None
        if self._library.nvmlDeviceGetPowerUsage(self._device, ctypes.byref(milliwatts)) != 0:
            return None
        return mhz.value, milliwatts.value


def _open_device(uuid: str | None):
    """The library and a handle of the GPU; (None, None) where there is no such thing."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None, None
    if library.nvmlInit_v2() != 0:
        return None, None
    device = ctypes.c_void_p()
    # By its name, not by its number: CUDA_VISIBLE_DEVICES renumbers CUDA's GPUs and not the library's.
    if uuid is not None and library.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(device)) == 0:
        return library, device
    if library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0:
        return library, device
    return None, None
