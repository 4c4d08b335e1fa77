"""The host that a guest is to fit onto."""

from __future__ import annotations

from rtagent.model.base import Value
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.numa_usage import NumaUsage
from rtagent.model.topology import Topology


class Host(Value, frozen=True, kw_only=True):
    """What there is, and what is taken of it.

    :ivar name: of the node, for refusals to name.
    """

    name: str
    topology: Topology
    usage: NumaUsage
    policy: NumaPolicy
