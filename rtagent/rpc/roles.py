"""Roles: what the caller of a method must have.

The table is the policy that is in force unless an operator overrides it, see
`rtagent.rpc.trust.policy`.
"""

from collections.abc import Mapping

from rtagent.conf.rpc import ROLES

READER, CONDUCTOR, SCHEDULER, AGENT, OPERATOR = ROLES
#: Needed by a method that every caller with one of the roles may call.
ANY = "any"

#: By what a method needs: the roles that are enough.
ENOUGH: Mapping[str, tuple[str, ...]] = {
    ANY: ROLES,
    READER: (READER, CONDUCTOR, SCHEDULER, OPERATOR),
    CONDUCTOR: (CONDUCTOR, OPERATOR),
    SCHEDULER: (SCHEDULER, OPERATOR),
    AGENT: (AGENT, OPERATOR),
    OPERATOR: (OPERATOR,),
}

#: By what a method needs: what such methods do, for operators.
MEANINGS: Mapping[str, str] = {
    ANY: "Every caller that has one of the roles.",
    READER: "Reads: get, list, test and explain.",
    CONDUCTOR: "Makes, changes and ends claims and moves, and selects hosts for them.",
    SCHEDULER: "Requests reports of agents, and informs other schedulers.",
    AGENT: "Reports a host to the schedulers.",
    OPERATOR: "Administers hosts and aggregates: drain, quarantine, restore, adoption, services.",
}
