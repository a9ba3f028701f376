"""Requests made up from the description of the API, those that fit it and those that do not, in the thousands."""

import math
import random
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode

from tests.studio.bombs import saved
from tests.studio.collections import LABELS
from tests.studio.targets import Answer, checked
from tests.waiting import HANG

ROWS = 30
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
SIGNS = ("&", "|", "!", "(", ")", ",", "'", "atleast(2,", "exactly(1,", "only(", "none", "count >=", "3", "and", "not")
PARAMETERS = ("q", "row", "side", "split", "by", "value", "offset", "limit", "token", "x[]", "\0", "é")


class Fuzzed(NamedTuple):
    """What came of it.

    Attributes:
        statuses: How often each operation was answered by each status.
        failures: What an answer broke of what must hold of all of them.
    """

    statuses: Counter
    failures: list


class Fuzzer:
    """Asks a server everything that its description allows, and much that it does not.

    Args:
        url: Where it is.
        number: Of the run: the same gives the same requests.
    """

    def __init__(self, url, *, number=0):
        self.url, self.number, self.draw = url.rstrip("/"), number, random.Random(number)
        self.pictures = [saved(form) for form in FORMATS]
        self.session = requests.Session()
        self.found = Fuzzed(Counter(), [])

    def run(self, count):
        """Sends so many requests or a few more, the same number to each operation."""
        schema = schemathesis.openapi.from_url(f"{self.url}/api/openapi.json")
        operations = [operation.ok() for operation in schema.get_all_operations()]
        with self.session:
            for operation in operations:
                for mode in GenerationMode:
                    self._ask_all(operation, mode, math.ceil(count / (2 * len(operations))))
        return self.found

    def _ask_all(self, operation, mode, count):
        label, before = operation.label, self.found.statuses.total()

        @seed(self.number)
        @settings(
            max_examples=count,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(generation_mode=mode))
        def ask(case):
            self._bring_nearer(case, mode)
            response = case.call(base_url=self.url, session=self.session, timeout=HANG)
            headers = {name.lower(): value[0] for name, value in response.headers.items()}
            self._note(label, Answer(response.status_code, headers, response.content), case.as_curl_command)

        with suppress(Unsatisfiable):  # nothing can be wrong with a request that has no parameters
            ask()
        for _ in range(count - (self.found.statuses.total() - before)):
            self._ask_oddly(operation)

    def _bring_nearer(self, case, mode):
        """Makes half of the requests such that they get past the first check: real rows, pictures and labels."""
        if mode is not GenerationMode.POSITIVE or self.draw.random() < 0.5:
            return
        if "row" in case.path_parameters:
            case.path_parameters["row"] = self.draw.randrange(ROWS)
        if "q" in (case.query or {}):
            signs = [self.draw.choice((*LABELS, *SIGNS)) for _ in range(self.draw.randrange(1, 12))]
            case.query["q"] = self.draw.choice((" ", "")).join(signs)
        if "classify" in case.operation.path:
            picture = bytearray(self.draw.choice(self.pictures))
            for _ in range(self.draw.choice((0, 1, 10))):
                picture[self.draw.randrange(len(picture))] = self.draw.randrange(256)
            case.body = {"image": bytes(picture)}
        if isinstance(case.body, dict) and "labels" in case.body:
            case.body["labels"] = {self.draw.choice(LABELS): self.draw.choice((0, 1, None)) for _ in range(3)}

    def _ask_oddly(self, operation):
        """A request without anything that the description knows, and with what it does not know."""
        names = self.draw.sample(PARAMETERS, self.draw.randrange(4))
        query = {name: self.draw.choice(("", "0", "-1", "nan", "\0", "'", "dog", "x" * 500)) for name in names}
        headers = {
            "x-odd": self.draw.choice(("", "a" * 5_000, "\u00ff")),
            "range": self.draw.choice(("", "bytes=a", "bytes=0-9")),
        }
        url = self.url + operation.path
        response = self.session.request(operation.method, url, params=query, headers=headers, timeout=HANG)
        told = {name.lower(): value for name, value in response.headers.items()}
        self._note(operation.label, Answer(response.status_code, told, response.content), lambda: response.url)

    def _note(self, label, answer, told):
        self.found.statuses[label, answer.status] += 1
        try:
            checked(answer)
        except AssertionError:
            self.found.failures.append((label, answer.status, answer.body[:300], told()[:1000]))
