"""Waiting for something to happen. The limit is there to end a hang; no test says how fast a machine must be."""

import os
import time
from pathlib import Path

# Seconds. What takes a moment on a machine at rest may take a minute on one that has much else to do.
HANG = 300.0


def eventually(holds, *, seconds=HANG):
    """Whether something comes to hold, however long it takes."""
    end = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(0.01)
    return held


def cpu_seconds(process):
    """The seconds that a process has computed, which do not grow while it waits for others."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
