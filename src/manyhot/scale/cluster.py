"""Ray: imported where it is used, started quietly, and shut down by whoever started it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from manyhot.refusal import refusal

OWNER = "predict_with_ray"
MOST_READERS = 8


def import_ray() -> Any:
    """Ray, or the sentence that says how to get it."""
    # Read when Ray is imported or started: no figures to its makers, no advice about settings of others.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ImportError:
        raise ImportError("Scoring with Ray needs ray. Install it with: pip install 'manyhot[ray]'") from None
    return ray


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Ray, connected to the cluster of an address or to one on this machine that lasts as long as the block.

    A connection that the program already has is used, and stays.

    Args:
        address: Such as "auto" or "head:6379"; that of RAY_ADDRESS by default, if that is set.
    """
    ray = import_ray()
    if ray.is_initialized():
        yield ray
        return
    if address is not None and address.startswith("ray://"):
        remedy = "Run it on a machine of the cluster, with 'auto'."
        raise refusal("address", OWNER, "be that of a cluster which this machine is part of", repr(address), remedy)
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        # Only lists of images go through the store. Ray would take a third of the memory for it.
        quiet |= {"include_dashboard": False, "num_cpus": _cores(), "object_store_memory": 2**28}
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        said = " ".join(str(error).split())[:200].rstrip(".")
        remedy = "Start one with `ray start --head`, or leave it out for one on this machine."
        got = f"{address!r} ({said})"
        raise refusal("address", OWNER, "lead to a running cluster of Ray", got, remedy) from None
    try:
        yield ray
    finally:
        ray.shutdown()


@dataclass(frozen=True)
class Crew:
    """The processes that score.

    Attributes:
        size: How many there are.
        gpus: GPUs of each, 0 or 1.
        readers: How many more processes each of them has to read images.
    """

    size: int
    gpus: int
    readers: int

    @property
    def device(self) -> str:
        """Where each of them computes."""
        return "cuda" if self.gpus else "cpu"


def crew_of(ray: Any, *, workers: int | None, device: str | None) -> Crew:
    """One process for each GPU of a cluster, or for each core where there are none; not more than `workers`."""
    total = ray.cluster_resources()
    gpus, cpus = int(total.get("GPU", 0)), int(total.get("CPU", 0))
    if device == "cuda" and not gpus:
        raise refusal("device", OWNER, "be one that the cluster has", "'cuda' without GPUs", "Leave it out.")
    if gpus and device != "cpu":
        # What one core can decode, a GPU waits for, so that the cores of a machine are shared among its GPUs.
        shares = [int(node["Resources"].get("CPU", 0) // node["Resources"]["GPU"]) for node in _gpu_nodes(ray)]
        return Crew(min(workers or gpus, gpus), 1, max(0, min([MOST_READERS, *(share - 1 for share in shares)])))
    if not cpus:
        raise refusal("address", OWNER, "lead to a cluster with cores or GPUs", "none", "Add machines to the cluster.")
    return Crew(min(workers or cpus, cpus), 0, 0)


def _gpu_nodes(ray: Any) -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU", 0) >= 1]


def _cores() -> int:
    """The cores that this process may use, which in a container are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
