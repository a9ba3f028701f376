"""The call depth of commands: the files of the package whose functions run in five commands, on generated data.

python benchmarks/hops.py [--src src] [--show train] [--json hops.json]

Each command runs in its own process. A file counts as soon as one of its functions runs, in any thread. The code of a
module or of a class does not count, nor do the comprehensions in it, which Python up to 3.11 compiles like functions.
`--show` lists the files of a command.
"""

import argparse
import csv
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType

import numpy as np
from house import append_record
from PIL import Image

# Settings that save time and change no path through the code.
TRAIN = ["--size", "32", "--epochs", "2", "--workers", "0", "--seed", "0", "--set", "cache=features"]
COMMANDS = {
    "train": ["train", "photos.csv", "-o", "run", *TRAIN],
    "predict": ["predict", "run", "photos", "--workers", "0", "-o", "new.parquet"],
    "calibrate": ["calibrate", "run/predictions.parquet", "--fit-on", "val", "-o", "calibrated.parquet"],
    "evaluate": ["evaluate", "run/predictions.parquet"],
    "search": ["search", "run/predictions.parquet", "red & !green", "--no-sheet"],
}
# What a stored record counted; earlier ones counted these comprehensions too.
MEASURE = "functions, without the comprehensions of modules and classes"
COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
SHADES = {"red": (220, 40, 40), "green": (40, 200, 60), "blue": (50, 60, 230)}


def make_photos(folder: Path, count: int = 300) -> None:
    """Grey images with patches of zero to three colours, enough of them to evaluate on, and their labels."""
    draw = np.random.default_rng(0)
    (folder / "photos").mkdir()
    with (folder / "photos.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "labels"])
        for number in range(count):
            pixels = draw.integers(90, 160, (40, 48, 3), dtype=np.uint8)
            present = [name for name in SHADES if draw.random() < 0.4]
            for name in present:
                y, x = draw.integers(0, 24, 2)
                pixels[y : y + 14, x : x + 14] = SHADES[name]
            Image.fromarray(pixels).save(folder / "photos" / f"{number:03d}.png")
            table.writerow([f"photos/{number:03d}.png", "|".join(present)])


def is_function(code: CodeType) -> bool:
    """Whether code is that of a function, or of a comprehension in one."""
    in_function = code.co_name not in COMPREHENSIONS or "<locals>" in code.co_qualname
    return in_function and bool(code.co_flags & inspect.CO_OPTIMIZED)


def record(package: Path, report: Path, arguments: list[str]) -> None:
    """Runs a command in this process, and writes the files whose functions ran."""
    executed: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            executed.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        from manyhot.cli import main

        sys.argv = ["manyhot", *arguments]
        main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
    files = {Path(code.co_filename) for code in executed if is_function(code)}
    inside = sorted(path.relative_to(package).as_posix() for path in files if path.is_relative_to(package))
    report.write_text(json.dumps(inside))


def measure(src: Path) -> dict[str, list[str]]:
    """The files whose functions each command runs."""
    result = {}
    with tempfile.TemporaryDirectory() as work:
        make_photos(Path(work))
        environment = os.environ | {"PYTHONPATH": str(src), "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
        for name, arguments in COMMANDS.items():
            report = Path(work) / f"{name}.json"
            typed = [sys.executable, __file__, "--src", str(src), "--record", str(report), *arguments]
            done = subprocess.run(typed, cwd=work, env=environment, capture_output=True, text=True, check=False)
            if done.returncode:
                sys.exit(f"manyhot {' '.join(arguments)} failed:\n{done.stderr}")
            result[name] = json.loads(report.read_text())
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, default=Path(__file__).parent.parent / "src", help="folder of the package")
    parser.add_argument("--show", choices=COMMANDS, help="list the files of a command")
    parser.add_argument("--json", type=Path, help="also add the figures to this file")
    parser.add_argument("--record", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    src = options.src.resolve()
    if options.record:
        report, *arguments = options.record
        record(src, Path(report), arguments)
        return
    result = measure(src)
    for name, files in result.items():
        print(f"{len(files):5d}  files in `manyhot {' '.join(COMMANDS[name])}`")
    if options.show:
        print(*result[options.show], sep="\n")
    if options.json:
        counts = {name: len(files) for name, files in result.items()}
        append_record(options.json, src, {"command": "python benchmarks/hops.py", "measure": MEASURE, **counts})


if __name__ == "__main__":
    main()
