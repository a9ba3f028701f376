"""Image sources: where images are stored, and how they are read."""

from __future__ import annotations

import hashlib
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from manyhot.images import Array, ImageLocation, UnreadableImage, decode
from manyhot.tables.arrow import pa

if TYPE_CHECKING:
    from PIL import Image


class ImageSource(ABC):
    """Images by row number, wherever they are kept. Cheap to copy into worker processes."""

    @abstractmethod
    def __len__(self) -> int:
        """The number N of images."""

    @abstractmethod
    def name(self, row: int) -> str:
        """How a person finds the image: its path, or the archive and the name in it."""

    @abstractmethod
    def read(self, row: int) -> bytes | Array:
        """The encoded image, or its pixels (H, W) or (H, W, C) as uint8; raises OSError where it cannot be read."""

    @abstractmethod
    def identity(self, row: int) -> str:
        """A text that is another one as soon as the image may be another one; for caches."""

    @abstractmethod
    def take(self, rows: Any) -> Self:
        """The images of these row numbers, in their order."""


class Files(ImageSource):
    """Images in files of their own.

    Args:
        paths: Where each one lies, as the user wrote it.
        root: The folder that relative paths are relative to.
    """

    def __init__(self, paths: Sequence[str], *, root: str | Path = ".") -> None:
        self.paths, self.root = list(paths), Path(root)

    def __len__(self) -> int:
        return len(self.paths)

    def name(self, row: int) -> str:
        """The path as the user wrote it."""
        return self.paths[row]

    def path(self, row: int) -> Path:
        """Where the file lies."""
        return self.root / self.paths[row]

    def read(self, row: int) -> bytes:
        """The bytes of the file."""
        return self.path(row).read_bytes()

    def identity(self, row: int) -> str:
        """Absolute path, size and times of the last change; the path alone where there is no such file."""
        return _file_state(self.path(row))

    def take(self, rows: Any) -> Files:
        """The files of these row numbers."""
        return Files([self.paths[row] for row in np.asarray(rows).tolist()], root=self.root)


class TarMembers(ImageSource):
    """Images in tar archives, read from where they begin without going through the archive.

    Args:
        archives: The archives.
        locations: (N, 3) which archive each image is in, where it begins there, and its size.
        names: The name of each image in its archive.
    """

    def __init__(self, archives: Sequence[str | Path], locations: Array, names: Sequence[str]) -> None:
        self.archives = [Path(archive) for archive in archives]
        self.locations, self.names = np.asarray(locations, dtype=np.int64).reshape(-1, 3), list(names)

    def __len__(self) -> int:
        return len(self.names)

    def name(self, row: int) -> str:
        """The archive and the name in it."""
        return f"{self.archives[self.locations[row, 0]]}/{self.names[row]}"

    def read(self, row: int) -> bytes:
        """The bytes of the member."""
        archive, start, size = (int(number) for number in self.locations[row])
        with ImageLocation(self.archives[archive], start, size).open() as file:
            data = file.read()
        if len(data) < size:
            raise OSError(f"{self.archives[archive]} ends within {self.names[row]}")
        return data

    def identity(self, row: int) -> str:
        """The state of the archive, and the position of the image in it."""
        archive, start, size = self.locations[row].tolist()
        return f"{_file_state(self.archives[archive])}|{start}|{size}"

    def take(self, rows: Any) -> TarMembers:
        """The members of these row numbers."""
        rows = np.asarray(rows, dtype=np.int64)
        return TarMembers(self.archives, self.locations[rows], [self.names[row] for row in rows.tolist()])


class ParquetImages(ImageSource):
    """Images in a column of Parquet files, as bytes or as structures of `bytes` and `path`.

    A row group is read as a whole, since Parquet cannot do less, and the last ones are kept. Files of small row
    groups are therefore much faster to read in random order.

    Args:
        files: The files, in order.
        column: The column.
        cache_bytes: Bytes of row groups to keep in memory, in each process.
    """

    def __init__(self, files: Sequence[str | Path], column: str, *, cache_bytes: int = 2**28) -> None:
        self.files, self.column, self.cache_bytes = [Path(file) for file in files], column, cache_bytes
        sizes = [
            (file, group, footer.row_group(group).num_rows)
            for file, footer in enumerate(map(pa.parquet.read_metadata, self.files))
            for group in range(footer.num_row_groups)
        ]
        # The file of each row group, its number there, and the rows before it, counted over all files.
        self._groups = np.array(sizes, dtype=np.int64).reshape(-1, 3)
        # Which rows of all files, counted on from one to the next.
        self.rows = np.arange(self._groups[:, 2].sum())
        self._groups[:, 2] = self._groups[:, 2].cumsum() - self._groups[:, 2]
        self._cached: dict[tuple[int, int], Any] = {}
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_cached", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _cached={}, _lock=threading.Lock())

    def __len__(self) -> int:
        return len(self.rows)

    def _locate(self, row: int) -> tuple[int, int, int]:
        """The file of an image, the row group in it, and the row in that."""
        number = int(self.rows[row])
        position = np.searchsorted(self._groups[:, 2], number, side="right") - 1
        file, group, start = self._groups[position].tolist()
        return file, group, number - start

    def name(self, row: int) -> str:
        """The file, and the row counted over all files."""
        return f"{self.files[self._locate(row)[0]].name}, row {int(self.rows[row])}"

    def read(self, row: int) -> bytes:
        """The bytes of the image."""
        file, group, index = self._locate(row)
        with self._lock:
            cell = self._read_group(file, group)[index].as_py()
        data = cell.get("bytes") if isinstance(cell, dict) else cell
        if data is None:
            raise OSError(f"{self.name(row)} of column {self.column!r} is blank")
        return bytes(data)

    def _read_group(self, file: int, group: int) -> Any:
        column = self._cached.pop((file, group), None)
        if column is None:
            try:
                with pa.parquet.ParquetFile(self.files[file], pre_buffer=False) as opened:
                    column = opened.read_row_group(group, columns=[self.column]).column(0)
            except pa.ArrowException as error:
                raise OSError(f"{self.files[file]} cannot be read ({error})") from error
        self._cached[file, group] = column  # as the last one, so that the first is the one to forget
        while len(self._cached) > 1 and sum(cached.nbytes for cached in self._cached.values()) > self.cache_bytes:
            del self._cached[next(iter(self._cached))]
        return column

    def identity(self, row: int) -> str:
        """The state of the file, the column, and the position of the image in it."""
        file, group, index = self._locate(row)
        return f"{_file_state(self.files[file])}|{self.column}|{group}|{index}"

    def take(self, rows: Any) -> ParquetImages:
        """The images of these row numbers."""
        taken = copy(self)
        taken.rows = self.rows[np.asarray(rows, dtype=np.int64)]
        return taken


class Pixels(ImageSource):
    """Images in memory.

    Args:
        array: (N, H, W) or (N, H, W, C) uint8.
        names: How to call each one; "image 0" and so on by default.
    """

    def __init__(self, array: Array, *, names: Sequence[str] | None = None) -> None:
        self.array = array
        self.names = [f"image {row}" for row in range(len(array))] if names is None else list(names)

    def __len__(self) -> int:
        return len(self.array)

    def name(self, row: int) -> str:
        """The given name, or the number in the array that was given first."""
        return self.names[row]

    def read(self, row: int) -> Array:
        """The pixels."""
        return np.asarray(self.array[row])

    def identity(self, row: int) -> str:
        """A digest of shape and pixels."""
        pixels = np.ascontiguousarray(self.array[row])
        return f"{pixels.shape}|{hashlib.sha256(pixels.tobytes()).hexdigest()}"

    def take(self, rows: Any) -> Pixels:
        """The images of these row numbers, in memory of their own."""
        rows = np.asarray(rows, dtype=np.int64)
        return Pixels(self.array[rows], names=[self.names[row] for row in rows.tolist()])


def _file_state(path: Path) -> str:
    """Absolute path, size and times of the last change of a file; the path alone where there is none.

    Unpacking and copying may set the one time to that of the original. The other is the file system's own.
    """
    path = path.absolute()
    try:
        stat = path.stat()
    except OSError:
        return str(path)
    return f"{path}|{stat.st_size}|{stat.st_mtime_ns}|{stat.st_ctime_ns}"


def read_source(images: ImageSource, row: int) -> bytes | Array:
    """What a source holds for a row; raises `UnreadableImage` where it cannot be read."""
    try:
        return images.read(row)
    except OSError as error:
        raise UnreadableImage.from_os_error(images.name(row), error) from None


def read_image(images: ImageSource, row: int, *, min_side: int | None = None) -> Image.Image:
    """One image of a source, decoded by `decode`; raises `UnreadableImage` also for a missing file."""
    return decode(read_source(images, row), name=images.name(row), min_side=min_side)
