"""A scheduler, and hosts that exist as reports."""

import pytest

from tests.servers.daemon import SchedulerServer, wait_until
from tests.support.scheduler_rpc import SchedulerBus

HOSTS = ("cn1", "cn2", "cn3")


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory, rabbitmq_server):
    config = {
        "DEFAULT": {"service_down_time": 3600},
        "scheduler": {"start_grace": 5},
        "oslo_messaging_rabbit": {"rabbit_interval_max": 1},
    }
    directory = tmp_path_factory.mktemp("scheduler")
    with SchedulerServer(directory, rabbitmq_server.transport_url, config=config) as made:
        yield made.wait_ready()


@pytest.fixture(scope="module")
def bus(scheduler, rabbitmq_server):
    """The bus, after the reports of three hosts with 8 CPUs."""
    made = SchedulerBus(rabbitmq_server.transport_url)

    def known() -> bool:
        made.report(*HOSTS)  # again, because the scheduler may be ready before it has its queue
        return len(scheduler.read("hosts")["hosts"]) == len(HOSTS)

    wait_until(known)
    yield made
    made.close()
