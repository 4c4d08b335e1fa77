"""rtagent-scheduler on a database that it shares with the agents: it needs no report."""

from functools import partial

from rtagent.db.engine import open_engine
from rtagent.db.node_records import SqlNodes
from rtagent.db.registry import SqlServiceRegistry
from rtagent.rpc.client import SchedulerAPI
from tests.servers.daemon import SchedulerServer, wait_until
from tests.support.hosts import NOON, uid
from tests.support.scheduler_rpc import SchedulerBus, spec
from tests.support.trackers import started
from tests.support.workload.deployment import migrated


def test_scheduler_selects_hosts_that_it_knows_from_the_database(tmp_path, rabbitmq, postgresql):
    url = migrated(postgresql.create_database())
    engine = open_engine(url, 30)
    nodes = {name: started(engine, name, 2).snapshot() for name in ("cn1", "cn2", "new", "gone")}
    for name in ("cn1", "cn2", "gone"):
        SqlServiceRegistry(engine).heartbeat(name, NOON)
    SqlNodes(engine).remove(nodes["gone"].node.uuid, lambda record, live: None, NOON)
    engine.dispose()
    config = {
        "database": {"connection": url},
        "scheduler": {"start_grace": 300, "report_jitter": 60},
        "DEFAULT": {"service_down_time": 3600},
    }
    with SchedulerServer(tmp_path, rabbitmq.transport_url, config=config) as scheduler:
        scheduler.wait_ready()
        shown = {each["host"]: each for each in scheduler.read("hosts")["hosts"]}
        assert set(shown) == {"cn1", "cn2", "new"}
        assert (shown["new"]["age"], shown["new"]["alive"]) == (None, False)
        assert shown["cn1"]["vcpus_used"] == 4 and shown["cn1"]["alive"]
        bus = SchedulerBus(rabbitmq.transport_url)
        reply = bus.call("select_destinations", spec(), [uid()])
        assert reply["selections"][0]["selected"]["host"] in ("cn1", "cn2")
        bus.close()


def has_aggregates(scheduler: SchedulerServer, expected: list) -> bool:
    return scheduler.read("aggregates")["aggregates"] == expected


def counts(scheduler: SchedulerServer, *vcpus: int) -> bool:
    return [each["vcpus_used"] for each in scheduler.read("hosts")["hosts"]] == list(vcpus)


def test_schedulers_of_one_database_share_aggregates_and_forgotten_claims(
    tmp_path, rabbitmq, postgresql
):
    url = migrated(postgresql.create_database())
    made = [
        SchedulerServer(
            tmp_path / host,
            rabbitmq.transport_url,
            database_url=url,
            config={
                "DEFAULT": {"host": host, "service_down_time": 3600},
                "scheduler": {"start_grace": 3, "assume_timeout": 600},
            },
        ).start()
        for host in ("scheduler1", "scheduler2")
    ]
    for each in made:
        each.wait_ready()
    bus = SchedulerBus(rabbitmq.transport_url)
    created = bus.call("create_aggregate", uid(), "fast", {"ssd": "true"})
    for each in made:
        wait_until(partial(has_aggregates, each, [created]))
        assert each.read("health")["status"] == "pass"
    for each in made:

        def known(scheduler: SchedulerServer = each) -> bool:
            bus.report("cn1")
            return counts(scheduler, 0)

        wait_until(known)
    [found] = bus.call("select_destinations", spec(), [uid()])["selections"]
    [other] = [number for number, each in enumerate(made, 1) if counts(each, 0)]
    api = SchedulerAPI(bus.transport, f"scheduler{other}")
    api.forget_claim(bus.context, found["selected"]["operation_id"])
    for each in made:
        wait_until(partial(counts, each, 0))  # before assume_timeout
    bus.close()
    for each in made:
        each.kill()
        each.close()
