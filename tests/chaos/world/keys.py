"""The keys of a world: of each daemon, and one that all callers share."""

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.trust import KeyFiles

#: The name of the key of callers and observers.
CALLERS = "callers"
#: Seconds for which a signature is valid.
WINDOW = 20.0


def is_signed(seed: int) -> bool:
    """Return whether the world of a seed has keys."""
    return random.Random(f"signed {seed}").random() < 0.5


class Keys:
    """Files of keys for everything that signs. Every call must be signed.

    :ivar callers: the key of callers and observers.
    """

    def __init__(self, directory: Path, agents: Iterable[str], schedulers: Iterable[str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.files = KeyFiles(directory)
        self.callers = self.files.add(CALLERS, "operator")
        for name in agents:
            self.files.add(name, "agent", host=name)
        for name in schedulers:
            self.files.add(name, "scheduler")

    def options(self, name: str) -> dict[str, Any]:
        """Return the options of ``[rpc]`` of the program that has a key."""
        return self.files.options(name, require_signature=True, signature_window=WINDOW)
