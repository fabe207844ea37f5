"""Answer `vllm-mlx doctor`: can this machine serve, and if not, what is missing?"""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from appliance.cli import check
from appliance.cli.check import Check, Finding, Verdict
from appliance.cli.option import read_settings
from appliance.cli.output import Colour, Exit, painted, say, say_json

_COLOURS: dict[Verdict, Colour] = {"ok": "green", "warning": "yellow", "failed": "red"}


def run_doctor(
    *,
    config: str | None,
    host: str | None,
    port: int | None,
    state_dir: str | None,
    as_json: bool,
) -> Exit:
    """Run every check, at the same time, and tell the findings; FAILED if one of them failed."""
    settings = read_settings(config=config, host=host, port=port, state_dir=state_dir)
    checks: tuple[Check, ...] = (
        check.check_platform,
        check.check_python,
        check.check_mlx,
        partial(check.check_disk, settings.state_folder().absolute()),
        partial(check.check_port, settings.host, settings.port),
        partial(check.check_manifest, settings),
        check.check_open_files,
        check.check_hub,
        check.check_index,
    )
    findings = _findings(checks)
    has_failed = any(finding.verdict == "failed" for finding in findings)
    if as_json:
        say_json({"ok": not has_failed, "checks": [dataclasses.asdict(each) for each in findings]})
    else:
        _tell(findings)
    return Exit.FAILED if has_failed else Exit.OK


def _findings(checks: tuple[Check, ...]) -> list[Finding]:
    with ThreadPoolExecutor(len(checks)) as pool:
        results = list(pool.map(lambda each: each(), checks))
    return [
        finding
        for result in results
        for finding in (result if isinstance(result, list) else [result])
    ]


def _tell(findings: list[Finding]) -> None:
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        verdict = painted(finding.verdict.ljust(7), _COLOURS[finding.verdict])
        say(f"{verdict}  {finding.name.ljust(width)}  {finding.detail}")
        if finding.hint:
            say(f"{'':7}  {'':{width}}  {painted(finding.hint, 'dim')}")
