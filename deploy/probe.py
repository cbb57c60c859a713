"""Looks at a box: run there by its own Python, from standard input, with one JSON argument; prints one JSON object.

It must run on whatever Python the box has (3.6 and later), needs nothing but that, and changes nothing.
"""

import ctypes
import importlib.util
import json
import os
import platform
import shutil
import socket
import sys
import time
from typing import Any, Dict, List

_REACH_S = 5.0
_MIB = 1 << 20


def main(question: Dict[str, Any]) -> Dict[str, Any]:
    """`question`: folders, files, programs, places ([name, host, port]), gpus (whether to ask the driver)."""
    return {
        "time_s": time.time(),
        "python": list(sys.version_info[:3]),
        "executable": sys.executable,
        "venv": all(importlib.util.find_spec(name) is not None for name in ("venv", "ensurepip")),
        "machine": platform.machine(),
        "libc": list(platform.libc_ver()),
        "systemd": os.path.isdir("/run/systemd/system"),
        "free_mib": {folder: _free_mib(folder) for folder in question["folders"]},
        "missing_files": [path for path in question["files"] if not os.path.exists(path)],
        "missing_programs": [name for name in question["programs"] if shutil.which(name) is None],
        "unreached": _unreached(question["places"]),
        "gpus": _gpus() if question["gpus"] else None,
    }


def _free_mib(folder: str) -> int:
    """For the file system on which the folder is, or will be."""
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    info = os.statvfs(folder)
    return info.f_bavail * info.f_frsize // _MIB


def _unreached(places: List[Any]) -> Dict[str, str]:
    """What each place that does not answer did instead."""
    found = {}
    for name, host, port in places:
        try:
            socket.create_connection((host, port), timeout=_REACH_S).close()
        except OSError as error:
            found[name] = str(error)
    return found


def _gpus() -> Dict[str, Any]:
    """The driver's version and each GPU's name, or the problem in words."""
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return {"problem": str(error)}
    code = nvml.nvmlInit_v2()
    if code != 0:
        return {"problem": "NVML does not start: error " + str(code)}
    try:
        text = ctypes.create_string_buffer(96)
        nvml.nvmlSystemGetDriverVersion(text, 96)
        driver = text.value.decode()
        count = ctypes.c_uint()
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        names = []
        for index in range(count.value):
            handle = ctypes.c_void_p()
            if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0:
                nvml.nvmlDeviceGetName(handle, text, 96)
                names.append(text.value.decode())
        return {"driver": driver, "names": names}
    finally:
        nvml.nvmlShutdown()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1]))))
