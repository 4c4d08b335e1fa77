"""GuestDomain: the domain of a server on one host, as a conductor orders it."""

from __future__ import annotations

from typing import Literal

from rtagent.model.base import Value
from rtagent.model.claim import Claim

#: ``absent``: not defined. ``stopped``: defined, and not active. ``running``: active, or paused.
GuestState = Literal["absent", "stopped", "running"]


class GuestDomain(Value, frozen=True, kw_only=True):
    """A domain to define on the host of its claim.

    :ivar uuid: of the server, and uuid and name of the domain. :ivar name: of the server. It is the
        domain's title: names of servers need not differ.
    :ivar claim: the claim that the domain enacts, as the agent returned it.
    :ivar guest: children of ``<domain>`` that enact the claim, as the agent returned them.
    :ivar node_devices: documents of the mediated devices to create before the domain starts.
    :ivar document: a domain document with disks, networks and whatever else a claim does not
        determine; None: a minimal one is made from the flavor.
    """

    uuid: str
    name: str
    claim: Claim
    guest: str = ""
    node_devices: tuple[str, ...] = ()
    document: str | None = None
