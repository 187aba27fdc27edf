"""How long a process has been at something, whatever others took of the machine meanwhile."""

import contextlib
import os
import time
from pathlib import Path


class ProcessClock:
    """Seconds of a process since it was last heard of: of processor time, and asleep.

    One that waits for a processor, or is stopped, is neither at work nor asleep.

    Parameters
    ----------
    process : int
        Its number.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._seen = time.monotonic()
        self.restart()

    def restart(self) -> None:
        """Count from here."""
        self._asleep, self._used = 0.0, self._seconds_used()

    def used(self) -> float:
        """Return the processor time."""
        return self._seconds_used() - self._used

    def asleep(self) -> float:
        """Return the time asleep; to be asked all the time."""
        now = time.monotonic()
        if self._sleeps():
            # No more than a second at a time, should the one who asks wait as well.
            self._asleep += min(now - self._seen, 1.0)
        self._seen = now
        return self._asleep

    def _seconds_used(self) -> float:
        try:
            with open(f"/proc/{self._process}/stat") as file:
                parts = file.read().rpartition(")")[2].split()
        except OSError:
            return time.monotonic()
        return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")

    def _sleeps(self) -> bool:
        """Say whether each of its threads waits for something else than the machine."""
        states = set()
        with contextlib.suppress(OSError):
            for path in Path(f"/proc/{self._process}/task").glob("*/stat"):
                states.add(path.read_text().rpartition(")")[2].split()[0])
        return states <= {"S"}
