"""A stand-in for Hugging Face: what uploads and downloads of a preset ask.

Repositories are dicts of files in memory; every commit is kept.
"""

import base64
import contextlib
import hashlib
import http.server
import json
import threading


class HubStandIn(http.server.ThreadingHTTPServer):
    """`files[repository][path]` is what was uploaded, `commits` their paths."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Requests)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.files = {}
        self.commits = []
        # What the hub asks of who uploads.
        self.token = "hf_stand_in"

    @property
    def environment(self):
        """Variables of a process that takes it for the hub."""
        return {
            "HF_ENDPOINT": self.url,
            "HF_TOKEN": self.token,
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
        }


@contextlib.contextmanager
def hub_stand_in():
    """Serves a hub without repositories."""
    with HubStandIn() as hub:
        thread = threading.Thread(target=hub.serve_forever)
        thread.start()
        try:
            yield hub
        finally:
            hub.shutdown()
            thread.join()


class _Requests(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self._body()
        if self.headers.get("Authorization") != f"Bearer {self.server.token}":
            return self._answer(401, {"error": "Invalid username or password"})
        words = self.path.strip("/").split("/")
        if self.path == "/api/repos/create":
            return self._create(json.loads(body))
        if self.path == "/api/validate-yaml":
            return self._answer(200, {"errors": [], "warnings": []})
        if words[:2] == ["api", "models"] and "preupload" in words:
            files = [
                {"path": f["path"], "uploadMode": "regular"}
                for f in json.loads(body)["files"]
            ]
            for file in files:
                file["shouldIgnore"] = False
            return self._answer(200, {"files": files})
        if words[:2] == ["api", "models"] and "commit" in words:
            return self._commit("/".join(words[2:4]), body)
        return self._answer(404, {"error": "not of this stand-in"})

    def do_GET(self):
        user, name, resolve, _, *path = self.path.strip("/").split("/")
        files = self.server.files.get(f"{user}/{name}")
        if resolve != "resolve" or files is None:
            return self._answer(404, {}, {"X-Error-Code": "RepoNotFound"})
        content = files.get("/".join(path))
        if content is None:
            return self._answer(404, {}, {"X-Error-Code": "EntryNotFound"})
        return self._answer(
            200,
            content,
            {
                "ETag": f'"{hashlib.sha1(content).hexdigest()}"',
                "X-Repo-Commit": f"{len(self.server.commits):040x}",
            },
        )

    do_HEAD = do_GET

    def _create(self, asked):
        name = f"{asked.get('organization') or 'me'}/{asked['name']}"
        is_there = name in self.server.files
        self.server.files.setdefault(name, {})
        self._answer(
            409 if is_there else 200, {"url": f"{self.server.url}/{name}"}
        )

    def _commit(self, name, body):
        files = self.server.files[name]
        paths = []
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                value = line["value"]
                files[value["path"]] = base64.b64decode(value["content"])
                paths.append(value["path"])
        self.server.commits.append(paths)
        number = f"{len(self.server.commits):040x}"
        self._answer(
            200, {"commitOid": number, "commitUrl": f"{self.server.url}/{name}"}
        )

    def _body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers["Content-Length"] or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, status, content, headers=()):
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for name, value in dict(headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *arguments):
        pass
