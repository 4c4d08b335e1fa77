"""The files of etc/rtagent for Prometheus and Grafana."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
ALERTS = ROOT / "etc" / "rtagent" / "prometheus-alerts.yaml"
ALERT_TESTS = ROOT / "tests" / "data" / "prometheus-alerts-test.yaml"
DASHBOARD = ROOT / "etc" / "rtagent" / "grafana-dashboard.json"

_METRIC = re.compile(r"\b(?:rtagent|process)_\w+")
#: What Prometheus adds to the name of a family.
_SUFFIX = re.compile(r"_(?:bucket|count|sum)$")


def alerts() -> dict[str, dict[str, Any]]:
    """Return each alert by its name."""
    groups = yaml.safe_load(ALERTS.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    return json.loads(DASHBOARD.read_text())


def dashboard_queries() -> list[str]:
    """Return every query of the dashboard's panels."""
    return [each["expr"] for panel in dashboard()["panels"] for each in panel.get("targets", ())]


def metrics_in(queries: Iterable[str]) -> set[str]:
    """Return the metrics that queries name, without the suffixes of histograms."""
    outside_of_labels = (re.sub(r"\{[^}]*\}", "", query) for query in queries)
    names = {name for query in outside_of_labels for name in _METRIC.findall(query)}
    return {_SUFFIX.sub("", name) for name in names}


def metrics_named() -> set[str]:
    """Return the metrics that the alerts and the dashboard name."""
    rules = [rule["expr"] for rule in alerts().values()]
    return metrics_in([*rules, *dashboard_queries()])
