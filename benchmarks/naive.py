"""The losses as one writes them down: the formula and nothing else, for comparison. Not safe for large scores."""

import torch
import torch.nn.functional as F
from torch import Tensor


def bce(s: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(s)
    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()


def focal(s: Tensor, y: Tensor, gamma_neg: float = 4, gamma_pos: float = 1) -> Tensor:
    p = torch.sigmoid(s)
    return -(y * (1 - p) ** gamma_pos * torch.log(p) + (1 - y) * p**gamma_neg * torch.log(1 - p)).mean()


def asl(s: Tensor, y: Tensor, gamma_neg: float = 4, gamma_pos: float = 1, margin: float = 0.05) -> Tensor:
    p = torch.sigmoid(s)
    r = (p - margin).clamp(min=0)
    return -(y * (1 - p) ** gamma_pos * torch.log(p) + (1 - y) * r**gamma_neg * torch.log(1 - r)).mean()


def spa_cells(s: Tensor, y: Tensor) -> Tensor:
    return y * F.softplus(-s) + (1 - y) * F.softplus(3 * (s - 1)) / 5


def spa(s: Tensor, y: Tensor) -> Tensor:
    return spa_cells(s, y).mean()


def spa_pairs(s: Tensor, y: Tensor) -> Tensor:
    a_neg, a_pos = 3 / 5 * torch.sigmoid(3 * (s - 1)), torch.sigmoid(-s)
    eta = a_neg / (a_neg + a_pos)
    right = eta[:, :, None] * (1 - eta[:, None, :])
    wrong = eta[:, None, :] * (1 - eta[:, :, None])
    pairs = y[:, :, None] * (1 - y[:, None, :])
    labels = s.shape[1]
    rows = -(pairs * torch.log(right / (right + wrong))).sum((1, 2)) * 2 / (labels * (labels - 1))
    return spa(s, y) + 0.1 * rows.mean()


def quasibinary(s: Tensor, y: Tensor) -> Tensor:
    log_q = s - torch.log(torch.exp(s).sum() / y.sum())
    return (-y * log_q + log_q.clamp(min=0)).sum() / s.shape[0]


def two_way(s: Tensor, y: Tensor) -> Tensor:
    absent, present = s.masked_fill(y > 0, -torch.inf), (-s / 4).masked_fill(y == 0, -torch.inf)
    total = s.new_zeros(())
    for dim in (1, 0):
        units = F.softplus(absent.logsumexp(dim) + 4 * present.logsumexp(dim))
        has = y.sum(dim) > 0
        total = total + torch.where(has, units, 0).sum() / has.sum()
    return total


def warp(s: Tensor, y: Tensor) -> Tensor:
    hinge = (1 - s[:, :, None] + s[:, None, :]).clamp(min=0) * (y[:, :, None] * (1 - y[:, None, :]))
    ranks = (hinge > 0).sum(2)
    weights = torch.cat([s.new_zeros(1), (1 / torch.arange(1, s.shape[1] + 1, device=s.device)).cumsum(0)])[ranks]
    return (weights * hinge.sum(2)).sum(1).mean()


def rml(s: Tensor, y: Tensor) -> Tensor:
    pairs = y[:, :, None] * (1 - y[:, None, :])
    hinge = (1 - s[:, :, None] + s[:, None, :]).clamp(min=0) * pairs
    ranks = (hinge > 0).sum(2)
    weights = torch.cat([s.new_zeros(1), (1 / torch.arange(1, s.shape[1] + 1, device=s.device)).cumsum(0)])[ranks]
    alone = (1 - (2 * y - 1) * s).clamp(0, 1.5)
    return ((weights * hinge.clamp(max=1.5).sum(2)) + alone).sum(1).mean()


def softmax(s: Tensor, y: Tensor) -> Tensor:
    return -(y / y.sum(1, keepdim=True) * F.log_softmax(s, 1)).sum(1).mean()


def cross_entropy(s: Tensor, y: Tensor) -> Tensor:
    return -(y * F.log_softmax(s, 1)).sum(1).mean()


def average_k(both: Tensor, y: Tensor, k: int = 3) -> Tensor:
    single, s = both[:, 0], both[:, 1]
    keys = F.log_softmax(single.detach(), 1).masked_fill(y > 0, -torch.inf).flatten()
    chosen = torch.zeros_like(keys).scatter_(0, keys.topk(int((k - 1) * s.shape[0])).indices, 1.0).view_as(s)
    rest = 1 - y - chosen
    labels = (y * F.softplus(-s)).sum() / s.shape[0]
    sets = (chosen * F.softplus(-s)).sum() / chosen.sum() + (rest * F.softplus(s)).sum() / rest.sum()
    return cross_entropy(single, y) + labels + sets


def noised_top_k(s: Tensor, y: Tensor, noise: Tensor, k: int = 3) -> Tensor:
    top = (s[:, None] + noise).topk(k + 1, dim=2).values[..., -1].mean(1)
    return (1 + top - (y * s).sum(1)).clamp(min=0).mean()


def assume_negative(s: Tensor, y: Tensor) -> Tensor:
    return (y * F.softplus(-s) + (1 - y) * F.softplus(s) / (s.shape[1] - 1)).sum(1).mean()


def epr(s: Tensor, y: Tensor, expected: float = 3.0) -> Tensor:
    return (y * F.softplus(-s)).sum(1).mean() + (torch.sigmoid(s).sum(1).mean() - expected) ** 2


def role(s: Tensor, y: Tensor, guesses: Tensor, rows: Tensor, expected: float = 3.0) -> Tensor:
    def half(student: Tensor, teacher: Tensor) -> Tensor:
        t = torch.sigmoid(teacher.detach())
        cells = (y + t) * F.softplus(-student) + (1 - t) * F.softplus(student)
        excess = (torch.sigmoid(student).sum(1).mean() - expected) / s.shape[1]
        return cells.mean() + excess**2

    g = guesses[rows]
    return (half(s, g) + half(g, s)) / 2


def class_wise(s: Tensor, y: Tensor, bias: Tensor) -> Tensor:
    own = (y * bias).sum(1, keepdim=True)
    return (y * F.softplus(own - s) + (1 - y) * F.softplus(s - own)).sum(1).mean()
