"""Thousands of requests to `manyhot studio`, made up from the description of its API.

python benchmarks/studio_fuzz.py [--requests 10000] [--seed 0] [--json studio_fuzz.json]

The studio runs as a process of its own on 127.0.0.1, with thirty images, a small model, and edits. Half of the
requests fit the description, of which half name real rows, labels and images; the others do not fit it. Of every
answer it is checked that its status is below 500, that its headers are those of all answers, and that an error is one
sentence. Exits with 1 if one is not, or if the server is not well in the end.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.studio.collections import write_run
from tests.studio.fuzzing import Fuzzer
from tests.studio.servers import Started
from tests.studio.targets import Target, resident


def fuzz(requests: int, seed: int) -> dict[str, Any]:
    """Sends the requests to a studio of its own; what came of it."""
    with tempfile.TemporaryDirectory() as folder:
        started = Started(write_run(Path(folder)), "--no-open", "--port", "0")
        target = Target(int(started.url.rstrip("/").rpartition(":")[2]))
        before, start = resident(started.process.pid), time.perf_counter()
        statuses, failures = Fuzzer(started.url, number=seed).run(requests)
        seconds = time.perf_counter() - start
        after, alive = resident(started.process.pid), target.is_alive()
        code, output = started.stop()
    rows: dict[str, Counter[int]] = {}
    for (label, status), count in statuses.items():
        rows.setdefault(label, Counter())[status] += count
    return {
        "requests": statuses.total(),
        "seconds": seconds,
        "megabytes": [before, after],
        "alive": alive and code == 0 and "Traceback" not in output,
        "failures": [repr(failure) for failure in failures],
        "operations": rows,
    }


def show(result: dict[str, Any]) -> None:
    """Prints a table: operations by statuses, and what the server looked like before and after."""
    rows = result["operations"]
    columns = sorted({status for counts in rows.values() for status in counts})
    print("| operation | requests |" + "".join(f" {status} |" for status in columns))
    print("|---|---|" + "---|" * len(columns))
    for label, counts in rows.items():
        cells = "".join(f" {counts[status] or ''} |" for status in columns)
        print(f"| {label} | {counts.total():,} |{cells}")
    total = "".join(f" {sum(counts[status] for counts in rows.values()):,} |" for status in columns)
    print(f"| all | {result['requests']:,} |{total}")
    before, after = result["megabytes"]
    rate = result["requests"] / result["seconds"]
    print(f"\n{result['seconds']:.1f} s, {rate:.0f} requests a second, making them up included.")
    print(f"Memory: {before:.0f} MB before, {after:.0f} MB after.")
    health = "well" if result["alive"] else "not well"
    print(f"Answers that broke a rule: {len(result['failures'])}. The server is {health}.")
    for failure in result["failures"][:20]:
        print(" ", failure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    result = fuzz(arguments.requests, arguments.seed)
    show(result)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0 if result["alive"] and not result["failures"] else 1


if __name__ == "__main__":
    sys.exit(main())
