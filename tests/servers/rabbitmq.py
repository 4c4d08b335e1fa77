"""One node of RabbitMQ, with an Erlang port mapper of its own."""

import contextlib
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence

import amqp

from tests.servers.process import Process
from tests.servers.server import Server, ServerFailed, accepts, free_port

# The script itself; the one on PATH switches to the user of the system service.
_SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"

#: What every server of the tests has: a log on its standard output, and a small disk is enough.
LIMITS = """\
log.file = false
log.console = true
log.console.level = warning
disk_free_limit.absolute = 50MB
"""
#: Who changes something, in the server's log.
_ACTOR = '<<"tests">>'
_CONFIG = "listeners.tcp.1 = 127.0.0.1:{port}\n"

# Schedulers that sleep when idle, and no distribution port on another address.
_ERLANG = (
    "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"
)


class RabbitMQ(Server):
    """A RabbitMQ server. :ivar transport_url: the URL for oslo.messaging."""

    name = "rabbitmq"

    def __init__(self) -> None:
        super().__init__()
        self.port = free_port()
        self._distribution_port = free_port()
        self._mapper_port = free_port()
        self._mapper: Process | None = None
        self._node = f"{self.name}-{self.port}@localhost"

    @property
    def transport_url(self) -> str:
        return f"rabbit://guest:guest@127.0.0.1:{self.port}/"

    def prepare(self) -> None:
        (self.directory / "rabbitmq.conf").write_text(_CONFIG.format(port=self.port) + LIMITS)
        (self.directory / "enabled_plugins").write_text("[].\n")
        mapper = ["epmd", "-address", "127.0.0.1", "-port", str(self._mapper_port)]
        self._mapper = Process(mapper, {}, self.directory, self.log, signal.SIGTERM)

    def command(self) -> Sequence[str]:
        return [_SERVER]

    def environment(self) -> Mapping[str, str]:
        directory = str(self.directory)
        return {
            "HOME": directory,  # the Erlang cookie
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self._mapper_port),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": f"{directory}/rabbitmq.conf",
            "RABBITMQ_DIST_PORT": str(self._distribution_port),
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{directory}/enabled_plugins",
            "RABBITMQ_LOG_BASE": directory,
            "RABBITMQ_MNESIA_BASE": f"{directory}/mnesia",
            "RABBITMQ_NODENAME": self._node,
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _ERLANG,
            "RUNNING_UNDER_SYSTEMD": "1",  # no shell between us and the Erlang process
        }

    def answers(self) -> bool:
        if not accepts(self.port):
            return False
        try:
            with amqp.Connection(f"127.0.0.1:{self.port}", connect_timeout=5):
                return True
        except (OSError, amqp.exceptions.AMQPError):
            return False

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """Stop the broker in order for the length of the block.

        The Erlang machine goes on: it has loaded the code, which is most of a start's CPU time.
        """
        self._apply("rabbit stop")
        try:
            yield
        finally:
            self._apply("rabbit start")
            self.wait_answers()

    def _apply(self, function: str) -> None:
        self.run("erl_call", "-n", self._node, "-a", function)

    # -- administration, without rabbitmqctl: its start costs 0.8 s of CPU time --------------------

    def evaluate(self, expression: str) -> str:
        """Evaluate an expression of Erlang in the server, and return its value.

        :raises ServerFailed: it failed.
        """
        printed = self.run("erl_call", "-n", self._node, "-e", text=f"{expression}.\n")
        if not printed.startswith("{ok, "):
            raise ServerFailed(f"{expression}: {printed}")
        return printed[len("{ok, ") : -1]

    def add_vhost(self, name: str, queues: str = "") -> None:
        """Make a virtual host, in which the user guest may do everything.

        :param queues: their type, unless a client names one.
        """
        default = _binary(queues) if queues else "undefined"
        made = f"{_binary(name)}, <<>>, [], {default}, false, {_ACTOR}"
        self.evaluate(f"ok = rabbit_vhost:put_vhost({made})")
        self.permit("guest", ".*", ".*", ".*", vhost=name)

    def add_user(self, name: str, password: str) -> None:
        """Make a user, who may do nothing."""
        self._change("add_user", name, password)

    def change_password(self, user: str, password: str) -> None:
        self._change("change_password", user, password)

    def permit(self, user: str, configure: str, write: str, read: str, vhost: str = "/") -> None:
        """Set what a user may do, as patterns of names."""
        self._change("set_permissions", user, vhost, configure, write, read)

    def _change(self, function: str, *arguments: str) -> None:
        """Change users and what they may do."""
        given = ", ".join([*map(_binary, arguments), _ACTOR])
        self.evaluate(f"ok = rabbit_auth_backend_internal:{function}({given})")

    def alarm(self, raised: bool) -> None:
        """Raise the memory alarm, which lets no client publish, or end it."""
        share = 0.0 if raised else 0.4
        self.evaluate(f"ok = vm_memory_monitor:set_vm_memory_high_watermark({share})")

    def close(self) -> None:
        self.stop()
        if self._mapper is not None:
            self._mapper.stop(self.stop_timeout)
        shutil.rmtree(self.directory, ignore_errors=True)


def _binary(text: str) -> str:
    """Return Erlang's literal of a text without quotes and backslashes."""
    return f'<<"{text}">>'
