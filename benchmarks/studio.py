"""`manyhot studio` under load: image classification, beside the same model behind LitServe; and the page's requests.

python benchmarks/studio.py [--seconds 60] [--step 5] [--rounds 3] [--rows 20000] [--page-rate 40] [--small]
    [--json studio.json]

Each server runs as a process of its own on 127.0.0.1, and all but one sleep at any time. Of each is measured:

- answers a second to 1, 8 and 32 clients that send the next request after each answer, the median of some rounds;
- the knee: the highest rate at which 99 of 100 answers come within a bound, in steps of rising rate, until two steps
  in a row exceed it. The bound is three times the median answer to a single client, that of the fastest server, and
  the same for all. Requests arrive at random and do not wait for each other; latency is measured from the moment at
  which a request was due;
- a longer time at that rate: times, errors, memory. LitServe is held at the knee of the studio as well.
"""

import argparse
import asyncio
import contextlib
import gc
import importlib.util
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import torch
from features import rough_photos
from load import Request, ask_each, at_rate, get, saturating, upload
from serving import Figures, Server, free_port, measure, running
from timing import print_table, read_options, sparse_targets, write_figures
from torch import Tensor

import manyhot as mh
from manyhot.backbones import create_backbone
from manyhot.classifier import Classifier
from manyhot.images import decode
from manyhot.network import Network
from manyhot.predictions import Predictions

LABELS, PHOTOS, SIZE = 80, 32, (640, 480)
CLIENTS = 1, 8, 32
TIMES = 3.0
# Steps of the ramp, as shares of what a server answers to 8 clients.
SHARES = [share / 100 for share in range(30, 116, 5)]
CLI = "from manyhot.cli import main; main()"
STUDIO = "studio"
LITSERVE, LITSERVE_WIDE = "LitServe, one worker", "LitServe, a worker a core"
QUERIES = ("label 3", "label 3 & !label 7", "label 1 | label 2", "(label 5 | label 9) & !label 11", "label 4 & label 6")
PAGE = {"pictures": 24, "expect": 6, "search": 6, "decide": 4}


def make_classifier(photos: list[bytes], labels: int) -> tuple[Classifier, Tensor]:
    """A classifier with a calibrator and a rule, and its scores of the photos; about three labels a photo."""
    torch.manual_seed(0)
    backbone = create_backbone()
    head = mh.LinearHead(backbone.width, labels)
    network = Network(backbone, head).eval()
    size = max(backbone.preprocessing.size)
    pixels = [backbone.preprocessing.prepare(decode(photo, name="photo", min_side=size)) for photo in photos]
    with torch.no_grad():
        spread, mean = torch.std_mean(network.scores(torch.stack(pixels)), 0)
        head.weight.div_(spread[:, None])
        assert head.bias is not None
        head.bias.copy_(-mean / spread - 2)
        scores = network.scores(torch.stack(pixels))
    noise = torch.randn(scores.shape, generator=torch.Generator().manual_seed(1))
    targets = torch.zeros_like(scores).scatter_(1, (scores + noise).topk(3).indices, 1.0)
    calibrator = mh.PlattScaling(link=mh.SigmoidLink()).fit(scores, targets)
    rule = mh.LabelThresholds().fit(calibrator(scores), targets)
    names = [f"label {label}" for label in range(labels)]
    return Classifier(network, names, link=mh.SigmoidLink(), calibrator=calibrator, rule=rule), scores


def write_run(
    folder: Path, classifier: Classifier, scores: Tensor, *, photos: int, targets: Tensor | None = None
) -> None:
    """A run with these scores as its predictions; images are the photos in turn."""
    classifier.save(folder)
    table = classifier.decide(scores)
    rows = range(len(scores))
    Predictions(
        scores=table.scores,
        probs=table.probs,
        decisions=table.decisions,
        abstain=table.abstain,
        targets=targets,
        labels=table.labels,
        ids=[f"image {row:06d}" for row in rows],
        paths=[f"photos/{row % photos}.jpg" for row in rows],
        splits=["val" if row % 4 == 0 else "test" for row in rows],
        link=table.link,
        calibrator=table.calibrator,
        rule=table.rule,
    ).save(folder / "predictions.parquet")


def make_runs(folder: Path, *, photos: list[bytes], labels: int, rows: int) -> tuple[Path, Path]:
    """A run whose table is small, and one with a collection to look at; both have the same model."""
    (folder / "photos").mkdir()
    for number, photo in enumerate(photos):
        (folder / "photos" / f"{number}.jpg").write_bytes(photo)
    classifier, scores = make_classifier(photos, labels)
    small, large = folder / "small", folder / "large"
    write_run(small, classifier, scores, photos=len(photos))
    noise, targets = sparse_targets(rows, labels)
    write_run(large, classifier, noise + 4 * targets - 4, photos=len(photos), targets=targets)
    return small, large


@dataclass
class Candidate:
    """A server, how it is started, and what was measured of it."""

    name: str
    command: list[str]
    path: str = "/api/classify"
    health: str = "/api/health"
    fresh: float = 0.0
    closed: dict[int, Figures] = field(default_factory=dict)
    ramp: list[Figures] = field(default_factory=list)
    knee: float = 0.0
    held: list[Figures] = field(default_factory=list)

    @contextlib.contextmanager
    def running(self, folder: Path) -> Iterator[Server]:
        """The server, ready."""
        port = free_port()
        command = [part.replace("PORT", str(port)) for part in self.command]
        with running(command, port=port, health=self.health, log=folder / f"{port}.log") as server:
            self.fresh = server.megabytes()
            yield server

    def requests(self, photos: list[bytes]) -> list[Request]:
        """A request for each photo."""
        return [upload(self.path, photo, f"{number}.jpg") for number, photo in enumerate(photos)]


def studio_command(run: Path, root: Path) -> list[str]:
    """Starts the studio as the command does."""
    options = ["studio", str(run), "--root", str(root), "--labels", f"{root}/PORT.csv", "--port", "PORT", "--no-open"]
    return [sys.executable, "-c", CLI, *options]


def candidates(run: Path, root: Path) -> list[Candidate]:
    """The servers to compare, as far as they are installed."""
    entries = [Candidate(STUDIO, studio_command(run, root))]
    if not importlib.util.find_spec("litserve"):
        print("LitServe is not installed (pip install litserve), so the studio is measured alone.\n")
        return entries
    peer = [sys.executable, str(Path(__file__).with_name("behind_litserve.py")), str(run), "PORT"]
    wide = ["--batch", "1", "--wait", "0", "--workers", str(os.cpu_count())]
    entries.append(Candidate(LITSERVE, peer, "/predict", "/health"))
    entries.append(Candidate(LITSERVE_WIDE, peer + wide, "/predict", "/health"))
    return entries


def report_progress(what: str, figures: Figures) -> None:
    """Prints progress to stderr."""
    summary = f"{figures['rate']:.1f} answers/s, p99 {figures['p99']:.0f} ms, taken by others {figures['others']:.0%}"
    print(f"{what}: {summary}", file=sys.stderr, flush=True)


def check_answers(server: Server, requests: list[Request], known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The answers for all images, which must equal those of other servers."""
    answers = asyncio.run(ask_each(server.port, requests))
    if any(status != 200 for status, _ in answers):
        raise SystemExit(f"An image was rejected: {next(body for status, body in answers if status != 200)!r}")
    entries = [json.loads(body) for _, body in answers]
    for ours, theirs in zip(entries, known or entries, strict=True):
        probs, others = ({label["name"]: label["prob"] for label in answer["labels"]} for answer in (ours, theirs))
        apart = max(abs(probs[name] - others[name]) for name in probs)
        if ours["given"] != theirs["given"] or apart > 1e-4:
            raise SystemExit("Two servers answer differently for the same image.")
    return entries


def saturate(entries: list[tuple[Candidate, Server]], photos: list[bytes], *, seconds: float, rounds: int) -> None:
    """Answers a second to some numbers of clients."""
    for clients in CLIENTS:
        measured: dict[str, list[Figures]] = {one.name: [] for one, _ in entries}
        for _ in range(rounds):
            for one, server in entries:
                ask = partial(saturating, server.port, one.requests(photos), clients=clients, seconds=seconds)
                measured[one.name].append(measure(server, ask)[1])
                report_progress(f"{one.name}, {clients} clients", measured[one.name][-1])
        for one, _ in entries:
            rows = measured[one.name]
            one.closed[clients] = {key: statistics.median(row[key] for row in rows) for key in rows[0]}


def find_knees(entries: list[tuple[Candidate, Server]], photos: list[bytes], *, bound: float, seconds: float) -> None:
    """The highest rate of each server within the bound before two steps in a row exceed it."""
    broken = dict.fromkeys((one.name for one, _ in entries), 0)
    for number, share in enumerate(SHARES):
        for one, server in entries:
            if broken[one.name] == 2:
                continue
            rate, requests = share * one.closed[8]["rate"], one.requests(photos)
            ask = partial(at_rate, server.port, requests, rate=rate, seconds=seconds, seed=number, give_up=True)
            load, figures = measure(server, ask)
            one.ramp.append({"requested": rate, **figures})
            report_progress(f"{one.name}, {rate:.0f} a second", figures)
            within_bound = not load.errors and figures["p99"] <= bound
            one.knee, broken[one.name] = (rate, 0) if within_bound else (one.knee, broken[one.name] + 1)


def hold(server: Server, requests: list[Request], *, rate: float, seconds: float) -> Figures:
    """A longer time at one rate: times, errors, memory."""
    ask = partial(at_rate, server.port, requests, rate=rate, seconds=seconds, seed=99)
    load, figures = measure(server, ask, watch=True)
    report_progress(f"{rate:.0f} a second for {seconds:.0f} s", figures)
    memory = load.samples
    at = {f"MB at {second}": memory[min(second, len(memory) - 1)] for second in (0, 10, 30)}
    settled = memory[min(10, len(memory) // 2) :]
    slope = 60 * float(np.polyfit(range(len(settled)), settled, 1)[0]) if len(settled) > 2 else float("nan")
    kinds = {
        kind: {
            "rate": len(times) / load.seconds,
            **{f"p{share}": 1e3 * load.quantile(share / 100, kind) for share in (50, 99)},
        }
        for kind, times in load.latencies.items()
    }
    return {"requested": rate, **figures, **at, "MB at end": memory[-1], "slope": slope, "kinds": kinds}


def compare(entries: list[Candidate], photos: list[bytes], options: argparse.Namespace, folder: Path) -> float:
    """Measures all servers in turn; returns the bound."""
    known: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        servers = []
        for one in entries:
            server = stack.enter_context(one.running(folder))
            with server.awake():
                known = check_answers(server, one.requests(photos), known)
                asyncio.run(saturating(server.port, one.requests(photos), clients=4, seconds=2))
            servers.append((one, server))
        saturate(servers, photos, seconds=options.step, rounds=options.rounds)
        bound: float = TIMES * min(one.closed[1]["p50"] for one in entries)
        find_knees(servers, photos, bound=bound, seconds=options.step)
        for one, server in servers:
            rates = [one.knee] if one.path == entries[0].path else [one.knee, entries[0].knee]
            for rate in filter(None, rates):
                one.held.append(hold(server, one.requests(photos), rate=rate, seconds=options.seconds))
    return bound


def page_requests(rows: int) -> list[Request]:
    """The requests of the page while a user types, browses and moves a slider."""
    draw, requests = random.Random(0), []
    for kind in draw.choices(list(PAGE), list(PAGE.values()), k=4000):
        query, size = quote(draw.choice(QUERIES)), f"by=size&value={draw.randrange(1, 80) / 10}"
        paths = {
            "pictures": f"/api/pictures/{draw.randrange(rows)}?side=256",
            "expect": f"/api/expect?q={query}",
            "search": f"/api/search?q={query}&limit=40&{size}",
            "decide": f"/api/decide?{size}",
        }
        requests.append(get(paths[kind], kind))
    return requests


def use_page(run: Path, root: Path, options: argparse.Namespace, folder: Path) -> Figures:
    """The page's requests at a fixed rate."""
    page = Candidate("page", studio_command(run, root))
    with page.running(folder) as server:
        asyncio.run(ask_each(server.port, [get("/api/search?q=label%201", "search")]))
        requests = page_requests(options.rows)
        figures = hold(server, requests, rate=options.page_rate, seconds=options.seconds / 2)
    return {"MB fresh": page.fresh, **figures}


def show_closed(entries: list[Candidate], peer: Candidate | None) -> None:
    rows = []
    for one in entries:
        busy, others = one.closed[8], max(figures["others"] for figures in one.closed.values())
        rates = [f"{figures['rate']:.1f}" for figures in one.closed.values()]
        ratios = [f"{busy['rate'] / peer.closed[8]['rate']:.2f}"] if peer else []
        rows.append([one.name, *rates, *ratios, f"{busy['server']:.1f}", f"{busy['client']:.2f}", f"{others:.0%}"])
    clients = [f"{clients} client{'s' * (clients > 1)}" for clients in CLIENTS]
    ratio = [f"x {peer.name}, 8 clients"] if peer else []
    print("Answers a second, and milliseconds of the processor an answer\n")
    print_table(["", *clients, *ratio, "processor ms", "of the client", "taken by others"], rows)


def show_held(entries: list[Candidate], bound: float, peer: Candidate | None) -> None:
    print(f"\n99 of 100 answers within {bound:.0f} ms, {TIMES:g} times the median answer to a single client\n")
    for one in entries:
        steps = ", ".join(f"{step['requested']:.0f}: {step['p50']:.0f}/{step['p99']:.0f}" for step in one.ramp)
        ratio = f", {one.knee / peer.knee:.2f} x" if peer and peer.knee else ""
        print(f"{one.name}: knee at {one.knee:.1f} a second{ratio} (rate: p50/p99 in ms: {steps})")
    rows = []
    for one in entries:
        for held in one.held:
            memory = [one.fresh, *(value for key, value in held.items() if key.startswith("MB at"))]
            cells = [f"{held[key]:.1f}" for key in ("requested", "rate", "p50", "p99", "errors", "server")]
            cells += [f"{held['others']:.0%}", ", ".join(f"{value:.0f}" for value in memory), f"{held['slope']:+.1f}"]
            rows.append([one.name, *cells])
    columns = ["held", "requests/s", "answers/s", "p50 ms", "p99 ms", "errors", "processor ms", "taken by others"]
    print()
    print_table([*columns, "MB fresh, then at 0, 10, 30 s, end", "MB/min"], rows)


def show_page(page: Figures) -> None:
    kinds = {"all": page, **page["kinds"]}
    rows = [[kind, *(f"{figures[key]:.1f}" for key in ("rate", "p50", "p99"))] for kind, figures in kinds.items()]
    print()
    print_table(["requests of the page", "requests/s", "p50 ms", "p99 ms"], rows)
    print(f"\n{page['errors']} errors; {page['server']:.1f} ms of the processor a request; ", end="")
    memory = ", ".join(f"{page[key]:.0f}" for key in ("MB fresh", "MB at 0", "MB at 10", "MB at end"))
    print(f"MB fresh, at 0, at 10 s and at the end: {memory}; taken by others: {page['others']:.0%}")


def main() -> None:
    options = read_options(
        __doc__,
        seconds=(60.0, 1.0, "at the knee; the page half as long"),
        step=(5.0, 0.5, "seconds of a step of the ramp"),
        rounds=(3, 1, "rounds of each number of clients"),
        rows=(20_000, 200, "rows of the collection"),
        page_rate=(40.0, 10.0, "requests of the page a second"),
    )
    if sys.platform != "linux":
        raise SystemExit("This benchmark reads memory and processor time from /proc, which only Linux has.")
    with tempfile.TemporaryDirectory() as name:
        folder, photos = Path(name), rough_photos(PHOTOS, width=SIZE[0], height=SIZE[1])
        small, large = make_runs(folder, photos=photos, labels=LABELS, rows=options.rows)
        gc.collect()
        gc.freeze()  # so that a pause of the client does not look like one of a server
        entries = candidates(small, folder)
        kilobytes = sum(map(len, photos)) / len(photos) / 1e3
        print(f"{LABELS} labels, photos of {SIZE[0]} x {SIZE[1]} pixels, {kilobytes:.0f} KB; {os.cpu_count()} cores\n")
        bound = compare(entries, photos, options, folder)
        page = use_page(large, folder, options, folder)
    peers = [one for one in entries if one.path != entries[0].path]
    peer = max(peers, key=lambda one: one.closed[8]["rate"], default=None)
    show_closed(entries, peer)
    show_held(entries, bound, peer)
    show_page(page)
    write_figures(options, {"bound": bound, "servers": [*map(vars, entries)], "page": page})


if __name__ == "__main__":
    main()
