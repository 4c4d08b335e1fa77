"""Collect the events and reports of a hypervisor."""

import queue
import time

from rtagent.ports import NullReporter

SOON = 120.0  # seconds: a bound for what takes milliseconds, on a machine that is busy


class Watcher:
    """Keeps the words of `Hypervisor.start`."""

    def __init__(self):
        self._words = queue.Queue()

    def __call__(self, word):
        self._words.put(word)

    def wait_for(self, word):
        """Returns when that word comes; what came before it is forgotten."""
        deadline = time.monotonic() + SOON
        while self._words.get(timeout=max(0.0, deadline - time.monotonic())) != word:
            pass

    def words(self):
        """What came and was not waited for."""
        return [self._words.get_nowait() for _ in range(self._words.qsize())]


class Recorder(NullReporter):
    """Keeps the health of each part and every sentence."""

    def __init__(self):
        self.healths = {}
        self.sentences = []

    def health(self, part, status, output=""):
        self.healths[part] = (status, output)

    def log(self, level, sentence):
        self.sentences.append((level, sentence))
