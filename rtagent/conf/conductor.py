"""[conductor]: the database, the hosts and the time limits of a conductor."""

from rtagent.conf.options import Group, option


class ConductorSettings(Group, frozen=True, kw_only=True):
    """[conductor]. Times are in seconds.

    :ivar connection:
        The SQLAlchemy URL of the database of servers and operations, as ``[database] connection``.

        The schema of an SQLite database is created at the first use. Conductors that share a
        database share their servers: each one can continue the unfinished operations of the others.
    :ivar host_uri:
        The libvirt URI by which the conductor reaches the hypervisor of a host. ``{host}`` is
        replaced by the name of the host, which is ``[DEFAULT] host`` of its agent.

        For simulated hosts: ``test:///var/lib/hosts/{host}.xml``.
    :ivar migration_uri:
        The libvirt URI by which the source of a live migration reaches its destination. Unset: that
        of ``host_uri``.
    :ivar max_attempts: The number of hosts that are tried for one build or move, from 1 to 100.
    :ivar host_timeout:
        The time for which a call to one agent, scheduler or hypervisor is repeated while it does
        not answer or is not ready, in seconds; at least 1. After it, another host is tried, or the
        operation stops and can be resumed.
    :ivar operation_timeout:
        The time after which an operation repeats no call any more, in seconds; at least 10. Then it
        is undone, or it stops and can be resumed.
    :ivar lease_renew_interval:
        The interval at which the lease of a claim is renewed while disks are made ready or copied,
        in seconds; at least 1. It must be less than half of ``[claims] claim_expiry_time`` of the
        agents.
    :ivar takeover_time:
        The time after which an operation may be taken over if its conductor has not updated its
        record, in seconds; at least 1. It must be longer than libvirt's daemons keep the session of
        a client that does not answer, ``keepalive_interval * (keepalive_count + 1)`` of their
        configuration: 30 seconds by default.
    :ivar shutdown_timeout:
        The time that a guest gets to shut down before it is switched off, in seconds.
    :ivar migration_timeout:
        The time after which a live migration is aborted, in seconds; at least 10.
    """

    connection: str = option(default="sqlite:///$state_path/conductor.sqlite", secret=True)
    host_uri: str = option(default="qemu+ssh://{host}/system", regex=r"^[a-z+]+://.*\{host\}.*$")
    migration_uri: str | None = option(regex=r"^[a-z+]+://.*\{host\}.*$")
    max_attempts: int = option(default=3, min=1, max=100)
    host_timeout: float = option(default=60.0, min=1.0)
    operation_timeout: float = option(default=3600.0, min=10.0)
    lease_renew_interval: float = option(default=60.0, min=1.0)
    takeover_time: float = option(default=45.0, min=1.0)
    shutdown_timeout: float = option(default=60.0, min=0.0)
    migration_timeout: float = option(default=1800.0, min=10.0)
