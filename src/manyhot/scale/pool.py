"""Parts handed to processes of Ray, one at a time, until none is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from manyhot.data import Dataset
from manyhot.refusal import Refusal
from manyhot.scale.scorer import Job, Scorer, states_of

# A machine may go at any time, and what it was at is given to another. A part whose images end every process is not.
RETRIES = 3

Numbered = tuple[int, Dataset]


def score_parts(ray: Any, job: Job, parts: Iterator[Numbered], *, one: Dataset, advance: Callable[[int], None]) -> None:
    """Scores all parts; the first error ends it, and the parts that are finished by then stay.

    Args:
        ray: The module, connected.
        job: What the processes need to know.
        parts: Numbers and images, made when a process asks for them.
        one: An image by which machines are checked to see the same files.
        advance: Told how many images have been dealt with.
    """
    assert one.images is not None
    kind = ray.remote(num_cpus=1, num_gpus=job.crew.gpus, max_restarts=RETRIES, max_task_retries=RETRIES)(Scorer)
    processes = [kind.remote(job) for _ in range(job.crew.size)]
    (state,) = states_of(one.images)
    # Whoever is ready gets a part. On a busy cluster some may never be, and nobody waits for them.
    busy = {process.get_ready.remote(one, state): (process, "The start") for process in processes}
    try:
        while busy:
            ready, _ = ray.wait(list(busy), num_returns=1)
            process, what = busy[ready[0]]
            if _is_over(ray, ready[0], what, advance):
                del busy[ready[0]]
                part = next(parts, None)
                if part is not None:
                    stream = process.score.options(num_returns="streaming").remote(*part)
                    busy[stream] = process, _name(*part)
                elif all(said == "The start" for _, said in busy.values()):
                    return
    finally:
        for process in processes:
            ray.kill(process)


def _is_over(ray: Any, item: Any, what: str, advance: Callable[[int], None]) -> bool:
    """Takes what a process has to say; True if it has nothing else to do."""
    errors = ray.exceptions
    try:
        if not isinstance(item, ray.ObjectRefGenerator):
            ray.get(item)
            return True
        advance(ray.get(next(item)))
    except StopIteration:
        return True
    except errors.RayTaskError as error:
        cause = error.cause
        if isinstance(cause, Refusal | ImportError):
            raise cause from None
        text = " ".join(str(cause).split()).rstrip(".")
        said = f"{type(cause).__name__}: {text}" if text else type(cause).__name__
        remedy = " Try a smaller batch size." if "out of memory" in text else ""
        raise Refusal(f"{what} failed in a process of Ray: {said}.{remedy}") from error
    except errors.RayError as error:
        said = f"was given up, because its process ended {RETRIES + 1} times"
        remedy = "Perhaps there is too little memory: use fewer workers, or look for the cause in the logs of Ray."
        raise Refusal(f"{what} {said}. {remedy}") from error
    return False


def _name(number: int, part: Dataset) -> str:
    """A part for an error; its images, because one of them may be the cause."""
    return f"Part {number}, {part.ids[0]!r} to {part.ids[-1]!r},"
