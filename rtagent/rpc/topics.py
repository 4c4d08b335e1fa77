"""The topics of messages: each has the queues of the servers of one API."""

#: Calls and casts reach one agent, by its host; a fanout cast reaches all agents.
AGENT = "rtagent"
#: Calls reach any scheduler; a fanout cast reaches all schedulers.
SCHEDULER = "scheduler"
