"""python -m tests.chaos.planted [NAME...]

Exit code 0: each defect was found in time; 1: at least one was not; 2: the search itself failed or
was interrupted.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.options import count, minutes, names
from tests.chaos.planted.defect import Defect, NotPlanted
from tests.chaos.planted.defects import DEFECTS
from tests.chaos.planted.search import LIMIT, RunFailed, search
from tests.chaos.planted.tree import plant
from tests.chaos.run import interrupt_at_sigterm

SEARCH_FAILED = 2


def main(arguments: list[str] | None = None) -> int:
    """Plant each defect, and search it."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.planted",
        description="Plant defects in copies of the tree, and find them.",
        epilog="\n".join(f"{each.name}: {each.meaning}" for each in DEFECTS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="*", type=_name, help="default: all")
    parser.add_argument(
        "--minutes", type=minutes, default=LIMIT / 60, help="within which each must be found (10)"
    )
    parser.add_argument("--seed", type=count, default=1, help="of the first run (1)")
    options = parser.parse_args(arguments)
    interrupt_at_sigterm()
    chosen = [each for each in DEFECTS if not options.name or each.name in options.name]
    try:
        found = [_find(each, options.minutes * 60, options.seed) for each in chosen]
    except (NotPlanted, RunFailed) as error:
        print(error, file=sys.stderr)
        return SEARCH_FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return SEARCH_FAILED
    return 0 if all(found) else 1


def _name(text: str) -> str:
    (name,) = names([text], [each.name for each in DEFECTS])
    return name


def _find(defect: Defect, limit: float, seed: int) -> bool:
    """Search one defect; keep its directory if it was not found, and remove it otherwise."""
    tree, keep = Path(tempfile.mkdtemp(prefix=f"planted-{defect.name}-")), False
    try:
        plant(defect, tree)
        finding = search(defect, tree, _say, limit, seed)
        _say(str(finding))
        if keep := finding.violation is None:
            _say(f"{defect.name}: histories and logs are in {tree}")
        return not keep
    finally:
        if not keep:
            shutil.rmtree(tree, ignore_errors=True)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
