"""The world of the chaos runs, and the faults that are injected into it."""
