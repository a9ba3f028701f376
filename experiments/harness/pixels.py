"""Pictures that lie on the device as a whole: cropped, scaled and mirrored there, a batch at a time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from manyhot.data.loading import Batch, Batches
from manyhot.data.targets import SparseTargets
from manyhot.engine.sampling import mixed


@dataclass(frozen=True)
class Changes:
    """What training does to a picture.

    Attributes:
        area: Smallest share of the picture that is kept; 1 for all of it.
        flip: Whether half of the pictures are mirrored.
        sizes: Sides in pixels through the run, shared out evenly over its epochs: (32, 64) sees small pictures in the
            first half, which costs a quarter, and whole ones in the second. Empty for the size of the data.
    """

    area: float = 0.5
    flip: bool = True
    sizes: tuple[int, ...] = ()


class PixelBatches(Batches):
    """Rows of a tensor of pictures, for `manyhot.engine.fit`.

    What is drawn for a row depends on seed and epoch alone, as the engine asks.

    Args:
        pixels: (M, 3, H, W) uint8, on the device where the network learns.
        rows: (N,) which of the pictures these are.
        targets: (N, K).
        changes: For training; None for rows that are only scored.
        seed: Of what is drawn.
        epochs: Of the run, to share out the sizes.
    """

    def __init__(
        self,
        pixels: Tensor,
        rows: Tensor,
        targets: SparseTargets,
        *,
        changes: Changes | None = None,
        seed: int = 0,
        epochs: int = 1,
    ) -> None:
        self.pixels, self.targets, self.changes, self.seed, self.epochs = pixels, targets, changes, seed, epochs
        self._rows = rows.to(pixels.device)
        self._dense = targets.dense().to(pixels.device)
        self._scaled: dict[int, Tensor] = {}

    def load(self, groups: Iterable[Sequence[int]], *, epoch: int | None) -> Iterator[Batch]:
        """One batch for each group of rows; changed at random where there is an epoch and changes are wanted."""
        device = self.pixels.device
        changed = epoch is not None and self.changes is not None
        draws = self._draw(epoch) if changed else None
        source = self._at(self._size(epoch)) if changed else self.pixels
        for group in groups:
            rows = torch.as_tensor(group, dtype=torch.int64)
            here = rows.to(device, non_blocking=True)
            pixels = source.index_select(0, self._rows.index_select(0, here))
            if draws is not None:
                pixels = change(pixels, draws.index_select(0, here))
            pixels = pixels.contiguous(memory_format=torch.channels_last)
            yield Batch(pixels, self._dense.index_select(0, here), here)

    def _size(self, epoch: int) -> int:
        sizes = self.changes.sizes
        return sizes[min(len(sizes) * epoch // self.epochs, len(sizes) - 1)] if sizes else self.pixels.shape[-1]

    def _at(self, size: int) -> Tensor:
        """All pictures at another size, computed once."""
        if size == self.pixels.shape[-1]:
            return self.pixels
        if size not in self._scaled:
            parts = [
                F.interpolate(part.float(), size=(size, size), mode="bilinear", antialias=True, align_corners=False)
                for part in self.pixels.split(4096)
            ]
            self._scaled[size] = torch.cat([part.round().clamp(0, 255).to(torch.uint8) for part in parts])
        return self._scaled[size]

    def _draw(self, epoch: int) -> Tensor:
        """(N, 4) for each row: scale, shifts across and down, and whether it is mirrored as 1 or -1."""
        generator = torch.Generator().manual_seed(mixed(self.seed, 7, epoch))
        uniform = torch.rand(len(self), 4, generator=generator)
        scale = (self.changes.area + (1 - self.changes.area) * uniform[:, 0]).sqrt()
        shifts = (2 * uniform[:, 1:3] - 1) * (1 - scale).unsqueeze(1)
        mirror = torch.where((uniform[:, 3] < 0.5) & torch.tensor(self.changes.flip), -1.0, 1.0)
        return torch.cat([scale[:, None], shifts, mirror[:, None]], 1).to(self.pixels.device)


def change(pixels: Tensor, draws: Tensor) -> Tensor:
    """Crops, scales back to the same size and mirrors, each picture as drawn; floats from 0 to 255."""
    scale, across, down, mirror = draws.unbind(1)
    zero = torch.zeros_like(scale)
    maps = torch.stack([scale * mirror, zero, across, zero, scale, down], 1).view(-1, 2, 3)
    grid = F.affine_grid(maps, list(pixels.shape), align_corners=False)
    wide = pixels.half() if pixels.is_cuda else pixels.float()
    return F.grid_sample(wide, grid.to(wide.dtype), mode="bilinear", padding_mode="reflection", align_corners=False)
