# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The GPU that a program runs on: its name, its clock and power.

PyTorch counts the GPUs that CUDA_VISIBLE_DEVICES leaves, the driver's library
and nvidia-smi count all: both know a GPU by its identifier.
"""

from __future__ import annotations

import ctypes
import platform
import subprocess
from importlib import metadata
from typing import Any

import torch


def gpu_uuid() -> str:
    """The identifier of the current GPU; empty without a GPU."""
    if not torch.cuda.is_available():
        return ""
    return f"GPU-{torch.cuda.get_device_properties(0).uuid}"


def short_uuid() -> str:
    """The part of the identifier that differs between GPUs of one host."""
    return gpu_uuid()[4:12]


class _FieldValue(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = [
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("kind", ctypes.c_uint),
        ("status", ctypes.c_uint),
        ("value", ctypes.c_ulonglong),
    ]


class DeviceReader:
    """Clock and power of the current GPU from NVML; None without NVML.

    nvidia-smi uses the same library, but starting it takes longer than
    measuring most tables.
    """

    _SM_CLOCK = 1
    #: The current power; the usage that drivers report is the mean of a second.
    _POWER_INSTANT, _UNSIGNED = 186, 1

    def __init__(self) -> None:
        self._device = ctypes.c_void_p()
        try:
            self._library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        if (
            self._library.nvmlInit_v2()
            or self._library.nvmlDeviceGetHandleByUUID(
                gpu_uuid().encode(), ctypes.byref(self._device)
            )
        ):
            self._device = ctypes.c_void_p()

    def clock(self) -> float | None:
        """The clock of the multiprocessors in MHz."""
        value = ctypes.c_uint()
        if not self._device or self._library.nvmlDeviceGetClockInfo(
            self._device, self._SM_CLOCK, ctypes.byref(value)
        ):
            return None
        return float(value.value)

    def power(self) -> float | None:
        """The power in W."""
        field = _FieldValue(field=self._POWER_INSTANT)
        if (
            not self._device
            or self._library.nvmlDeviceGetFieldValues(
                self._device, 1, ctypes.byref(field)
            )
            or field.status
            or field.kind != self._UNSIGNED
        ):
            return None
        return (field.value & 0xFFFFFFFF) / 1000


_QUERY = (
    "name",
    "uuid",
    "driver_version",
    "clocks.sm",
    "clocks.mem",
    "power.draw",
    "temperature.gpu",
    "clocks_event_reasons.active",
)


def read_device() -> dict[str, str]:
    """The report of nvidia-smi on the current GPU; empty without nvidia-smi."""
    try:
        done = subprocess.run(
            [
                "nvidia-smi",
                f"--query-gpu={','.join(_QUERY)}",
                "--format=csv,noheader,nounits",
                f"--id={gpu_uuid()}",
            ],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    values = [value.strip() for value in done.stdout.strip().split(",")]
    return dict(zip(_QUERY, values))


def describe_device() -> dict[str, Any]:
    """The machine of the measurements, for the head of a results file."""

    def version(package: str) -> str:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return "not installed"

    return {
        "gpu": torch.cuda.get_device_name(0),
        "driver": read_device().get("driver_version", ""),
        "versions": {
            "torch": torch.__version__,
            "cuda": torch.version.cuda,
            "triton": version("triton"),
            "transformers": version("transformers"),
            "python": platform.python_version(),
        },
    }
