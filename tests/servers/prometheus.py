"""Prometheus, with its database in a directory of its own."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.servers.server import Server, free_port

#: Scrapes and evaluations each second, so that a test need not wait.
INTERVAL = "1s"


class Prometheus(Server):
    """Prometheus as Debian packages it.

    with Prometheus([{"job_name": "rtagent", "static_configs": [...]}], [rules]) as prometheus:
        prometheus.query("up")
    """

    name = "prometheus"

    def __init__(self, jobs: Sequence[Mapping[str, Any]], rules: Sequence[Path] = ()) -> None:
        """:param jobs: the ``scrape_configs``. :param rules: the ``rule_files``."""
        super().__init__()
        self._jobs, self._rules = jobs, rules
        self.port = free_port()
        self._file = self.directory / "prometheus.yml"

    def prepare(self) -> None:
        document = {
            "global": {
                "scrape_interval": INTERVAL,
                "scrape_timeout": INTERVAL,
                "evaluation_interval": INTERVAL,
            },
            "rule_files": [str(each) for each in self._rules],
            "scrape_configs": list(self._jobs),
        }
        self._file.write_text(yaml.safe_dump(document))

    def command(self) -> Sequence[str]:
        return [
            "prometheus",
            f"--config.file={self._file}",
            f"--storage.tsdb.path={self.directory}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--log.level=warn",
        ]

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5):
                return True
        except OSError:
            return False

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the samples of an expression now. :raises ValueError: it is not valid."""
        return list(self.get("query", query=expression)["result"])

    def get(self, path: str, **parameters: str) -> Any:
        """Return the data of a path below ``/api/v1``. :raises ValueError: with the error."""
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}", timeout=30
            ) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error).get("error", "")) from error
