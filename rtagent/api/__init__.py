"""The read API: what the agent knows, as JSON over HTTP on a unix socket.

Every answer is made from the published snapshot; no handler asks anybody else.
"""
