"""The program under test, and HTTP to talk to it."""

import json
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request


class Server:
    """A server, on free ports; stopped, cleanly, at the end of a `with`.

    It keeps everything in `folder`, or nothing without one.
    """

    def __init__(self, program, folder=None, **variables):
        ours = ("BELLWETHER_", "OTEL_", "RUST_LOG", "NOTIFY_SOCKET")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
        self.child = subprocess.Popen(
            [program, "serve", "--http", "127.0.0.1:0", "--wire", "127.0.0.1:0"]
            + (["--data", folder] if folder else ["--memory"]),
            env=environment | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        banner = ""
        while "Ctrl-C" not in banner:
            line = self.child.stdout.readline()
            if not line:
                raise SystemExit("it did not start: " + self.child.stderr.read())
            banner += line
        self.address = re.search(r"http://\S+", banner).group()
        self.log = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.send_signal(signal.SIGTERM)
        self.log = self.child.communicate(timeout=60)[1]
        assert self.child.returncode == 0, self.log

    def ask(self, method, path, body=None, **headers):
        """Status, headers and body of the answer."""
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("content-type", "application/json")
        data = None if body is None else body.encode()
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def told(self, method, path, body=None, **headers):
        """The answer to what must succeed."""
        status, _, answer = self.ask(method, path, body, **headers)
        assert 200 <= status < 300, (method, path, status, answer)
        return json.loads(answer) if answer else None
