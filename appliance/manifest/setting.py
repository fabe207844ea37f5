"""Read what needs a restart to change: flags, else environment variables; and find the manifest."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from appliance.errors import ManifestError, Problem
from appliance.manifest.source import expand_home

PREFIX = "VLLM_MLX_"
MANIFEST_NAME = "vllm-mlx.yaml"

_RULES = {
    "int_parsing": "should be a whole number",
    "string_too_short": "should not be empty",
    "literal_error": "should be {expected}",
    "greater_than_equal": "should be at least {ge:g}",
    "less_than_equal": "should be at most {le:g}",
}


def _check_url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError("should begin with http:// or https://")
    return text.rstrip("/")


def _expand(path: Path) -> Path:
    return expand_home(str(path))


HomePath = Annotated[Path, AfterValidator(_expand)]


class Settings(BaseSettings):
    """What a flag or an environment variable VLLM_MLX_… says; everything else is the manifest's."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    config: HomePath | None = Field(default=None, description="Manifest to serve.")
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on.")
    port: int = Field(default=8000, ge=0, le=65535, description="Port; 0 = any free one.")
    state_dir: HomePath | None = Field(default=None, description="Folder for models and history.")
    log_format: Literal["auto", "json", "console"] = Field(
        default="auto", description="auto = console on a terminal, else JSON."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severe line to log."
    )
    url: Annotated[str, AfterValidator(_check_url)] | None = Field(
        default=None, description="Appliance that commands talk to; none = the one on this machine."
    )
    api_key: SecretStr | None = Field(default=None, description="Key that commands send.")

    def state_folder(self) -> Path:
        """Return the state folder in force."""
        return self.state_dir or default_state_dir()


def load_settings(flags: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings; `flags` (by field name; None = not given) win over the environment.

    Raises ManifestError with a problem for every bad value; it names the flag or the variable and
    never repeats the value.
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        raise ManifestError(tuple(_problem(each, given) for each in details)) from error


def default_state_dir(
    platform: str = sys.platform,
    environ: Mapping[str, str] = os.environ,
    home: Path | None = None,
) -> Path:
    """Return where state is kept unless a flag or variable says otherwise; creates nothing."""
    home = home or Path.home()
    if platform == "darwin":
        return home / "Library" / "Application Support" / "vllm-mlx"
    xdg = Path(environ.get("XDG_STATE_HOME", ""))
    # The XDG specification says that relative paths are to be ignored.
    return (xdg if xdg.is_absolute() else home / ".local" / "state") / "vllm-mlx"


def find_manifest(config: Path | None, *, cwd: Path, state_dir: Path) -> Path | None:
    """Return the manifest in force: `config`, else `cwd`'s, else `state_dir`'s; None = built-in.

    `config` is returned even if it does not exist: asking for a file and getting another is worse.
    """
    if config is not None:
        return config
    candidates = (cwd / MANIFEST_NAME, state_dir / MANIFEST_NAME)
    return next((path for path in candidates if path.is_file()), None)


def _problem(details: ErrorDetails, flags: Mapping[str, Any]) -> Problem:
    name = str(details["loc"][0])
    context = {"error": details["msg"]} | details.get("ctx", {})
    reason = _RULES.get(details["type"], "{error}").format(**context)
    if name in flags:
        return Problem("command line", 0, f"--{name.replace('_', '-')}", reason)
    return Problem("environment", 0, PREFIX + name.upper(), reason)
