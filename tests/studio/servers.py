"""Studios in processes of their own, for tests that ask them as browsers and programs do."""

import json
import re
import signal
import subprocess
import sys
import urllib.request

from tests.waiting import HANG


class Started:
    """A studio in a process of its own.

    Args:
        arguments: What is typed after `manyhot studio`.
    """

    def __init__(self, *arguments):
        command = [sys.executable, "-c", "from manyhot.cli import main; main()", "studio", *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.said = self.process.stdout.readline()
        found = re.search(r"http://\S+", self.said)
        assert found, self.said + self.process.stderr.read()
        self.url = found.group()

    def ask(self, path, *, method="GET", body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url.partition("?")[0].rstrip("/") + path, data=data, method=method)
        request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=HANG) as answer:
            return json.load(answer)

    def stop(self, how=signal.SIGINT):
        self.process.send_signal(how)
        _, told = self.process.communicate(timeout=HANG)
        return self.process.returncode, told
