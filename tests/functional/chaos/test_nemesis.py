"""The nemesis draws faults from a seed, and leaves nothing broken behind."""

from __future__ import annotations

import threading
from itertools import islice
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from rtagent.virt.simulate import Machine, domain_xml, edit, simulate
from tests.chaos.history import History, read
from tests.chaos.nemesis import FAULTS, Nemesis
from tests.chaos.nemesis.fault import Fault, NotYet
from tests.chaos.nemesis.nemesis import AT_ONCE, plan
from tests.servers.daemon import wait_until

#: A world that cannot break.
WORLD: Any = SimpleNamespace(links={}, parts=[], database_kind="none", patience=1, speed=1.0)


class Going(Fault):
    """Notes the faults that go on. :ivar most: how many there were at once."""

    going: list[Going] = []
    most = 0
    guard = threading.Lock()

    def begin(self, world: Any, random: Random) -> None:
        self.target = f"target {random.randrange(1000)}"
        with self.guard:
            assert self.family not in [each.family for each in self.going]
            self.going.append(self)
            Going.most = max(Going.most, len(self.going))

    def end(self, world: Any) -> None:
        with self.guard:
            if self in self.going:
                self.going.remove(self)


class Stubborn(Going):
    """Ends after the others only."""

    def end(self, world: Any) -> None:
        with self.guard:
            if self.going != [self]:
                raise NotYet("another one goes on")
        super().end(world)


class Failing(Going):
    """Cannot begin."""

    def begin(self, world: Any, random: Random) -> None:
        raise RuntimeError("no such server")


REGISTRY: dict[str, type[Fault]] = {
    name: type(name, (base,), {"name": name, "family": family})
    for name, family, base in (
        ("one", "a", Going),
        ("two", "a", Going),
        ("three", "b", Going),
        ("four", "c", Stubborn),
        ("five", "d", Going),
    )
}


def test_the_plan_depends_on_the_seed_only():
    names = ["c", "a", "b"]
    drawn = list(islice(plan(7, names), 30))
    assert drawn == list(islice(plan(7, sorted(names)), 30))
    assert drawn != list(islice(plan(8, names), 30))


def test_every_fault_occurs_before_one_occurs_again():
    drawn = [each.name for each in islice(plan(7, "abcde"), 25)]
    for start in range(0, 25, 5):
        assert sorted(drawn[start : start + 5]) == list("abcde")


def test_faults_are_injected_in_the_order_of_the_plan_and_end(tmp_path: Path):
    with History(tmp_path / "history.jsonl") as history:
        nemesis = Nemesis(WORLD, 3, history, registry=REGISTRY, speed=25)
        nemesis.start()
        wait_until(lambda: history.count("fault") > 30)
        nemesis.end_all()
        assert Going.going == []
        halfway = history.count("fault")
        nemesis.start()
        wait_until(lambda: history.count("fault") > halfway + 4)
        nemesis.end_all()
        assert Going.going == [] and nemesis.failures == []
    assert Going.most == AT_ONCE
    faults = list(read(history.path))
    begun = [each for each in faults if each["state"] == "begin"]
    names = [each["name"] for each in begun]
    assert names == [each.name for each in islice(plan(3, REGISTRY), len(names))]
    assert sorted(each["name"] for each in faults if each["state"] == "end") == sorted(names)
    assert all(each["target"].startswith("target ") for each in faults)


def test_a_fault_waits_for_the_end_of_those_that_it_excludes(tmp_path: Path):
    excluding = {"name": "six", "family": "e", "excludes": frozenset({"a", "b"})}
    names = ("one", "three", "five")
    registry = {"six": type("six", (Going,), excluding), **{n: REGISTRY[n] for n in names}}
    with History(tmp_path / "history.jsonl") as history:
        nemesis = Nemesis(WORLD, 3, history, registry=registry, speed=25)
        nemesis.start()
        wait_until(lambda: history.count("fault") > 60)
        nemesis.end_all()
    going: set[str] = set()
    seen: set[frozenset[str]] = set()
    for each in read(history.path):
        going ^= {each["name"]}
        seen.add(frozenset(going))
    assert {"five", "six"} in seen
    assert not [each for each in seen if "six" in each and each & {"one", "three"}]


def test_a_fault_that_cannot_begin_is_a_failure_of_the_run(tmp_path: Path):
    failing = type("failing", (Failing,), {"name": "failing", "family": "a"})
    with History(tmp_path / "history.jsonl") as history:
        nemesis = Nemesis(WORLD, 3, history, registry={"failing": failing}, speed=100)
        nemesis.start()
        wait_until(lambda: bool(nemesis.failures))
        nemesis.end_all()
    assert "failing of nothing: begin: RuntimeError('no such server')" in nemesis.failures


def test_faults_that_the_world_cannot_have_are_named(tmp_path: Path):
    absent = type("absent", (Going,), {"name": "absent", "applies": classmethod(lambda *_: False)})
    nemesis = Nemesis(WORLD, 3, None, registry={**REGISTRY, "absent": absent})
    assert nemesis.impossible == ("absent",)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"no such fault: nine; choose from five, four, one"):
        Nemesis(WORLD, 3, None, ["one", "nine"], registry=REGISTRY)


@pytest.mark.parametrize("name", ["unreachable-hypervisor", "garbled-hypervisor"])
def test_a_host_that_returns_has_the_edits_of_before(tmp_path: Path, name: str):
    """An edit that is under way when the fault begins ends first."""
    file, uuid = tmp_path / "host.xml", "7a1c4f1e-6f0a-4b57-9d0e-0d1f3a2b4c5d"
    simulate(file, Machine())
    world: Any = SimpleNamespace(
        agents={"host-1": SimpleNamespace(directory=tmp_path)}, simulated=["host-1"]
    )
    fault = FAULTS[name]()
    thread = threading.Thread(target=fault.begin, args=(world, Random(1)))
    with edit(file) as content:
        thread.start()
        thread.join(0.5)
        content.add_domain(domain_xml(uuid, vcpus=1, memory_mb=128))
    thread.join()
    fault.end(world)
    with edit(file) as content:
        assert content.domain(uuid) is not None
