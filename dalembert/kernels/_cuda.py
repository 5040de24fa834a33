"""0 · kernels: programs on an NVIDIA GPU, by its driver: nothing but the driver must be installed."""

from __future__ import annotations

import ctypes
import functools
import time
from typing import Any

import numpy as np

from dalembert._results import DalembertError

LOG = 16_384
REGISTERS, ERROR_LOG, ERROR_LOG_SIZE = 0, 5, 6
"""Options of the driver's compiler (CUjit_option): most registers of a thread, text of an error and its length."""
MAJOR, MINOR, PROCESSORS = 75, 76, 16
"""Attributes of a device (CUdevice_attribute)."""


class Device:
    """The first GPU of this machine, and its memory."""

    def __init__(self):
        try:
            self.driver = ctypes.CDLL("libcuda.so.1")
        except OSError:
            raise DalembertError("There is no NVIDIA driver on this machine (libcuda.so.1).") from None
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._device, self._context = device, context
        self.enter()
        self.capability = 10 * self.attribute(MAJOR) + self.attribute(MINOR)
        self.processors = self.attribute(PROCESSORS)

    def call(self, name: str, *arguments: Any) -> None:
        """One function of the driver; its failure is an error."""
        code = getattr(self.driver, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.driver.cuGetErrorString(code, ctypes.byref(text))
            raise DalembertError(f"The GPU's driver refused {name}: {(text.value or b'').decode()} ({code}).")

    def enter(self) -> None:
        """Make this the device of the calling thread."""
        self.call("cuCtxSetCurrent", self._context)

    def attribute(self, which: int) -> int:
        found = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(found), which, self._device)
        return found.value

    def free_bytes(self) -> int:
        """Memory of the GPU that is free."""
        free, whole = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(whole))
        return free.value

    def wait(self) -> None:
        """Until all that was started has ended."""
        self.call("cuCtxSynchronize")


class Buffer:
    """Numbers in the GPU's memory: copied from an array, or as many as are asked for, not set."""

    def __init__(self, device: Device, like: np.ndarray | int):
        self.device = device
        self.count = like if isinstance(like, int) else like.size
        self.address = ctypes.c_uint64()
        device.call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(8 * max(self.count, 1)))
        if not isinstance(like, int) and like.size:
            self.put(like)

    def put(self, values: np.ndarray) -> None:
        values = np.ascontiguousarray(values, float)
        assert values.size <= self.count
        pointer = ctypes.c_void_p(values.ctypes.data)
        self.device.call("cuMemcpyHtoD_v2", self.address, pointer, ctypes.c_size_t(8 * values.size))

    def get(self, *shape: int) -> np.ndarray:
        """The first of these numbers."""
        out = np.empty(shape)
        if out.size:
            pointer = ctypes.c_void_p(out.ctypes.data)
            self.device.call("cuMemcpyDtoH_v2", pointer, self.address, ctypes.c_size_t(8 * out.size))
        return out

    def free(self) -> None:
        if self.address.value:
            self.device.driver.cuMemFree_v2(self.address)
            self.address = ctypes.c_uint64()

    def __del__(self):
        self.free()


class DeviceProgram:
    """PTX that the driver has compiled; `seconds` is how long that took."""

    def __init__(self, device: Device, ptx: bytes, registers: int | None = None):
        self.device = device
        self.module = ctypes.c_void_p()
        log = ctypes.create_string_buffer(LOG)
        options = {ERROR_LOG: ctypes.addressof(log), ERROR_LOG_SIZE: LOG}
        options |= {} if registers is None else {REGISTERS: registers}
        names = (ctypes.c_int * len(options))(*options)
        values = (ctypes.c_void_p * len(options))(*options.values())
        begin = time.perf_counter()
        try:
            device.call("cuModuleLoadDataEx", ctypes.byref(self.module), ptx, len(options), names, values)
        except DalembertError as refused:
            raise DalembertError(f"{refused} {log.value.decode(errors='replace')}") from None
        self.seconds = time.perf_counter() - begin

    @functools.cache  # noqa: B019  # programs live as long as the machine they belong to
    def entry(self, name: str) -> ctypes.c_void_p:
        found = ctypes.c_void_p()
        self.device.call("cuModuleGetFunction", ctypes.byref(found), self.module, name.encode())
        return found

    def figures(self, name: str) -> dict[str, int]:
        """Registers and bytes of local memory of a thread of an entry."""
        out, found = {}, ctypes.c_int()
        for word, which in (("registers", 4), ("local", 3)):
            self.device.call("cuFuncGetAttribute", ctypes.byref(found), which, self.entry(name))
            out[word] = found.value
        return out

    def start(self, name: str, threads: int, block: int, *arguments: int | Buffer) -> None:
        """Start an entry in so many threads, in blocks of `block`; does not wait for it."""
        cells = [ctypes.c_uint64(a.address.value) if isinstance(a, Buffer) else ctypes.c_int64(a) for a in arguments]
        pointers = (ctypes.c_void_p * len(cells))(*(ctypes.addressof(c) for c in cells))
        blocks = -(-threads // block)
        self.device.call("cuLaunchKernel", self.entry(name), blocks, 1, 1, block, 1, 1, 0, None, pointers, None)


@functools.cache
def device() -> Device:
    """The GPU of this machine; an error says why there is none."""
    return Device()
