"""Parse the command line and call one function; whatever goes wrong is told in one line."""

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import NoReturn, Protocol

from appliance import __version__
from appliance.cli.output import CommandFailed, Exit, complain
from appliance.errors import ApplianceError, ManifestError

COMMANDS = {
    "serve": "appliance.cli.serve:run_serve",
    "plan": "appliance.cli.plan:run_plan",
    "apply": "appliance.cli.apply:run_apply",
    "diff": "appliance.cli.diff:run_diff",
    "history": "appliance.cli.history:run_history",
    "rollback": "appliance.cli.rollback:run_rollback",
    "reload": "appliance.cli.reload:run_reload",
    "load": "appliance.cli.override:run_load",
    "unload": "appliance.cli.override:run_unload",
    "pin": "appliance.cli.override:run_pin",
    "unpin": "appliance.cli.override:run_unpin",
    "top": "appliance.cli.top:run_top",
    "logs": "appliance.cli.log:run_logs",
    "validate": "appliance.cli.validate:run_validate",
    "schema": "appliance.cli.schema:run_schema",
    "status": "appliance.cli.status:run_status",
    "chat": "appliance.cli.chat:run_chat",
    "doctor": "appliance.cli.doctor:run_doctor",
    "models list": "appliance.cli.status:run_models_list",
    "models pull": "appliance.cli.models:run_pull",
    "models inspect": "appliance.cli.models:run_inspect",
}
"""The function of each command, imported only when it is called: help is quick, serve small.

It gets every option by name and returns the exit code.
"""


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code; only --help and --version raise SystemExit."""
    try:
        options = vars(build_parser().parse_args(argv))
        module, function = COMMANDS[options.pop("command")].split(":")
        code: int = getattr(import_module(module), function)(**options)
        sys.stdout.flush()
    except CommandFailed as error:
        complain(*error.lines)
        return error.code
    except ManifestError as error:
        complain(*map(str, error.problems), prefix="")
        return Exit.FAILED
    except ApplianceError as error:
        complain(str(error))
        return Exit.FAILED
    except BrokenPipeError:
        # The reader left, as `head` does; Python would complain again when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    except OSError as error:
        complain(str(error))
        return Exit.FAILED
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    return code


class _Parser(argparse.ArgumentParser):
    """Says in one line what is wrong with the arguments."""

    def error(self, message: str) -> NoReturn:
        """Called by argparse."""
        raise CommandFailed(f"{message}; see '{self.prog} --help'", code=Exit.USAGE)


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of every command; each sets `command` to a key of COMMANDS."""
    parser = _Parser(
        prog="vllm-mlx",
        description="Serve language models on MLX to your network, as one manifest says.",
        epilog="Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not converged, 4 not reachable. "
        "Flags win over the environment: VLLM_MLX_CONFIG, _HOST, _PORT, _STATE_DIR, _LOG_FORMAT, "
        "_LOG_LEVEL, _URL, _API_KEY.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"vllm-mlx {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add_server_commands(commands)
    _add_client_commands(commands)
    _add_manifest_commands(commands)
    _add_override_commands(commands)
    models = _add(commands, "models", "list, pull or inspect models")
    _add_model_commands(models.add_subparsers(metavar="COMMAND", required=True))
    return parser


class Commands(Protocol):
    """What argparse's `add_subparsers` returns, as far as it is public."""

    def add_parser(
        self, name: str, *, help: str, description: str, allow_abbrev: bool
    ) -> argparse.ArgumentParser:
        """Add one command."""


def _add_server_commands(commands: Commands) -> None:
    serve = _add(commands, "serve", "run the appliance until a signal ends it")
    _add_address_options(serve)
    formats, levels = ("auto", "json", "console"), ("debug", "info", "warning", "error")
    serve.add_argument("--log-format", choices=formats, help="auto = console on a terminal")
    serve.add_argument("--log-level", choices=levels, help="least severe line to log")
    validate = _add(commands, "validate", "check a manifest without serving it")
    validate.add_argument("file", metavar="FILE", type=Path)
    _add_json(validate)
    schema = _add(commands, "schema", "print the manifest's JSON Schema, or the HTTP API's OpenAPI")
    schema.add_argument("document", nargs="?", choices=("manifest", "openapi"), default="manifest")
    doctor = _add(commands, "doctor", "check that this machine can serve, and say what is missing")
    _add_address_options(doctor)
    _add_json(doctor)


def _add_client_commands(commands: Commands) -> None:
    status = _add(commands, "status", "say how the running appliance and its models are")
    status.add_argument(
        "--watch", dest="is_watching", action="store_true", help="go on until Ctrl-C"
    )
    _add_reach_options(status)
    _add_json(status)
    top = _add(commands, "top", "show requests, tokens per second and memory of every model, live")
    _add_reach_options(top)
    _add_json(top)
    logs = _add(commands, "logs", "show the last lines that the appliance logged")
    logs.add_argument(
        "-f", "--follow", dest="is_following", action="store_true", help="go on until Ctrl-C"
    )
    logs.add_argument("-n", "--lines", metavar="N", type=int, default=100, help="default 100")
    _add_reach_options(logs)
    _add_json(logs)
    chat = _add(commands, "chat", "talk with a model; reads lines from a pipe too")
    chat.add_argument("model", metavar="MODEL", nargs="?", help="default: the first one served")
    chat.add_argument("--system", metavar="TEXT", help="what the model is told first")
    chat.add_argument("--temperature", metavar="T", type=float, help="0 = always the likeliest")
    chat.add_argument("--max-tokens", metavar="N", type=int, help="longest answer")
    _add_reach_options(chat)


def _add_manifest_commands(commands: Commands) -> None:
    plan = _add(commands, "plan", "show what a manifest would change, and change nothing")
    plan.add_argument("file", metavar="FILE", type=Path)
    plan.add_argument(
        "--offline", dest="is_offline", action="store_true", help="against nothing that runs"
    )
    _add_reach_options(plan)
    _add_json(plan)
    apply = _add(commands, "apply", "make a manifest the one in force; shows the plan and asks")
    apply.add_argument("file", metavar="FILE", type=Path)
    _add_change_options(apply)
    diff = _add(commands, "diff", "compare a manifest, and what runs, with the one in force")
    diff.add_argument("file", metavar="FILE", type=Path, nargs="?", help="default ./vllm-mlx.yaml")
    _add_reach_options(diff)
    _add_json(diff)
    history = _add(commands, "history", "list the revisions of the manifest, or show one")
    history.add_argument("number", metavar="NUMBER", type=int, nargs="?")
    _add_reach_options(history)
    _add_json(history)
    rollback = _add(commands, "rollback", "go back to a revision; shows the plan and asks")
    rollback.add_argument(
        "number", metavar="NUMBER", type=int, nargs="?", help="default: the one before"
    )
    _add_change_options(rollback)
    reload = _add(commands, "reload", "read the file of the manifest in force again, at once")
    _add_reach_options(reload)


def _add_override_commands(commands: Commands) -> None:
    until = "until a revision changes it"
    for name, text in (
        ("load", f"bring a model into memory, {until}"),
        ("unload", f"keep a model out of memory, {until}"),
        ("pin", f"keep a model in memory, {until}"),
        ("unpin", "let the manifest decide about a pinned model again"),
    ):
        parser = _add(commands, name, text)
        parser.add_argument("name", metavar="NAME")
        _add_reach_options(parser)


def _add_change_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", dest="is_agreed", action="store_true", help="do not ask")
    parser.add_argument(
        "--wait",
        dest="is_waiting",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="wait until it has converged (default)",
    )
    _add_reach_options(parser)


def _add_model_commands(commands: Commands) -> None:
    listing = _add(commands, "list", "list what the running appliance serves", "models list")
    _add_reach_options(listing)
    _add_json(listing)
    pull = _add(commands, "pull", "fetch and convert a model before it is needed", "models pull")
    pull.add_argument("target", metavar="SOURCE|NAME", help="such as hf:org/repo, or a name")
    _add_manifest(pull)
    _add_state_dir(pull)
    inspect = _add(commands, "inspect", "say what a model is made of", "models inspect")
    inspect.add_argument("target", metavar="SOURCE|FOLDER|NAME", help="something that is here")
    _add_manifest(inspect)
    _add_state_dir(inspect)
    _add_json(inspect)


def _add(
    commands: Commands, name: str, text: str, command: str | None = None
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    parser.set_defaults(command=command or name)
    return parser


def _add_address_options(parser: argparse.ArgumentParser) -> None:
    _add_manifest(parser)
    parser.add_argument("--host", help="address to listen on; default 127.0.0.1")
    parser.add_argument("--port", type=int, help="default 8000; 0 = any free one")
    _add_state_dir(parser)


def _add_reach_options(parser: argparse.ArgumentParser) -> None:
    text = "an appliance elsewhere; default: the one of the state folder"
    parser.add_argument("--url", help=text)
    _add_state_dir(parser)


def _add_manifest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-c", "--config", metavar="FILE", help="manifest; default ./vllm-mlx.yaml")


def _add_state_dir(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state-dir", metavar="DIR", help="folder of models and history")


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", dest="as_json", action="store_true", help="for programs")
