"""What the emulated firmware tells the kernel of frequencies: two for each CPU.

QEMU's own tables tell of none, so there would be no frequency governors.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

# Both states are written to a port that nothing listens on: an emulated CPU has one speed.
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
    """An ACPI table for so many CPUs, compiled."""
    source = directory / "frequencies.asl"
    tables = "".join(_CPU.format(cpu=cpu) for cpu in range(cpus))
    source.write_text(f'DefinitionBlock ("", "SSDT", 2, "RTALAB", "CPUFREQ", 1)\n{{{tables}}}\n')
    subprocess.run(
        ["iasl", "-p", source.stem, source.name], cwd=directory, check=True, capture_output=True
    )
    return source.with_suffix(".aml")
