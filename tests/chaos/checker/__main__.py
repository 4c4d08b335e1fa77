"""python -m tests.chaos.checker FILE"""

import argparse
import sys
from pathlib import Path

from tests.chaos.checker.judge import judge
from tests.chaos.checker.run import Run


def main() -> int:
    """Print the violations of a history. Return 1 if there are any, and 2 if it is no history."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.checker", description=__doc__)
    parser.add_argument("file", type=Path, help="a history, in lines of JSON")
    arguments = parser.parse_args()
    try:
        run = Run.load(arguments.file)
    except (OSError, ValueError) as exc:
        print(exc, file=sys.stderr)
        return 2
    violations = judge(run)
    for violation in violations:
        print(violation)
    print(
        f"{arguments.file}: {len(run.calls)} calls, {len(run.faults)} faults,"
        f" {len(run.periods)} quiet periods, {len(violations)} violations"
    )
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
