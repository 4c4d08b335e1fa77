"""The topics of messages: each has the queues of the servers of one API."""

from collections.abc import Mapping

#: Calls and casts reach one agent, by its host; a fanout cast reaches all agents.
AGENT = "rtagent"
#: Calls reach any scheduler; a fanout cast reaches all schedulers.
SCHEDULER = "scheduler"

#: The version of each API that clients send: every release since 0.2.0 serves it.
VERSIONS: Mapping[str, str] = {AGENT: "1.9", SCHEDULER: "1.3"}
