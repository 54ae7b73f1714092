"""An always-on probe: one request now and then to each target, within a budget, and /metrics."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from obs_exporter.probe.budget import Budget, Clock, Pace
from obs_exporter.probe.client import ClientOptions
from obs_exporter.probe.load import Level, RecordMaker, Stop, Ticket, run_one
from obs_exporter.probe.metrics import ProbeMetrics
from obs_exporter.probe.outcome import SLO, Outcome, Record
from obs_exporter.probe.redact import Redactor
from obs_exporter.probe.request import RequestBuilder, Shape, api_key, parse_endpoint
from obs_exporter.probe.scenarios import Prompts, request_id
from obs_exporter.probe.serve_config import ServeConfig, TargetConfig
from obs_exporter.probe.transport import TLSOptions, TransportError

_LONGEST_WAIT_S = 3600.0
"""One wait of a thread: Python refuses very long ones."""
_SKIPPED = "skipped"
"""What a target's outcome is called in the log while its budget is spent."""

Log = Callable[[str], None]
"""Takes one line."""


class TargetProbe:
    """Probes one target. Raises RequestError when the target's configuration cannot be used.

    ``log`` gets a line whenever the outcome is another than before, with its detail; no secret is in it.
    """

    def __init__(
        self,
        config: TargetConfig,
        slo: SLO,
        metrics: ProbeMetrics,
        log: Log = lambda _: None,
        clock: Clock = time.monotonic,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._log = log
        self._endpoint = parse_endpoint(config.url)
        key = api_key(config.api_key_env)
        self._redactor = Redactor([key] if key else [])
        self._builder = RequestBuilder(self._endpoint, Shape(config.model, config.api), key)
        tls = TLSOptions(config.ca_file, insecure=config.insecure)
        self._options = ClientOptions(config.timeout_s, tls, reuse=False)
        self._maker = RecordMaker(slo, redactor=self._redactor)
        self._level = Level(config.scenario, 1, None, None, None)
        self._budget = Budget(config.tokens_per_hour, clock)
        self._pace = Pace(config.requests_per_minute, config.jitter, clock)
        self._prompts = Prompts(0, unique_prefix=True, max_tokens=config.max_tokens)
        self._run_id = f"{time.time_ns():x}"
        self._index = 0
        self._outcome = ""
        self._in_flight = 0
        metrics.begin(config.name, self._level, lambda: self._in_flight, None)

    def run(self, stop: threading.Event) -> None:
        """Probe until told to stop; the first request comes within one interval."""
        while not stop.is_set():
            left = self._pace.left()
            if left > 0:
                stop.wait(min(left, _LONGEST_WAIT_S))
                continue
            self._pace.turn()
            self.once()

    def once(self) -> None:
        """Send one request, if the budget of tokens has room for it, and publish what became of it."""
        if not self._budget.allows(self._config.request_tokens):
            self._metrics.skipped.labels(self._config.name, "budget").inc()
            self._changed(_SKIPPED, "the tokens of this hour are spent")
            return
        record = self._measure()
        self._pace.sent(record.e2e_s or 0.0)
        self._budget.spend(self._config.prompt_tokens + record.tokens)
        self._metrics.add(self._config.name, self._level, record)
        self._metrics.last.labels(self._config.name).set(record.started_at)
        self._changed(str(record.outcome), record.detail)

    def _changed(self, outcome: str, detail: str) -> None:
        """Log an outcome that is another than the one before."""
        if outcome == self._outcome:
            return
        change = f"{self._outcome} -> {outcome}" if self._outcome else outcome
        self._outcome = outcome
        name = self._redactor.clean(self._config.name)
        self._log(f"{name}: {change}" + (f": {self._redactor.clean(detail)}" if detail else ""))

    def _measure(self) -> Record:
        self._index += 1
        name = request_id(self._run_id, self._config.name, self._index)
        prompt = self._prompts.source(self._config.scenario, name)(self._index, name)
        payload, ticket = self._builder.build(prompt, name), Ticket(self._level, 0, self._index, name)
        self._in_flight = 1
        try:
            return run_one(self._endpoint, self._options, self._maker, payload, ticket, Stop())
        except (TransportError, OSError) as error:  # an unknown host, or no file descriptor left: probing goes on
            return Record(
                self._config.scenario, 1, None, 0, self._index, name, Outcome.CONNECT, False, time.time(),
                self._redactor.clean(str(error)),
            )  # fmt: skip
        finally:
            self._in_flight = 0


def serve(config: ServeConfig, metrics: ProbeMetrics, stop: threading.Event, log: Log = lambda _: None) -> None:
    """Probe every target in a thread of its own until told to stop. Raises RequestError."""
    metrics.set_slo(config.slo)
    probes = [TargetProbe(target, config.slo, metrics, log) for target in config.targets]
    threads = [threading.Thread(target=probe.run, args=(stop,), daemon=True) for probe in probes]
    for thread in threads:
        thread.start()
    stop.wait()
    for thread in threads:
        thread.join(2.0)
