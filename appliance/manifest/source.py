"""Parse where a model's files come from: hf:, path:, wheel:, scripted: …. Touches no file."""

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class HfSource:
    """A repository of a model hub; `revision` None = its default branch."""

    repo: str
    revision: str | None = None

    def __str__(self) -> str:
        return f"hf:{self.repo}" + (f"@{self.revision}" if self.revision else "")


@dataclass(frozen=True)
class PathSource:
    """A folder with an MLX model, or one GGUF file; relative to the manifest's folder."""

    path: Path

    def __str__(self) -> str:
        return f"path:{self.path}"


@dataclass(frozen=True)
class WheelSource:
    """A package of the configured index, as a wheel or a source archive, never installed.

    `member` is the file or folder inside it (for a source archive without the top folder);
    None = everything. `sha256` is the digest of the archive as the index serves it.
    """

    package: str
    version: str
    member: str | None = None
    sha256: str | None = None

    def __str__(self) -> str:
        member = f"/{self.member}" if self.member else ""
        digest = f"#sha256={self.sha256}" if self.sha256 else ""
        return f"wheel:{self.package}=={self.version}{member}{digest}"


@dataclass(frozen=True)
class ScriptedSource:
    """A script file that stands in for a model; relative to the manifest's folder."""

    path: Path

    def __str__(self) -> str:
        return f"scripted:{self.path}"


Source = HfSource | PathSource | WheelSource | ScriptedSource

_FORMS = {
    "hf": "hf:org/repo[@revision]",
    "path": "path:/folder or path:/file.gguf",
    "wheel": "wheel:package==version[/file][#sha256=…]",
    "scripted": "scripted:file.yaml",
}
_LATER_FORMS = {
    "https": "https://host/file[#sha256=…]",
    "remote": "remote:http://host:port#model",
}

_HF = re.compile(
    r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@(?P<revision>[\w./-]+))?", re.ASCII
)
_WHEEL = re.compile(
    r"(?P<package>[A-Za-z0-9][\w.-]*)==(?P<version>[\w.!+-]+)"
    r"(?:/(?P<member>[^#]+))?(?:#sha256=(?P<sha256>[0-9a-fA-F]{64}))?",
    re.ASCII,
)
_LATER = {
    "https": re.compile(r"//[^\s/?#]+/[^\s#]+(#sha256=[0-9a-fA-F]{64})?"),
    "remote": re.compile(r"https?://[^\s/?#]+(/[^\s#]*)?#[^\s#]+"),
}


def parse_source(text: str) -> Source:
    """Return the source that `text` names; raises ValueError with the right form for its scheme.

    The error does not repeat `text`, which may hold an expanded value.
    """
    scheme, colon, rest = text.partition(":")
    if colon and scheme in _LATER:
        if _LATER[scheme].fullmatch(rest) is None:
            raise ValueError(f"should look like {_LATER_FORMS[scheme]}")
        raise ValueError(f"'{scheme}:' sources are not available in this build")
    if not colon or scheme not in _FORMS:
        raise ValueError(f"should be one of {', '.join(_FORMS.values())}")
    wrong = ValueError(f"should look like {_FORMS[scheme]}")
    if not rest or not rest.isprintable():
        raise wrong
    if scheme == "path":
        return PathSource(expand_home(rest))
    if scheme == "scripted":
        return ScriptedSource(expand_home(rest))
    match = (_HF if scheme == "hf" else _WHEEL).fullmatch(rest)
    if match is None:
        raise wrong
    if scheme == "hf":
        return HfSource(match["repo"], match["revision"])
    return _wheel_source(match, wrong)


def _wheel_source(match: re.Match[str], wrong: ValueError) -> WheelSource:
    member = match["member"]
    if member is not None and any(
        part in ("", ".", "..") for part in member.rstrip("/").split("/")
    ):
        raise wrong
    digest = match["sha256"]
    return WheelSource(
        match["package"],
        match["version"],
        member.rstrip("/") if member else None,
        digest.lower() if digest else None,
    )


def expand_home(text: str) -> Path:
    """Return `text` as a path with a leading `~` replaced; raises ValueError for a user unknown."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ValueError("begins with ~ and a user that this machine does not have") from error
