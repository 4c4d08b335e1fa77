"""Progress: what a run does now, as a bar; on no terminal, as lines."""

from __future__ import annotations

import time
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars


class Progress:
    """Shows one bar for each step, in a block."""

    def __init__(self, console: Console) -> None:
        self._console = console
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._bars = Bars(*columns, console=console, disable=not console.is_terminal)
        self._step = ""
        self._task = self._bars.add_task("", visible=False)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show(self, step: str, done: float, total: float) -> None:
        """Show how far a step is."""
        if step != self._step:
            self._step = step
            self._task = self._bars.add_task(step, total=total)
            if not self._console.is_terminal:
                self._console.print(f"{step} ...", style="italic", highlight=False)
        self._bars.update(self._task, completed=int(done), total=int(total))

    def wait(self, step: str, seconds: float) -> None:
        """Wait, and show for how long."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            self.show(step, passed, seconds)
            time.sleep(min(1.0, seconds - passed))
        self.show(step, seconds, seconds)
