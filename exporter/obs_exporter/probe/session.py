"""One call of ``obs-probe run``: from options to a plan, the run, and what is written, served and said."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obs_exporter.probe.aside import check_place, make_room, refuse_results
from obs_exporter.probe.cli_common import InputError, pairs, say, write_output
from obs_exporter.probe.client import ClientOptions
from obs_exporter.probe.discover import DiscoverError, engine_version, first_model
from obs_exporter.probe.guard import TargetRefusesError
from obs_exporter.probe.lifeline import Lifeline
from obs_exporter.probe.load import Level, Stop
from obs_exporter.probe.outcome import SLO, Record
from obs_exporter.probe.progress import SharedProgress, progress_for
from obs_exporter.probe.redact import Redactor
from obs_exporter.probe.request import RequestBuilder, RequestError, Shape
from obs_exporter.probe.restart import Restart, RestartError
from obs_exporter.probe.results import ResultError, ResultWriter
from obs_exporter.probe.runner import Observer, Plan, Runner
from obs_exporter.probe.scenarios import Prompts
from obs_exporter.probe.session_parts import (
    RunOptions,
    check_http2,
    check_reachable,
    headers_of,
    hop_of,
    published,
    raise_file_limit,
    redactor_of,
    server_side_of,
    stopping,
    target_name,
    tokenizer_of,
)
from obs_exporter.probe.shards import Rendezvous, Shard, ShardError
from obs_exporter.probe.transport import TransportError
from obs_exporter.probe.truth.process import TruthError
from obs_exporter.probe.versions import engine_generation

if TYPE_CHECKING:
    from obs_exporter.probe.metrics import RunMetrics

_TOLD = (
    RequestError, TransportError, DiscoverError, ResultError, RestartError, ShardError, TruthError, TargetRefusesError,
)  # fmt: skip
"""What may go wrong and is told in a line: wrong usage, or a target that cannot be used."""
_DEFAULT_CONCURRENCY = (1, 2, 4, 8, 16, 32, 64)


def execute(options: RunOptions, arguments: Sequence[str]) -> int:
    """Run; return the exit status: 0, or 1 for a partial result. Raises InputError (exit status 2)."""
    redactor = Redactor()
    try:
        redactor = redactor_of(options)
        return _Session(options, arguments, redactor).run()
    except _TOLD as error:
        raise InputError(redactor.clean(str(error))) from None


def levels_of(options: RunOptions) -> tuple[Level, ...]:
    """Return the levels to run: scenarios times loads. Raises InputError when the options contradict each other."""
    if options.concurrency and options.rate:
        raise InputError("--concurrency and --rate: a run is either a closed or an open loop: give one of them")
    if options.duration is not None and options.requests is not None:
        raise InputError("--duration and --requests-per-level: give one of them")
    closed = () if options.rate else options.concurrency or _DEFAULT_CONCURRENCY
    loads: list[tuple[int | None, float | None]] = [(slots, None) for slots in closed]
    loads += [(None, rate) for rate in options.rate or ()]
    return tuple(
        Level(scenario, slots, rate, _requests(options, slots), options.duration)
        for scenario in options.scenarios
        for slots, rate in loads
    )


def _check_restart(options: RunOptions) -> None:
    """Raise InputError when a restart between repeats makes no sense."""
    if not (options.restart_command or "").strip():
        raise InputError("--restart-command is empty: give the command that restarts the server, or leave it out")
    if options.repeats < 2:
        raise InputError("--restart-command: it runs between repeats, so --repeats must be 2 or more")
    if options.shard and not options.rendezvous:
        raise InputError(
            "--restart-command with --shard needs --rendezvous: the other shards must wait for the restart"
        )


def _requests(options: RunOptions, slots: int | None) -> int | None:
    if options.duration is not None:
        return None
    if options.requests is not None:
        return options.requests
    if slots is None:
        return 100
    return -(-max(100, 8 * slots) // slots) * slots


class _Session:
    """The steps of one run, in order."""

    def __init__(self, options: RunOptions, arguments: Sequence[str], redactor: Redactor) -> None:
        self._options = options
        self._redactor = redactor
        self._arguments = arguments
        self._levels = levels_of(options)
        self._run_id = options.run_id or uuid.uuid4().hex[:12]
        self._slo = SLO(options.ttft_slo, options.e2e_slo, options.tpot_slo)
        self._stop = Stop()
        self._lifeline = Lifeline(self._stop)
        self._hop = hop_of(options)
        self._shard = Shard()
        if options.shard:
            try:
                self._shard = Shard.parse(options.shard)
            except ValueError as error:
                raise InputError(f"--shard {error}") from None
            if self._shard.count > 1 and not options.run_id:
                raise InputError("--shard needs --run-id: the same one for every shard of a run")
        if options.continuous_usage and not options.usage:
            raise InputError("--continuous-usage and --no-usage contradict each other: give one of them")
        if options.http2:
            check_http2(self._hop)
        if options.restart_command is not None:
            _check_restart(options)
        self._prompts = Prompts(options.seed, options.unique_prefix, options.max_tokens, options.chat_file)
        for scenario in options.scenarios:
            self._prompts.source(scenario, "")

    def run(self) -> int:
        """Do it; return the exit status."""
        options = self._options
        raise_file_limit()
        if options.calibrate_only:
            return self._only_calibrate()
        output = Path(options.output or time.strftime("obs-probe-%Y%m%dT%H%M%SZ.json", time.gmtime()))
        check_place(output)
        if options.textfile:
            refuse_results(Path(options.textfile))
        check_reachable(self._hop)
        model = options.model or first_model(self._hop, options.api)
        if options.stop_at_eof:
            self._lifeline.watch()
        complaints: list[str] = []
        with published(options, self._slo, complaints) as metrics, stopping(self._stop):
            if options.processes > 1:
                result = self._in_processes(output, metrics)
            else:
                result = self._here(model, output, metrics)
        if not options.quiet:
            from obs_exporter.probe.report import render

            try:
                write_output(render(result, "text"), None)
            finally:
                say(f"result: {output}")
        sent = sum(level["requests"] for level in result["levels"])
        failed = sent > 0 and sent == sum(sum(level["errors"].values()) for level in result["levels"])
        if failed:
            say("no request succeeded: the report says how they ended")
        if complaints:
            raise InputError("; ".join(complaints))
        return 1 if result["partial"] or failed else 0

    def _here(self, model: str, output: Path, metrics: RunMetrics | None) -> dict[str, Any]:
        """Run in this process."""
        header = self._header(model)
        if moved := make_room(output):
            say(moved)
        writer = ResultWriter(output, header)
        self._note_tls(writer)
        progress = None if self._options.quiet else progress_for(sys.stderr)
        observers: list[Observer] = [observer for observer in (progress, metrics) if observer is not None]
        reason = "the probe failed"
        try:
            Runner(self._plan(model), writer, observers, self._stop).run()
            reason = self._lifeline.reason or ("stopped by a signal" if self._stop.requested else "")
        except Exception as error:
            reason = self._redactor.clean(f"the run ended early: {error}")
            raise
        finally:
            if progress is not None:
                progress.close()
            writer.finish(reason)
        return writer.result

    def _in_processes(self, output: Path, metrics: RunMetrics | None) -> dict[str, Any]:
        """Run in several processes; this one only joins and publishes."""
        from obs_exporter.probe.processes import ProcessesError, run_processes

        if self._options.shard:
            raise InputError("--processes and --shard: give one of them")

        progress = None if self._options.quiet else SharedProgress(sys.stderr, self._options.processes)

        def heard(record: Record) -> None:
            if progress is not None:
                progress.recorded(record)
            if metrics is not None:
                metrics.recorded(record)

        try:
            count = self._options.processes
            result = run_processes(self._arguments, count, self._run_id, output, self._stop, heard, say)
        except ProcessesError as error:
            raise InputError(self._redactor.clean(str(error))) from None
        if metrics is not None:
            metrics.judged(result)
        return result

    def _only_calibrate(self) -> int:
        from obs_exporter.probe.calibrate import calibrate
        from obs_exporter.probe.progress import calibration_line

        for level in self._levels:
            tls, http2 = self._hop.endpoint.tls, self._options.http2
            found = calibrate(level, self._options.max_client_error, tls=tls, http2=http2)
            write_output(calibration_line(found), None)
        return 0

    def _note_tls(self, writer: ResultWriter) -> None:
        if self._options.insecure:
            writer.note("the server's certificate was not checked (--insecure)")

    def _plan(self, model: str) -> Plan:
        options = self._options
        shape = Shape(
            model, options.api, options.stream, options.usage, options.continuous_usage, options.ignore_eos,
            options.min_tokens, options.temperature,
        )  # fmt: skip
        proxied_plainly = self._hop.proxy is not None and not self._hop.endpoint.tls
        builder = RequestBuilder(self._hop.endpoint, shape, self._hop.key, headers_of(options.headers), proxied_plainly)
        client = ClientOptions(
            options.timeout,
            self._hop.tls,
            self._hop.proxy,
            not options.fresh_connections,
            bool(options.tokenizer),
            options.http2,
        )
        meeting = None
        if options.rendezvous:
            patience = 600.0 + (options.restart_timeout if options.restart_command else 0.0)
            meeting = Rendezvous(Path(options.rendezvous), self._run_id, self._shard, patience)
        restart = None
        if options.restart_command:
            restart = Restart(options.restart_command, options.restart_timeout)
        return Plan(
            self._hop.endpoint, builder, self._prompts, self._levels, self._run_id, options.repeats, options.warmup,
            options.seed, self._slo, client, options.calibration, options.max_client_error, self._shard, meeting,
            tokenizer_of(options.tokenizer), server_side_of(options), self._redactor,
            restart,
        )  # fmt: skip

    def _header(self, model: str) -> dict[str, Any]:
        """Return the head of the result: what was measured, how, and against which limits. Nothing secret."""
        options = self._options
        version = options.engine_version or self._redactor.clean(engine_version(self._hop) or "") or None
        source = "given" if options.engine_version else "GET /version" if version else "unknown"
        generation, why = engine_generation(options.stack, options.stack_version, version)
        if options.engine_generation:
            generation, why = options.engine_generation, "given"
        return {
            "run_id": self._run_id,
            "shard": options.shard,
            "seed": options.seed,
            "target": {
                "name": target_name(options, self._hop.endpoint), "url": self._hop.endpoint.url,
                "model": self._redactor.clean(model),
                "weights": options.weights,
                "stack": options.stack, "stack_version": options.stack_version, "engine_version": version,
                "engine_version_source": source, "engine_generation": generation, "engine_generation_source": why,
                "gpu": options.gpu, "settings": dict(sorted(pairs(options.settings, "--setting").items())),
            },
            "slo": asdict(self._slo),
            "load": {
                "api": options.api, "stream": options.stream, "max_tokens": options.max_tokens,
                "ignore_eos": options.ignore_eos, "min_tokens": options.min_tokens, "temperature": options.temperature,
                "unique_prefix": options.unique_prefix, "warmup": options.warmup, "repeats": options.repeats,
                "timeout_s": options.timeout, "http2": options.http2,
                "fresh_connections": options.fresh_connections, "proxied": options.proxy is not None,
                "usage": options.usage, "continuous_usage": options.continuous_usage,
                "restarts": options.restart_command is not None,
                "levels": [asdict(level) for level in self._levels],
            },
        }  # fmt: skip
