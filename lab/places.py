"""Directories of the lab, in an ignored directory of the checkout."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAB = ROOT / ".lab"
#: The last console log of each host.
CONSOLES = LAB / "consoles"
#: Links to the directories of running hosts.
HOSTS = LAB / "hosts"
