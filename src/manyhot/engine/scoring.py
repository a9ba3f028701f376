"""Scores of a whole data set, on one process or several."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import check_count
from manyhot.data.loading import Batches
from manyhot.distributed import gather
from manyhot.engine.machine import Machine, machine_of
from manyhot.engine.normalising import eval_mode
from manyhot.engine.plan import Plan
from manyhot.engine.sampling import groups_of_epoch
from manyhot.network import Network


def score(
    network: Network, data: Batches, *, batch_size: int = 256, plan: Plan | Any | None = None
) -> tuple[Tensor, Tensor]:
    """The scores of every row that can be read, in the order of rows, the same on every process.

    Nothing is drawn or augmented, no row is scored twice, and the network stays in the mode it was in.

    Args:
        network: Gives the scores.
        data: The rows.
        batch_size: Rows at a time, over all processes.
        plan: Where to run and in which precision: a plan, or a `Fabric` that has been launched. By default the network
            stays where it is.

    Returns:
        Scores (n, K) in float32 and the numbers (n,) of their rows, both on the CPU.

    Example:
        >>> from manyhot.data.loading import FeatureBatches
        >>> from manyhot.data.targets import SparseTargets
        >>> data = FeatureBatches(torch.eye(3), SparseTargets.from_rows([[0], [], [1]], num_labels=2))
        >>> from manyhot.network import Network
        >>> network = Network(None, mh.LinearHead(3, 2))
        >>> scores, rows = score(network, data, batch_size=2)
        >>> scores.shape, rows
        (torch.Size([3, 2]), tensor([0, 1, 2]))
    """
    check_count("batch_size", "score", batch_size, low=1)
    machine = machine_of(network, plan)
    if machine.fabric is not None:
        network.to(machine.device)
    scores, rows = _own_scores(network, data, batch_size, machine)
    if machine.world > 1:
        scores = torch.cat([part.cpu() for part in gather(scores.to(machine.device))])
        rows = torch.cat([part.cpu() for part in gather(rows.to(machine.device))])
        order = rows.argsort()
        scores, rows = scores[order], rows[order]
    return scores, rows


def _own_scores(network: Network, data: Batches, batch_size: int, machine: Machine) -> tuple[Tensor, Tensor]:
    """Scores of the rows of this process."""
    order = np.arange(len(data), dtype=np.int64)
    groups = groups_of_epoch(order, batch_size=batch_size, accumulate=1, rank=machine.rank, world=machine.world)
    scores, rows = [torch.empty(0, data.targets.num_labels)], [torch.empty(0, dtype=torch.int64)]
    with eval_mode(network):
        for batch in data.load(groups, epoch=None):
            if not len(batch.rows):
                continue
            # Only here, so that nothing which the data set keeps for later becomes a tensor without gradients.
            with torch.inference_mode(), machine.autocast():
                outputs = network.scores(machine.put(batch.inputs)).float()
            scores.append(outputs.cpu())
            rows.append(batch.rows.cpu())
    return torch.cat(scores), torch.cat(rows)
