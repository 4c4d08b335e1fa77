"""Figures are printed and written one by one, whatever happens to the next one."""

import json
import signal
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console

from benchmarks.figure import Figure
from benchmarks.results import Results

ROOT = Path(__file__).parents[3]


def figure(name):
    return Figure(name=name, value=1.0, unit="ms", target=2.0)


def test_a_measurement_that_fails_leaves_the_figures_of_the_others(tmp_path):
    def failing(bench=None):
        yield figure("first")
        raise OSError("no broker")

    written, printed = tmp_path / "figures.json", StringIO()
    results = Results(Console(file=printed, width=110), str(written), ("first", "last"))
    results.take("first, second", failing)
    assert list(json.loads(written.read_text())) == ["first"]
    results.take("last", lambda: iter([figure("last"), figure("unwanted")]))
    results.conclude()
    assert list(json.loads(written.read_text())) == ["first", "last"]
    assert results.failed == ["first, second"]
    assert "first: 1.00 ms, wanted at most 2 ms" in printed.getvalue()
    assert "OSError: no broker" in printed.getvalue()
    assert printed.getvalue().rstrip().endswith("failed: first, second")


def test_a_run_that_is_terminated_removes_its_directories(tmp_path):
    """The first measurement prints its figure, and the second waits with a directory."""
    written, code = tmp_path / "figures.json", tmp_path / "run.py"
    code.write_text(
        """
import sys, time
from benchmarks import __main__ as command
from benchmarks.figure import Figure

def quick(bench):
    yield Figure(name="claim_pci_p50", value=1.0, unit="ms", target=2.0)

def waits(bench):
    print(bench.directory(), flush=True)
    time.sleep(600)
    yield

command.MEASURES = {quick: ("claim_pci_p50",), waits: ("numa_fit_p50",)}
sys.exit(command.main())
"""
    )
    command = [sys.executable, str(code), "--json", str(written), "claim_pci_p50", "numa_fit_p50"]
    with subprocess.Popen(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE) as run:
        try:
            lines = iter(run.stdout)
            made = Path(next(line for line in lines if b".bench-" in line).decode().strip())
            assert made.is_dir()
            run.send_signal(signal.SIGTERM)
            rest = b"".join(lines)
            assert run.wait(60) == 128 + signal.SIGTERM
        finally:
            run.kill()
    assert not made.exists()
    assert b"claim_pci_p50" in rest
    assert list(json.loads(written.read_text())) == ["claim_pci_p50"]


def environment():
    return {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
