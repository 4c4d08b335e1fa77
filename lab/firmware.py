"""ACPI table of the emulated firmware with two frequencies for each CPU.

QEMU's own tables have no frequencies, so the kernel would have no frequency governors.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

# The control port is unused: an emulated CPU has one speed.
_CPU = """
    External (\\_SB.CPUS.C{cpu:03X}, DeviceObj)
    Scope (\\_SB.CPUS.C{cpu:03X})
    {{
        Name (_PCT, Package (2)
        {{
            ResourceTemplate () {{ Register (SystemIO, 16, 0, 0x0880) }},
            ResourceTemplate () {{ Register (SystemIO, 16, 0, 0x0882) }}
        }})
        Name (_PSS, Package (2)
        {{
            Package (6) {{ 2000, 2000, 10, 10, 1, 1 }},
            Package (6) {{ 1000, 1000, 10, 10, 0, 0 }}
        }})
        Name (_PPC, 0)
    }}
"""


def frequencies(directory: Path, cpus: int) -> Path:
    """Compile the table for so many CPUs; return its file."""
    source = directory / "frequencies.asl"
    tables = "".join(_CPU.format(cpu=cpu) for cpu in range(cpus))
    source.write_text(f'DefinitionBlock ("", "SSDT", 2, "RTALAB", "CPUFREQ", 1)\n{{{tables}}}\n')
    subprocess.run(
        ["iasl", "-p", source.stem, source.name], cwd=directory, check=True, capture_output=True
    )
    return source.with_suffix(".aml")
