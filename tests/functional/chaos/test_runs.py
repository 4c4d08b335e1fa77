"""A run of random callers, with faults, violates no promise."""

from pathlib import Path

from tests.chaos.callers.adversary import FORGER, REPLAYER
from tests.chaos.checker.run import Run
from tests.chaos.run import Plan, make_trial
from tests.chaos.world.keys import WINDOW

#: Faults from which everything recovers within seconds.
SHORT = ("kill-agent", "stop-scheduler", "cut-link-broker", "pause-placement")


def test_a_run_with_faults_keeps_every_promise(tmp_path: Path, long: bool):
    if long:
        plan = Plan(seed=17, seconds=600)
    else:
        plan = Plan(seed=17, seconds=6, hosts=2, faults=SHORT, database="sqlite")
    trial = make_trial(plan, tmp_path)
    assert trial.exit_code == 0, str(trial)
    assert trial.quiets > 0
    assert trial.faults
    calls = Run.load(tmp_path / "history.jsonl").calls.values()
    forgeries = [call for call in calls if call.process == FORGER]
    replays = [call for call in calls if call.process == REPLAYER]
    assert any("not that of the key" in call.error.get("reason", "") for call in forgeries)
    assert any(call.error.get("skew", 0.0) < -WINDOW for call in replays)


def test_a_run_with_conductors_keeps_every_promise(tmp_path: Path, long: bool):
    if long:
        plan = Plan(seed=17, seconds=600, conductors=3)
    else:
        faults = ("kill-conductor", "late-order", "late-call", "late-allocation")
        plan = Plan(seed=17, seconds=10, hosts=2, conductors=2, faults=faults, database="sqlite")
    trial = make_trial(plan, tmp_path)
    assert trial.exit_code == 0, str(trial)
    assert trial.quiets > 0
    assert trial.calls
    assert trial.faults
