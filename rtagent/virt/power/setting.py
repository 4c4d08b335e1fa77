"""A setting of CPUs: for each, one line in a file of the kernel's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rtagent.errors import CpuPowerFailed


def put(files: Mapping[int, Path], wanted: str) -> None:
    """Write it for each CPU of which it is not so already.

    :raises CpuPowerFailed: of the first CPU with which it did not work; the others have it.
    """
    failed = [error for cpu, file in files.items() if (error := _put(cpu, file, wanted))]
    if failed:
        raise failed[0]


def _put(cpu: int, file: Path, wanted: str) -> CpuPowerFailed | None:
    try:
        if file.read_text().strip() != wanted:
            file.write_text(wanted)
    except OSError as exc:
        return CpuPowerFailed(cpu=cpu, file=str(file), wanted=wanted, why=exc.strerror)
    return None
