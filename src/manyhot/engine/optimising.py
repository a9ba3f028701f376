"""Optimisers: who learns at which rate, and what decays."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from manyhot.engine.plan import Plan
from manyhot.losses.loss import Loss
from manyhot.network import Network
from manyhot.refusal import refusal


def parameter_groups(network: Network, loss: Loss, plan: Plan) -> list[dict[str, Any]]:
    """The parameters to be trained, by learning rate and decay; `peak` is the rate at its highest.

    Biases, scales of normalisations and everything else of one dimension do not decay, nor do a loss's own parameters.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    head_lr = plan.lr if plan.head_lr is None else plan.head_lr
    body = [] if network.backbone is None else list(network.backbone.parameters())
    seen = {id(parameter) for parameter in body}
    top = [parameter for parameter in network.parameters() if id(parameter) not in seen]
    for parameters, lr, decays in (
        (body, plan.lr, True),
        (top, head_lr, True),
        (list(loss.parameters()), head_lr, False),
    ):
        for parameter in parameters:
            if parameter.requires_grad:
                decay = plan.weight_decay if decays and parameter.ndim > 1 else 0.0
                groups.setdefault((lr, decay), []).append(parameter)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        remedy = "Set `requires_grad` of the head's parameters."
        raise refusal("network", "fit", "have parameters to train", "only frozen ones", remedy)
    return [
        {"params": parameters, "peak": lr, "lr": lr, "weight_decay": decay}
        for (lr, decay), parameters in groups.items()
    ]


def build_optimizer(network: Network, loss: Loss, plan: Plan, device: torch.device) -> torch.optim.Optimizer:
    """The optimiser of the plan over everything that is to be trained."""
    groups = parameter_groups(network, loss, plan)
    fused = device.type in ("cpu", "cuda")  # one kernel for all parameters, several times as fast
    if plan.optimizer == "sgd":
        return torch.optim.SGD(groups, momentum=0.9, nesterov=True, fused=fused)
    return torch.optim.AdamW(groups, fused=fused)


def set_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Gives every group its rate: its highest times the factor."""
    for group in optimizer.param_groups:
        group["lr"] = group["peak"] * factor
