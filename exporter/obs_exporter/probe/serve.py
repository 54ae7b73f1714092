"""An always-on probe: one request now and then to each target, within a budget, and /metrics."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable

from obs_exporter.probe.client import Client, ClientOptions
from obs_exporter.probe.load import Level, RecordMaker, Ticket
from obs_exporter.probe.metrics import ProbeMetrics
from obs_exporter.probe.outcome import SLO, Outcome, Record
from obs_exporter.probe.request import RequestBuilder, Shape, api_key, parse_endpoint
from obs_exporter.probe.scenarios import SCENARIOS, Prompts, request_id
from obs_exporter.probe.serve_config import ServeConfig, TargetConfig
from obs_exporter.probe.transport import TLSOptions, TransportError

_HOUR_S = 3600.0
_TOKENS_PER_WORD = 1.4
"""A prompt's tokens per word, on the high side, so that the budget is kept."""


class Budget:
    """Tokens spent in the last hour; ``clock`` gives seconds of any monotonic clock."""

    def __init__(self, tokens_per_hour: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = tokens_per_hour
        self._clock = clock
        self._spent: deque[tuple[float, int]] = deque()
        self._total = 0

    def allows(self, tokens: int) -> bool:
        """Return whether so many tokens may be spent now."""
        horizon = self._clock() - _HOUR_S
        while self._spent and self._spent[0][0] <= horizon:
            self._total -= self._spent.popleft()[1]
        return self._total + tokens <= self._limit

    def spend(self, tokens: int) -> None:
        """Note that tokens were spent."""
        self._spent.append((self._clock(), tokens))
        self._total += tokens


class TargetProbe:
    """Probes one target. Raises RequestError when the target's configuration cannot be used."""

    def __init__(self, config: TargetConfig, slo: SLO, metrics: ProbeMetrics) -> None:
        self._config = config
        self._metrics = metrics
        self._endpoint = parse_endpoint(config.url)
        self._builder = RequestBuilder(self._endpoint, Shape(config.model, config.api), api_key(config.api_key_env))
        tls = TLSOptions(config.ca_file, insecure=config.insecure)
        self._options = ClientOptions(config.timeout_s, tls, reuse=False)
        self._maker = RecordMaker(slo)
        self._level = Level(config.scenario, 1, None, None, None)
        self._budget = Budget(config.tokens_per_hour)
        scenario = SCENARIOS[config.scenario]
        self._prompt_tokens = int((scenario.prompt_words + scenario.shared_words + 24) * _TOKENS_PER_WORD)
        self._prompts = Prompts(0, unique_prefix=True, max_tokens=config.max_tokens)
        self._run_id = f"{time.time_ns():x}"
        self._index = 0
        self._random = random.Random()  # noqa: S311 - spreads requests in time
        metrics.begin(config.name, self._level, lambda: 0, None)

    def run(self, stop: threading.Event) -> None:
        """Probe until told to stop; the first request comes within one interval."""
        interval = 60.0 / self._config.requests_per_minute
        wait = interval * self._random.random() * self._config.jitter
        while not stop.wait(wait):
            began = time.monotonic()
            self.once()
            jitter = 1 + self._config.jitter * (2 * self._random.random() - 1)
            wait = max(0.0, interval * jitter - (time.monotonic() - began))

    def once(self) -> None:
        """Send one request, if the budget has room for it, and publish what became of it."""
        if not self._budget.allows(self._prompt_tokens + self._config.max_tokens):
            self._metrics.skipped.labels(self._config.name, "budget").inc()
            return
        record = self._measure()
        self._budget.spend(self._prompt_tokens + record.tokens)
        self._metrics.add(self._config.name, self._level, record)
        self._metrics.last.labels(self._config.name).set(record.started_at)

    def _measure(self) -> Record:
        self._index += 1
        name = request_id(self._run_id, self._config.name, self._index)
        prompt = self._prompts.source(self._config.scenario, name)(self._index, name)
        records: list[Record] = []
        try:
            client = Client(self._endpoint, self._options, lambda exchange: records.append(self._maker.make(exchange)))
        except TransportError as error:
            return Record(
                self._config.scenario, 1, None, 0, self._index, name, Outcome.CONNECT, False, time.time(), str(error)
            )
        try:
            client.start(self._builder.build(prompt, name), Ticket(self._level, 0, self._index, name))
            while client.busy:
                client.poll(1.0)
        finally:
            client.close()
        return records[0]


def serve(config: ServeConfig, metrics: ProbeMetrics, stop: threading.Event) -> None:
    """Probe every target in a thread of its own until told to stop. Raises RequestError."""
    metrics.set_slo(config.slo)
    probes = [TargetProbe(target, config.slo, metrics) for target in config.targets]
    threads = [threading.Thread(target=probe.run, args=(stop,), daemon=True) for probe in probes]
    for thread in threads:
        thread.start()
    stop.wait()
    for thread in threads:
        thread.join(2.0)
