"""Where the emulator's own threads run."""

from __future__ import annotations

from rtagent.numa.cpu_policy import SHARED
from rtagent.numa.properties import Properties, conflict

#: On the host's shared CPUs, where it has some.
SHARE = "share"
#: On a host CPU taken for them, beside guest cell 0.
ISOLATE = "isolate"

EMULATOR_THREADS_POLICIES = (SHARE, ISOLATE)


def emulator_threads_policy(properties: Properties, cpu_policy: str) -> str | None:
    """``hw:emulator_threads_policy``, which only the flavor has; None: with the guest's vCPUs.

    :raises InvalidFlavor:
    """
    asked = properties.extra_spec("hw:emulator_threads_policy")
    if asked is None:
        return None
    policy = asked.one_of(EMULATOR_THREADS_POLICIES)
    if policy == ISOLATE and cpu_policy == SHARED:
        raise conflict(
            "only a guest with dedicated CPUs has one more for its emulator",
            asked,
            *properties.sides("hw:cpu_policy", cpu_policy),
        )
    return policy
