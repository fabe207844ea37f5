"""Answer `vllm-mlx serve`: run the appliance in this process until a signal ends it."""

import sys

import uvloop

from appliance.app import Appliance, ServeOptions
from appliance.cli.option import load_in_force, read_settings
from appliance.cli.output import Exit, painted
from appliance.cli.progress import ProgressLine
from appliance.telemetry.log import configure_logging
from appliance.telemetry.progress import ProgressLog, ProgressSink
from appliance.telemetry.tail import LogTail


def run_serve(
    *,
    config: str | None,
    host: str | None,
    port: int | None,
    state_dir: str | None,
    log_format: str | None,
    log_level: str | None,
) -> Exit:
    """Serve until SIGTERM or SIGINT, then drain; OK after a clean shutdown.

    Raises CommandFailed for bad settings, ManifestError, AddressInUse, StateFolderInUse.
    """
    settings = read_settings(
        config=config,
        host=host,
        port=port,
        state_dir=state_dir,
        log_format=log_format,
        log_level=log_level,
    )
    loaded = load_in_force(settings)
    tail = LogTail()
    configure_logging(settings.log_level, settings.log_format, tail=tail)
    with ProgressLine(sys.stderr) as line:
        options = ServeOptions(
            loaded=loaded,
            state_dir=settings.state_folder().absolute(),
            host=settings.host,
            port=settings.port,
            log_level=settings.log_level,
            log_format=settings.log_format,
            tail=tail,
            on_listening=_greet,
            on_progress=_bar(line) if sys.stderr.isatty() else ProgressLog(),
        )
        uvloop.run(_serve(options))
    return Exit.OK


def _bar(line: ProgressLine) -> ProgressSink:
    return lambda model, phase, done, total: line.draw(f"{model} {phase}", done, total)


async def _serve(options: ServeOptions) -> None:
    await Appliance(options).run()


def _greet(address: object) -> None:
    if sys.stderr.isatty():
        hint = painted("(in another terminal: vllm-mlx chat; Ctrl-C stops)", "dim", sys.stderr)
        sys.stderr.write(f"Serving {address} {hint}\n")
        sys.stderr.flush()
