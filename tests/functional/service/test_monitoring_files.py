"""The alert rules and the dashboard: checked by promtool, documented, and easy to import."""

import subprocess

import pytest
import yaml

from tests.functional.service.monitoring_files import ALERT_TESTS, ALERTS, ROOT, alerts, dashboard

RUNBOOK = ROOT / "doc" / "source" / "admin" / "runbook.rst"


def promtool(*arguments: object) -> str:
    """Run promtool, and return what it prints. It fails the test if a check fails."""
    command = ["promtool", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_alerts_fire_when_they_should_and_not_before():
    assert f"{len(alerts())} rules found" in promtool("check", "rules", ALERTS)
    promtool("test", "rules", ALERT_TESTS)
    cases = {case["name"] for case in yaml.safe_load(ALERT_TESTS.read_text())["tests"]}
    assert cases == {*alerts(), "a healthy site"}


@pytest.mark.parametrize("name", alerts())
def test_alert_has_a_severity_texts_and_an_entry_in_the_runbook(name):
    rule = alerts()[name]
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"].keys() == {"summary", "description", "runbook"}
    assert rule["annotations"]["runbook"] == f"Runbook, Alerts: {name}"
    section = RUNBOOK.read_text().partition("\nAlerts\n======\n")[2]
    assert f"   * - ``{name}``\n     - " in section


def test_dashboard_can_be_imported_into_any_grafana():
    board = dashboard()
    assert (board["id"], board["uid"], board["title"]) == (None, "rtagent", "rtagent")
    assert board["schemaVersion"] >= 36
    variables = {each["name"]: each["type"] for each in board["templating"]["list"]}
    assert variables == {"datasource": "datasource", "instance": "query"}
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set[tuple[int, int]]()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, f"{panel['title']} covers another panel"
        assert at["x"] + at["w"] <= 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["description"]
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            for target in panel["targets"]:
                assert target["datasource"] == panel["datasource"]
                assert '{instance=~"$instance"' in target["expr"]
