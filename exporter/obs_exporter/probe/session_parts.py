"""The parts of one call of ``obs-probe run``: its options as values, and what is around the run."""

from __future__ import annotations

import importlib
import importlib.util
import resource
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from obs_exporter.probe.cli_common import InputError, say
from obs_exporter.probe.discover import Hop
from obs_exporter.probe.load import Stop
from obs_exporter.probe.outcome import SLO
from obs_exporter.probe.redact import Redactor
from obs_exporter.probe.request import Endpoint, RequestError, api_key, parse_endpoint
from obs_exporter.probe.runner import ServerSide
from obs_exporter.probe.transport import TLSOptions, resolve

if TYPE_CHECKING:
    from obs_exporter.probe.metrics import ProbeMetrics, RunMetrics

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
    restart_command: str | None
    restart_timeout: float
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
    http2: bool
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
    metrics_target: str | None
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
    weights: str | None
    gpu: str | None
    settings: tuple[str, ...]
    quiet: bool
    stop_at_eof: bool


def hop_of(options: RunOptions) -> Hop:
    """Return how the target is reached. Raises RequestError for a URL or a key that cannot be used."""
    tls = TLSOptions(options.cacert, options.cert, options.key, options.insecure)
    try:
        proxy = parse_endpoint(options.proxy) if options.proxy else None
    except RequestError as error:
        raise RequestError(f"--proxy: {error}") from None
    return Hop(parse_endpoint(options.url), tls, proxy, api_key(options.api_key_env))


def target_name(options: RunOptions, endpoint: Endpoint) -> str:
    """Return what metrics and reports call the target."""
    return options.name or endpoint.authority


def headers_of(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
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


def redactor_of(options: RunOptions) -> Redactor:
    """Return what hides the API key and the values of --header. Raises RequestError, InputError."""
    key = api_key(options.api_key_env)
    return Redactor([*([key] if key else []), *(value for _, value in headers_of(options.headers))])


def without_userinfo(url: str, option: str) -> None:
    """Raise InputError for a URL with a user name or password: others would see it, in the list of processes."""
    if "@" in url:  # anywhere: a password may have a slash or a question mark in it
        raise InputError(
            f"{option}: the URL carries a user name or password, which others see: give it without (an @ elsewhere as"
            " %40)"
        )


def raise_file_limit() -> None:
    """Allow this process as many open connections as the system lets it have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_reachable(hop: Hop) -> None:
    """Raise InputError when nothing takes connections at the target."""
    near = hop.proxy or hop.endpoint
    _, address = resolve(near.host, near.port)
    try:
        socket.create_connection(address, timeout=5).close()
    except OSError as error:
        raise InputError(f"{near.url}: cannot connect: {error.strerror or error}: is the server up?") from None


def check_http2(hop: Hop | None = None) -> None:
    """Raise InputError when HTTP/2 cannot be spoken: the package is missing, or a plain proxy is in between."""
    if importlib.util.find_spec("h2") is None:
        raise InputError("--http2 needs the package h2: pip install 'llm-serving-observability[http2]'")
    if hop is not None and hop.proxy is not None and not hop.endpoint.tls:
        raise InputError("--http2 through --proxy needs an https target: a proxy passes plain HTTP/2 on as HTTP/1.1")


def tokenizer_of(path: str | None) -> Callable[[str], int] | None:
    """Return a function that counts tokens with a tokenizer.json. Raises InputError."""
    if path is None:
        return None
    try:
        module: Any = importlib.import_module("tokenizers")
    except ImportError:
        raise InputError("--tokenizer needs the package tokenizers: pip install tokenizers") from None
    try:
        tokenizer = module.Tokenizer.from_file(path)
    except Exception as error:  # noqa: BLE001 - the package raises bare Exception
        raise InputError(f"{path}: not a tokenizer.json: {error}") from None
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def server_side_of(options: RunOptions) -> ServerSide:
    """Return what watches the server's own page. Raises InputError."""
    if not options.metrics_url:
        return ServerSide()
    from obs_exporter.probe.server_side import SCHEMA, HTTPServerSide, mapper

    without_userinfo(options.metrics_url, "--metrics-url")
    if not options.metrics_url.startswith(("http://", "https://")):
        shown = repr(options.metrics_url.partition("?")[0])
        raise InputError(f"--metrics-url {shown} is not an http or https URL")
    if options.metrics_target and options.metrics_stack != SCHEMA:
        raise InputError("--metrics-target names a target on an obs-exporter's page: leave out --metrics-stack")
    how = mapper(options.metrics_stack, options.metrics_target)
    return HTTPServerSide(options.metrics_url, how, options.metrics_interval)


@contextmanager
def published(options: RunOptions, slo: SLO, complaints: list[str]) -> Iterator[RunMetrics | None]:
    """Serve the metrics while the block runs, and push or write them after it, also where it ends with an error.

    What fails at the end goes to ``complaints``: the run's own report comes first. Raises InputError for what can be
    told before the run.
    """
    if not (options.listen or options.push_gateway or options.textfile):
        yield None
        return
    from obs_exporter.probe.metrics import ProbeMetrics, RunMetrics, SharedMetrics
    from obs_exporter.probe.publish import MetricsOutputError, check_textfile, gateway_url, serve_metrics

    metrics = ProbeMetrics(slo)
    metrics.set_slo(slo)
    name = target_name(options, parse_endpoint(options.url))
    run = (SharedMetrics if options.processes > 1 else RunMetrics)(metrics, name)
    close: Callable[[], None] = lambda: None  # noqa: E731
    try:
        if options.push_gateway:
            gateway_url(options.push_gateway)
        if options.textfile:
            check_textfile(Path(options.textfile))
        if options.listen:
            close, port = serve_metrics(metrics, options.listen)
            say(f"metrics: http://{options.listen.rpartition(':')[0]}:{port}/metrics")
    except MetricsOutputError as error:
        raise InputError(str(error)) from None
    try:
        yield run
    except BaseException:
        for complaint in _handed_over(options, metrics, run, name):
            say(complaint)
        raise
    else:
        complaints += _handed_over(options, metrics, run, name)
    finally:
        close()


def _handed_over(options: RunOptions, metrics: ProbeMetrics, run: RunMetrics, name: str) -> list[str]:
    """Write and push what was measured, if anything was; return what went wrong, each on its own."""
    from obs_exporter.probe.publish import MetricsOutputError, push, write_textfile

    run.ended()
    ways: list[Callable[[], None]] = []
    if options.textfile:
        ways.append(partial(write_textfile, metrics, Path(options.textfile)))
    if options.push_gateway:
        group = {"instance": name} | ({"shard": options.shard} if options.shard else {})
        ways.append(partial(push, metrics, options.push_gateway, group))
    complaints = []
    for way in ways if run.measured else ():
        try:
            way()
        except MetricsOutputError as error:
            complaints.append(str(error))
    return complaints


@contextmanager
def stopping(stop: Stop) -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into a stop request, which wakes the wait for events; a second one kills."""

    def ask(number: int, _frame: object) -> None:
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
