"""The programs: ``rtagentd``, the daemon, and ``rtagent``, the operator's command line.

Commands are thin: they ask the read API, the database or the RPC client and print the answer. Each
is an entry point of the group ``rtagent.cli``.
"""
