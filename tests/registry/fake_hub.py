"""A model hub on loopback: just what downloading a snapshot asks of one."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import unquote, urlsplit

COMMIT = "1" * 40
NEXT_COMMIT = "2" * 40
REPO = "tiny/model"

_INFO = re.compile(rf"/api/models/{REPO}(?:/revision/(?P<revision>[^/]+))?")
_TREE = re.compile(rf"/api/models/{REPO}/tree/(?P<revision>[^/]+)")
_FILE = re.compile(rf"/{REPO}/resolve/(?P<revision>[^/]+)/(?P<name>.+)")
_LARGE = (".safetensors", ".bin")
_RANGE = re.compile(r"bytes=(?P<start>\d+)-")


def model_files(num_bytes: int = 1000) -> dict[str, bytes]:
    """Return a model folder's files; the weights take about `num_bytes`, in one tensor."""
    tensor = {"dtype": "U8", "shape": [num_bytes], "data_offsets": [0, num_bytes]}
    header = json.dumps({"model.embed_tokens.weight": tensor}).encode()
    weights = len(header).to_bytes(8, "little") + header + bytes(num_bytes)
    return {
        "config.json": b'{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}',
        "tokenizer.json": b"{}",
        "model.safetensors": weights,
        "pytorch_model.bin": b"never fetched",
        "original/consolidated.safetensors": b"never fetched",
    }


@dataclass
class FakeHub:
    """What the hub holds and how it misbehaves; `requests` counts (method, path) of all asked.

    `sizes` and `digests` (git's or a sha256, as the hub has it) are what it claims of a file
    against the truth.
    """

    revisions: dict[str, str]
    commits: dict[str, Mapping[str, bytes]]
    refuse_with: tuple[int, str] | None = None
    drop_after_bytes: int | None = None
    stall: Event | None = None
    stalled: Event = field(default_factory=Event)
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    ranges: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    saw_token: bool = False
    endpoint: str = ""

    def publish(self, commit: str, files: Mapping[str, bytes]) -> None:
        """Make `main` a new commit."""
        self.commits[commit] = files
        self.revisions |= {"main": commit, commit: commit}

    def downloads(self, name: str) -> int:
        """Return how often a file's content was asked for."""
        return sum(
            count
            for (method, path), count in self.requests.items()
            if method == "GET" and path.endswith(f"/{name}")
        )


@contextmanager
def fake_hub(files: Mapping[str, bytes] | None = None) -> Iterator[FakeHub]:
    """Serve a hub with one repository, REPO, whose `main` and `v1` are COMMIT."""
    held = model_files() if files is None else files
    hub = FakeHub({"main": COMMIT, "v1": COMMIT, COMMIT: COMMIT}, {COMMIT: held})
    handler = type("Handler", (_Handler,), {"hub": hub})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        hub.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield hub
        finally:
            if hub.stall is not None:
                hub.stall.set()
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, format: str, *args: object) -> None:
        """Tests read `requests` instead."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests[self.command, path] += 1
        self.hub.saw_token |= "Authorization" in self.headers
        if self.hub.refuse_with is not None:
            self._refuse(*self.hub.refuse_with)
            return
        for pattern, answer in ((_TREE, self._tree), (_INFO, self._info), (_FILE, self._file)):
            if match := pattern.fullmatch(path):
                commit = self.hub.revisions.get(match["revision"] or "main")
                if commit is None:
                    self._refuse(404, "RevisionNotFound")
                else:
                    answer(commit, match)
                return
        self._refuse(404, "RepoNotFound")

    def _refuse(self, status: int, code: str) -> None:
        self._send(status, b"{}", {"X-Error-Code": code, "X-Error-Message": code})

    def _info(self, commit: str, _: re.Match[str]) -> None:
        files = [
            {"rfilename": name, **self._facts(name, body)} for name, body in self._files(commit)
        ]
        self._send_json({"id": REPO, "sha": commit, "siblings": files})

    def _tree(self, commit: str, _: re.Match[str]) -> None:
        files = [
            {"type": "file", "path": name, **self._facts(name, body)}
            for name, body in self._files(commit)
        ]
        self._send_json(files)

    def _facts(self, name: str, body: bytes) -> dict[str, object]:
        size = self.hub.sizes.get(name, len(body))
        if not name.endswith(_LARGE):
            blob = hashlib.sha1(b"blob %d\0" % len(body) + body, usedforsecurity=False)
            digest = self.hub.digests.get(name, blob.hexdigest())
            return {"size": size, "oid": digest, "blobId": digest}
        digest = self.hub.digests.get(name, hashlib.sha256(body).hexdigest())
        return {
            "size": size,
            "oid": digest[:40],
            "blobId": digest[:40],
            "lfs": {"size": size, "oid": digest, "sha256": digest, "pointerSize": 130},
        }

    def _files(self, commit: str) -> list[tuple[str, bytes]]:
        return list(self.hub.commits[commit].items())

    def _file(self, commit: str, match: re.Match[str]) -> None:
        body = self.hub.commits[commit][match["name"]]
        headers = {
            "ETag": f'"{hashlib.sha256(body).hexdigest()}"',
            "X-Repo-Commit": commit,
            "Accept-Ranges": "bytes",
        }
        asked = _RANGE.match(self.headers.get("Range", ""))
        if asked is None:
            self._send(200, body, headers)
            return
        start = int(asked["start"])
        self.hub.ranges.append(match["name"])
        headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        self._send(206 if start < len(body) else 416, body[start:], headers)

    def _send_json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self._send_body(body)

    def _send_body(self, body: bytes) -> None:
        limit = self.hub.drop_after_bytes
        if limit is None or len(body) <= limit:
            self.wfile.write(body)
            return
        self.wfile.write(body[:limit])
        self.wfile.flush()
        self.close_connection = True
        if self.hub.stall is None:
            self.hub.drop_after_bytes = None
        else:
            self.hub.stalled.set()
            self.hub.stall.wait()
