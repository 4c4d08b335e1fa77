"""The read API: the agent's state as JSON over HTTP, on a unix socket or a loopback port.

Every reply is made from the published snapshot: no view calls the store, the hypervisor or another
service.
"""
