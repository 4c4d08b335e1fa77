"""A run of random callers on a lab host, which also loses power, violates no promise."""

from pathlib import Path

from tests.chaos.checker.run import Run
from tests.chaos.nemesis.power import PowerLoss
from tests.chaos.run import Plan, make_trial

#: One of each kind. The seed draws a power failure after some others.
CHOSEN = (
    *("kill-agent", "pause-agent", "kill-libvirtd", "pause-libvirtd", "stop-libvirtd"),
    *("clock-step", "power-loss", "reboot", "failing-placement"),
    *("kill-broker", "stop-broker", "cut-link-broker"),
)
PLAN = Plan(seed=13, seconds=300, callers=4, hosts=1, faults=CHOSEN, lab=True)


def test_a_run_on_a_lab_host_keeps_every_promise(tmp_path: Path):
    trial = make_trial(PLAN, tmp_path)
    assert trial.exit_code == 0, str(trial)
    assert (trial.impossible, trial.quiets > 0) == ((), True)
    assert {PowerLoss.name, "kill-agent", "kill-libvirtd", "clock-step"} <= trial.faults.keys()

    run = Run.load(tmp_path / "history.jsonl")
    (lost, *_) = (each for each in run.faults if each.name == PowerLoss.name)
    answered = [call for call in run.calls.values() if call.ok]
    assert any(call.method == "instance_claim" and call.ended < lost.t for call in answered)
    assert any(call.invoked > lost.t for call in answered)
    assert any(each.runs and each.claim for each in run.domain_actions)
