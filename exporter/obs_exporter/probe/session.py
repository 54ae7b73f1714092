"""One call of ``obs-probe run``: from options to a plan, the run, and what is written, served and said."""

from __future__ import annotations

import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from obs_exporter.probe.cli_common import InputError, pairs
from obs_exporter.probe.client import ClientOptions
from obs_exporter.probe.discover import DiscoverError, Hop, engine_version, first_model
from obs_exporter.probe.load import Level, Stop
from obs_exporter.probe.outcome import SLO, Record
from obs_exporter.probe.progress import progress_for
from obs_exporter.probe.request import Endpoint, RequestBuilder, RequestError, Shape, api_key, parse_endpoint
from obs_exporter.probe.results import ResultError, ResultWriter
from obs_exporter.probe.runner import Observer, Plan, Runner, ServerSide
from obs_exporter.probe.scenarios import Prompts
from obs_exporter.probe.shards import Rendezvous, Shard, ShardError
from obs_exporter.probe.transport import TLSOptions, TransportError, resolve
from obs_exporter.probe.truth.process import TruthError
from obs_exporter.probe.versions import engine_generation

_DEFAULT_CONCURRENCY = (1, 2, 4, 8, 16, 32, 64)
_SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key", "api-key"})
_OWN_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "content-type", "connection", "x-request-id"})


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of ``obs-probe run``, as given; their help says what they mean."""

    url: str
    model: str | None
    scenarios: tuple[str, ...]
    concurrency: tuple[int, ...] | None
    rate: tuple[float, ...] | None
    requests: int | None
    duration: float | None
    warmup: int
    repeats: int
    unique_prefix: bool
    seed: int
    api: str
    max_tokens: int | None
    ignore_eos: bool
    min_tokens: int | None
    temperature: float | None
    stream: bool
    usage: bool
    continuous_usage: bool
    tokenizer: str | None
    chat_file: str | None
    headers: tuple[str, ...]
    api_key_env: str | None
    timeout: float
    fresh_connections: bool
    proxy: str | None
    cacert: str | None
    cert: str | None
    key: str | None
    insecure: bool
    ttft_slo: float
    e2e_slo: float
    tpot_slo: float | None
    calibration: bool
    calibrate_only: bool
    max_client_error: float
    output: str | None
    listen: str | None
    push_gateway: str | None
    textfile: str | None
    metrics_url: str | None
    metrics_stack: str
    metrics_interval: float
    processes: int
    shard: str | None
    rendezvous: str | None
    run_id: str | None
    name: str | None
    stack: str | None
    stack_version: str | None
    engine_version: str | None
    engine_generation: str | None
    gpu: str | None
    settings: tuple[str, ...]
    quiet: bool


def execute(options: RunOptions, arguments: Sequence[str]) -> int:
    """Run; return the exit status: 0, or 1 for a partial result. Raises InputError (exit status 2)."""
    try:
        return _Session(options, arguments).run()
    except (RequestError, TransportError, DiscoverError, ResultError, ShardError, TruthError) as error:
        raise InputError(str(error)) from None


def levels_of(options: RunOptions) -> tuple[Level, ...]:
    """Return the levels to run: scenarios times loads. Raises InputError when the options contradict each other."""
    if options.concurrency and options.rate:
        raise InputError("--concurrency and --rate: a run is either a closed or an open loop: give one of them")
    if options.duration is not None and options.requests is not None:
        raise InputError("--duration and --requests-per-level: give one of them")
    found = []
    for scenario in options.scenarios:
        for slots in () if options.rate else options.concurrency or _DEFAULT_CONCURRENCY:
            found.append(Level(scenario, slots, None, _requests(options, slots), options.duration))
        for rate in options.rate or ():
            found.append(Level(scenario, None, rate, _requests(options, None), options.duration))
    return tuple(found)


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

    def __init__(self, options: RunOptions, arguments: Sequence[str]) -> None:
        self._options = options
        self._arguments = arguments
        self._levels = levels_of(options)
        self._run_id = options.run_id or uuid.uuid4().hex[:12]
        self._slo = SLO(options.ttft_slo, options.e2e_slo, options.tpot_slo)
        self._stop = Stop()
        self._hop = _hop(options)
        self._shard = Shard()
        if options.shard:
            try:
                self._shard = Shard.parse(options.shard)
            except ValueError as error:
                raise InputError(f"--shard {error}") from None
            if self._shard.count > 1 and not options.run_id:
                raise InputError("--shard needs --run-id: the same one for every shard of a run")
        self._prompts = Prompts(options.seed, options.unique_prefix, options.max_tokens, options.chat_file)
        for scenario in options.scenarios:
            self._prompts.source(scenario, "")

    def run(self) -> int:
        """Do it; return the exit status."""
        options = self._options
        if options.calibrate_only:
            return self._only_calibrate()
        _check_reachable(self._hop)
        model = options.model or first_model(self._hop)
        output = Path(options.output or time.strftime("obs-probe-%Y%m%dT%H%M%SZ.json", time.gmtime()))
        with _metrics(options, self._slo) as metrics, _signals(self._stop):
            if options.processes > 1:
                result = self._in_processes(output, metrics)
            else:
                result = self._here(model, output, metrics)
        if not options.quiet:
            from obs_exporter.probe.report import render

            click.echo(render(result, "text", None, output.parent), nl=False)
            click.echo(f"result: {output}", err=True)
        return 1 if result["partial"] else 0

    def _here(self, model: str, output: Path, metrics: Observer | None) -> dict[str, Any]:
        """Run in this process."""
        writer = ResultWriter(output, self._header(model))
        self._note_insecure(writer)
        progress = None if self._options.quiet else progress_for(sys.stderr)
        observers = [observer for observer in (progress, metrics) if observer is not None]
        reason = "the probe failed"
        try:
            Runner(self._plan(model), writer, observers, self._stop).run()
            reason = "stopped by a signal" if self._stop.requested else ""
        except Exception as error:
            reason = f"the run ended early: {error}"
            raise
        finally:
            if progress is not None:
                progress.close()
            writer.finish(reason)
        return writer.result

    def _in_processes(self, output: Path, metrics: Observer | None) -> dict[str, Any]:
        """Run in several processes; this one only joins and publishes."""
        from obs_exporter.probe.processes import ProcessesError, run_processes

        if self._options.shard:
            raise InputError("--processes and --shard: give one of them")

        def heard(record: Record) -> None:
            if metrics is not None:
                metrics.recorded(record)

        try:
            result = run_processes(self._arguments, self._options.processes, self._run_id, output, self._stop, heard)
        except ProcessesError as error:
            raise InputError(str(error)) from None
        return result

    def _only_calibrate(self) -> int:
        from obs_exporter.probe.calibrate import calibrate
        from obs_exporter.probe.progress import calibration_line

        for level in self._levels:
            click.echo(calibration_line(calibrate(level, self._options.max_client_error)))
        return 0

    def _note_insecure(self, writer: ResultWriter) -> None:
        if self._options.insecure:
            writer.note("the server's certificate was not checked (--insecure)")

    def _plan(self, model: str) -> Plan:
        options = self._options
        shape = Shape(
            model, options.api, options.stream, options.usage, options.continuous_usage, options.ignore_eos,
            options.min_tokens, options.temperature,
        )  # fmt: skip
        proxied_plainly = self._hop.proxy is not None and not self._hop.endpoint.tls
        builder = RequestBuilder(self._hop.endpoint, shape, self._hop.key, _headers(options.headers), proxied_plainly)
        client = ClientOptions(
            options.timeout, self._hop.tls, self._hop.proxy, not options.fresh_connections, bool(options.tokenizer)
        )
        meeting = None
        if options.rendezvous:
            meeting = Rendezvous(Path(options.rendezvous), self._run_id, self._shard)
        return Plan(
            self._hop.endpoint, builder, self._prompts, self._levels, self._run_id, options.repeats, options.warmup,
            options.seed, self._slo, client, options.calibration, options.max_client_error, self._shard, meeting,
            _tokenizer(options.tokenizer), _server_side(options),
        )  # fmt: skip

    def _header(self, model: str) -> dict[str, Any]:
        """Return the head of the result: what was measured, how, and against which limits. Nothing secret."""
        options = self._options
        version = options.engine_version or engine_version(self._hop)
        source = "given" if options.engine_version else "GET /version" if version else "unknown"
        generation, why = engine_generation(options.stack, options.stack_version, version)
        if options.engine_generation:
            generation, why = options.engine_generation, "given"
        return {
            "run_id": self._run_id,
            "shard": options.shard,
            "seed": options.seed,
            "target": {
                "name": _target_name(options, self._hop.endpoint), "url": self._hop.endpoint.url, "model": model,
                "stack": options.stack, "stack_version": options.stack_version, "engine_version": version,
                "engine_version_source": source, "engine_generation": generation, "engine_generation_source": why,
                "gpu": options.gpu, "settings": dict(sorted(pairs(options.settings, "--setting").items())),
            },
            "slo": asdict(self._slo),
            "load": {
                "api": options.api, "stream": options.stream, "max_tokens": options.max_tokens,
                "ignore_eos": options.ignore_eos, "min_tokens": options.min_tokens, "temperature": options.temperature,
                "unique_prefix": options.unique_prefix, "warmup": options.warmup, "repeats": options.repeats,
                "timeout_s": options.timeout,
                "levels": [asdict(level) for level in self._levels],
            },
        }  # fmt: skip


def _hop(options: RunOptions) -> Hop:
    tls = TLSOptions(options.cacert, options.cert, options.key, options.insecure)
    proxy = parse_endpoint(options.proxy) if options.proxy else None
    return Hop(parse_endpoint(options.url), tls, proxy, api_key(options.api_key_env))


def _target_name(options: RunOptions, endpoint: Endpoint) -> str:
    return options.name or endpoint.authority


def _headers(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Read the --header options. Raises InputError for secrets and for headers that the probe sets itself."""
    found = []
    for text in texts:
        name, colon, value = text.partition(":")
        name, value = name.strip(), value.strip()
        if not colon or not name.replace("-", "").isalnum() or not value.isprintable():
            raise InputError("--header: give it as 'Name: value'")
        if name.lower() in _SECRET_HEADERS:
            raise InputError(f"--header {name}: a secret on a command line is seen by others: use --api-key-env")
        if name.lower() in _OWN_HEADERS:
            raise InputError(f"--header {name}: the probe sets this one itself")
        found.append((name, value))
    return tuple(found)


def _check_reachable(hop: Hop) -> None:
    """Raise InputError when nothing takes connections at the target."""
    near = hop.proxy or hop.endpoint
    _, address = resolve(near.host, near.port)
    try:
        socket.create_connection(address, timeout=5).close()
    except OSError as error:
        raise InputError(f"{near.url}: cannot connect: {error.strerror or error}: is the server up?") from None


def _tokenizer(path: str | None) -> Callable[[str], int] | None:
    """Return a function that counts tokens with a tokenizer.json. Raises InputError."""
    if path is None:
        return None
    import importlib

    try:
        module: Any = importlib.import_module("tokenizers")
    except ImportError:
        raise InputError("--tokenizer needs the package tokenizers: pip install tokenizers") from None
    try:
        tokenizer = module.Tokenizer.from_file(path)
    except Exception as error:  # noqa: BLE001 - the package raises bare Exception
        raise InputError(f"{path}: not a tokenizer.json: {error}") from None
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _server_side(options: RunOptions) -> ServerSide:
    if not options.metrics_url:
        return ServerSide()
    from obs_exporter.probe.server_side import MAPPERS, HTTPServerSide

    if options.metrics_stack not in MAPPERS:
        raise InputError(f"--metrics-stack {options.metrics_stack!r}: use one of {', '.join(sorted(MAPPERS))}")
    if not options.metrics_url.startswith(("http://", "https://")):
        raise InputError(f"--metrics-url {options.metrics_url!r} is not an http or https URL")
    return HTTPServerSide(options.metrics_url, MAPPERS[options.metrics_stack], options.metrics_interval)


@contextmanager
def _metrics(options: RunOptions, slo: SLO) -> Iterator[Observer | None]:
    """Serve the metrics while the block runs, and push or write them after it. Raises InputError."""
    if not (options.listen or options.push_gateway or options.textfile):
        yield None
        return
    from obs_exporter.probe.metrics import (
        MetricsOutputError, ProbeMetrics, RunMetrics, push, serve_metrics, write_textfile,
    )  # fmt: skip

    metrics = ProbeMetrics(slo)
    metrics.set_slo(slo)
    close: Callable[[], None] = lambda: None  # noqa: E731
    try:
        if options.listen:
            close, port = serve_metrics(metrics, options.listen)
            click.echo(f"metrics: http://{options.listen.rpartition(':')[0]}:{port}/metrics", err=True)
        yield RunMetrics(metrics, _target_name(options, parse_endpoint(options.url)))
        if options.textfile:
            write_textfile(metrics, Path(options.textfile))
        if options.push_gateway:
            push(metrics, options.push_gateway, "obs-probe")
    except MetricsOutputError as error:
        raise InputError(str(error)) from None
    finally:
        close()


@contextmanager
def _signals(stop: Stop) -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into a stop request, which wakes the wait for events; a second one kills."""

    def ask(number: int, frame: object) -> None:
        if stop.requested:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.requested = True

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

