"""The Hugging Face hub over HTTP: what files a revision has, and their content, whatever happens to the connection.

API: `GET /api/models/{id}/revision/{revision}?blobs=true` lists files with their checksums; `GET
/{id}/resolve/{commit}/{path}` redirects to storage that honours ranges.
"""

import hashlib
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, override

from .errors import HubError, WrongContentError

CHUNK_BYTES = 1024 * 1024
"""Read at once."""


@dataclass(frozen=True, slots=True)
class HubSettings:
    """Patience, all in one place."""

    socket_seconds: float = 60.0
    """Without a byte: storage that answers at all does so within seconds."""
    fruitless_attempts: int = 8
    """In a row, without a new byte: with the pauses between them, two minutes of an unreachable hub."""
    first_pause_seconds: float = 1.0
    """Before the second attempt; doubled each time."""
    longest_pause_seconds: float = 30.0
    """Between two attempts."""
    longest_asked_pause_seconds: float = 330.0
    """Between two attempts when the hub says how long (Retry-After): it counts requests over five minutes."""
    wrong_contents: int = 3
    """Downloads of one file with a wrong checksum before it is given up."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a revision.

    Attributes:
        path: within the repository.
        size: bytes.
        blob_id: git's SHA-1 of the blob; of a large file, of its pointer only.
        sha256: of the content; only of large files (LFS).
    """

    path: str
    size: int
    blob_id: str
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Revision:
    """A commit of a model's repository, and all its files."""

    model: str
    commit: str
    files: tuple[HubFile, ...]


Progress = Callable[[int], None]
"""Is told how many bytes of the file are there."""


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why an attempt did not bring all, and for how many seconds the hub asked not to be asked."""

    said: str
    pause: float = 0.0


class _EncodedError(OSError):
    """The content came compressed, though it was asked for as it is: sizes and ranges mean something else then."""


class Hub:
    """One hub, with or without a token.

    Args:
        url: such as `https://hub.example.com`, no slash at the end.
        token: of a user who may read the model; sent to the hub's own origin and nowhere else.
        say: is told what a reader of the log should know.
        settings: patience.
    """

    def __init__(self, url: str, token: str | None, say: Callable[[str], None], settings: HubSettings) -> None:
        self._url = url.rstrip("/")
        self._token = token
        self._say = say
        self._settings = settings
        self._opener = urllib.request.build_opener(_Redirects())

    def revision(self, model: str, revision: str) -> Revision:
        """List the files of a revision.

        Raises:
            HubError: the model or the revision is not there, is gated, or the hub does not answer.
        """
        url = f"{self._url}/api/models/{model}/revision/{urllib.parse.quote(revision, safe='')}?blobs=true"
        answer = self._patiently(url, f"{model}@{revision}")
        try:
            told = json.loads(answer)
            files = tuple(_file(entry) for entry in told["siblings"])
            return Revision(model, str(told["sha"]), files)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise HubError(f"{url} does not list files with checksums ({error!r}): is that a hub?") from error

    def download(self, revision: Revision, file: HubFile, target: Path, progress: Progress) -> str:
        """Bring one file to disk, verified; return its SHA-256, hexadecimal.

        Raises:
            HubError: it cannot be had.
            WrongContentError: it came, and its checksum was wrong each time.
        """
        path = urllib.parse.quote(file.path)
        url = f"{self._url}/{revision.model}/resolve/{revision.commit}/{path}"
        for attempt in range(1, self._settings.wrong_contents + 1):
            received = self._receive(url, file, target, progress)
            wrong = received.difference(file)
            if wrong is None:
                return received.sha256.hexdigest()
            target.unlink()
            self._say(f"{file.path}: {wrong} (download {attempt} of {self._settings.wrong_contents})")
        raise WrongContentError(
            f"{file.path}: {wrong}, in {self._settings.wrong_contents} downloads. Something between here and the hub "
            "changes the file, or the hub's copy is broken; nothing of it was uploaded."
        )

    def _receive(self, url: str, file: HubFile, target: Path, progress: Progress) -> "_Received":
        received = _Received(file.size)
        fruitless = furthest = 0
        with target.open("wb") as output:
            while not received.complete:
                problem = self._try_to_receive(url, file, received, output, progress)
                if received.complete:
                    break
                # Further than ever, not than before: without ranges each answer begins anew.
                fruitless = 0 if received.size > furthest else fruitless + 1
                furthest = max(furthest, received.size)
                if fruitless >= self._settings.fruitless_attempts:
                    raise HubError(
                        f"{file.path}: nothing came after byte {furthest} of {file.size} in {fruitless} attempts, "
                        f"last {problem.said}. Start again: what was staged stays."
                    )
                self._say(f"{file.path}: {problem.said} at byte {received.size} of {file.size}; going on from there")
                self._pause(fruitless, problem.pause)
        return received

    def _try_to_receive(
        self, url: str, file: HubFile, received: "_Received", output: Any, progress: Progress
    ) -> _Problem:
        """Receive what one answer brings; return why it was not all."""
        try:
            self._receive_more(url, file, received, output, progress)
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and received.size:
                received.too_short = True  # there is nothing beyond what came
            elif error.code not in _PASSING:
                raise self._refusal(error, file.path) from None
            return _Problem(_told(error), _asked_pause(error))
        except (OSError, http.client.HTTPException) as error:
            return _Problem(_told(error))
        return _Problem("the answer was cut")

    def _receive_more(self, url: str, file: HubFile, received: "_Received", output: Any, progress: Progress) -> None:
        headers = {"Range": f"bytes={received.size}-"} if received.size else {}
        with self._open(url, headers) as answer:
            if received.size and not _goes_on(answer, received.size):
                # The server does not know ranges: from the beginning.
                received.restart()
                output.seek(0)
                output.truncate()
            while chunk := answer.read(CHUNK_BYTES):
                if received.size + len(chunk) > file.size:
                    received.too_long = True
                    return
                output.write(chunk)
                received.add(chunk)
                progress(received.size)

    def _patiently(self, url: str, what: str) -> bytes:
        for attempt in range(1, self._settings.fruitless_attempts + 1):
            try:
                with self._open(url, {}) as answer:
                    content: bytes = answer.read()
                    return content
            except urllib.error.HTTPError as error:
                if error.code not in _PASSING:
                    raise self._refusal(error, what) from None
                problem = _Problem(_told(error), _asked_pause(error))
            except (OSError, http.client.HTTPException) as error:
                problem = _Problem(_told(error))
            if attempt < self._settings.fruitless_attempts:
                self._say(f"{what}: {problem.said}; trying again")
                self._pause(attempt, problem.pause)
        raise HubError(f"{what}: {self._url} does not answer, last {problem.said}")

    def _open(self, url: str, headers: Mapping[str, str]) -> Any:
        # Compression would make ranges and sizes mean something else.
        request = urllib.request.Request(url, headers={"Accept-Encoding": "identity", **headers})  # noqa: S310 (checked)
        if self._token is not None:
            request.add_header("Authorization", f"Bearer {self._token}")
        answer = self._opener.open(request, timeout=self._settings.socket_seconds)
        if (encoding := answer.headers.get("Content-Encoding", "identity")) != "identity":
            answer.close()
            raise _EncodedError(f"it came as {encoding}, though it was asked for as it is")
        return answer

    def _refusal(self, error: urllib.error.HTTPError, what: str) -> HubError:
        if error.code in {401, 403}:
            how = (
                "the token may not read it: accept the model's terms on the hub with that user"
                if self._token is not None
                else "it is gated or private: put a token into Secrets Manager and name it in staging.token_secret"
            )
            return HubError(f"{what}: the hub refuses with {error.code}; {how}.")
        if error.code == 404:
            return HubError(f"{what}: there is no such model, revision or file on {self._url} (404).")
        if 300 <= error.code < 400:
            return HubError(f"{what}: the hub redirects in a circle, or too often ({error.code}).")
        return HubError(f"{what}: the hub answers {error.code} {error.reason}.")

    def _pause(self, attempt: int, asked: float) -> None:
        settings = self._settings
        own = min(settings.first_pause_seconds * 2 ** max(0, attempt - 1), settings.longest_pause_seconds)
        time.sleep(max(own, min(asked, settings.longest_asked_pause_seconds)))


_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers that another attempt may change."""


class _Received:
    """What came of a file so far: how much, and the checksums as they grow."""

    def __init__(self, expected: int) -> None:
        self._expected = expected
        self.restart()

    @property
    def complete(self) -> bool:
        """Whether nothing more is to come, right or wrong."""
        return self.too_long or self.too_short or self.size >= self._expected

    def restart(self) -> None:
        """Begin again."""
        self.size = 0
        self.too_long = self.too_short = False
        self.sha256 = hashlib.sha256()
        self.blob = hashlib.sha1(b"blob %d\0" % self._expected, usedforsecurity=False)

    def add(self, chunk: bytes) -> None:
        """Take the next bytes in."""
        self.size += len(chunk)
        self.sha256.update(chunk)
        self.blob.update(chunk)

    def difference(self, file: HubFile) -> str | None:
        """Return how the content differs from what the hub says of it; None when it does not."""
        if self.too_long:
            return f"it is longer than the {file.size} bytes that the hub lists"
        if self.too_short:
            return f"it ends after {self.size} of the {file.size} bytes that the hub lists"
        if file.sha256 is not None:
            found, wanted, name = self.sha256.hexdigest(), file.sha256, "sha256"
        else:
            found, wanted, name = self.blob.hexdigest(), file.blob_id, "git blob"
        return None if found == wanted else f"its {name} is {found}, the hub says {wanted}"


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects; takes the token along within one origin only, and never from TLS to plain HTTP."""

    @override
    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        """Return the request that follows."""
        before, after = urllib.parse.urlsplit(req.full_url), urllib.parse.urlsplit(newurl)
        if before.scheme == "https" and after.scheme != "https":
            raise HubError(f"{before.netloc} redirects to {after.scheme}://{after.netloc}, which is not encrypted.")
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None and (before.scheme, before.netloc) != (after.scheme, after.netloc):
            following.remove_header("Authorization")
        return following


def _goes_on(answer: Any, offset: int) -> bool:
    if answer.status != 206:
        return False
    told = str(answer.headers.get("Content-Range", ""))
    if not told.startswith(f"bytes {offset}-"):
        raise ConnectionError(f"asked for bytes from {offset}, got {told or 'an unknown part'}")
    return True


def is_token(text: str) -> bool:
    """Return whether a secret's text can be a hub's token: one printable word, and no JSON around it."""
    return text.isascii() and text.isprintable() and " " not in text and text != "" and not text.startswith("{")


def _asked_pause(error: urllib.error.HTTPError) -> float:
    """Return the seconds of Retry-After, 0 when there is none or it is a date."""
    given = str(error.headers.get("Retry-After", ""))
    return float(given) if given.isdecimal() else 0.0


def _file(entry: Mapping[str, Any]) -> HubFile:
    large, path = entry.get("lfs"), str(entry["rfilename"])
    if {"", ".", ".."} & set(path.split("/")):
        raise ValueError(f"{path!r} is no path within a repository")
    return HubFile(
        path=path,
        size=int(entry["size"]),
        blob_id=str(entry["blobId"]),
        sha256=str(large["sha256"]) if large else None,
    )


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
