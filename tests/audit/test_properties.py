"""Whatever is given to a reader: no crash, nothing invented, nothing kept that is not known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click import ClickException
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from obs_audit import loglines
from obs_audit.evidence import Bundle, Exercise, Given, Piece, Role, interpret, store
from obs_audit.manifests import annotated
from obs_audit.report import FORMATS, rendered
from obs_audit.verdict import judge
from obs_audit.waivers import load
from obs_exporter.stacks import STACKS

KNOWN = "KV cache size: 1,152 tokens"
LINE = st.text(st.characters(exclude_characters="\r\n"), max_size=60)
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "annotations", "spec", "containers", "name", "items", "data", "targets",
                             "serving.kserve.io/enable-prometheus-scraping", "max_model_len", "template",
                             "prometheus.io/port"]),
            inner, max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip
TEXTS = st.one_of(
    st.binary(max_size=200),
    st.text(max_size=200).map(str.encode),
    st.lists(
        st.sampled_from([
            b"# TYPE vllm:num_requests_running gauge", b'vllm:num_requests_running{engine="0"} 1',
            b"# TYPE ray_vllm_num_requests_running gauge", b"# TYPE nv_inference_count counter",
            b'vllm:num_requests_running{server="x"} NaN', b"vllm:kv_cache_usage_perc -1", b"}{", b"# EOF",
            b"# TYPE vllm:cache_config_info gauge", b'vllm:cache_config_info{block_size="None"} 1',
        ]),
        max_size=8,
    ).map(lambda lines: b"\n".join(lines) + b"\n"),
)  # fmt: skip


@given(before=LINE, after=LINE)
def test_of_a_log_only_the_known_part_is_kept(before: str, after: str) -> None:
    kept = loglines.excerpt([f"INFO x] {KNOWN}{' ' if after else ''}{after}", before, after])
    assert f"1: {KNOWN}\n" in kept
    for row in loglines.excerpt([before, after]).splitlines():
        number, _, text = row.partition(": ")
        assert text in (before, after)[int(number) - 1]


@given(rows=st.lists(st.tuples(st.sampled_from(loglines.SETTINGS), st.integers(0, 10**6)), max_size=5))
def test_settings_of_a_log_are_read_as_written(rows: list[tuple[str, int]]) -> None:
    arguments = ", ".join(f"'{name}': {value}" for name, value in rows)
    text = f"INFO x] non-default args: {{'api_key': 'sk-1', {arguments}}}"
    found = loglines.read("log", loglines.excerpt([text]))
    assert set(found.settings) == {name for name, _ in rows}
    assert "sk-1" not in loglines.excerpt([text])


@given(document=JSONS)
def test_manifests_of_any_shape(document: object) -> None:
    for item in annotated(yaml.safe_dump(document)):
        assert not (item.standard and item.knative)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=TEXTS | JSONS.map(lambda value: yaml.safe_dump({"waivers": value}).encode()))
def test_a_file_of_waivers_is_read_or_refused(body: bytes, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_bytes(body)
    refusal: ClickException | None = None
    try:
        assert all(waiver.reason for waiver in load(file, ()))
    except ClickException as error:
        refusal = error
    assert refusal is None or (refusal.exit_code == 2 and "w.yaml" in refusal.message)


@given(document=JSONS)
def test_a_record_of_an_exercise_is_read_or_refused(document: object) -> None:
    with pytest.raises(ValueError):
        Exercise.from_json(json.dumps(document).encode())


@settings(max_examples=40, deadline=None)
@given(
    stack=st.sampled_from(sorted(STACKS)),
    body=TEXTS,
    later=TEXTS,
    document=JSONS,
    form=st.sampled_from(sorted(FORMATS)),
)
def test_any_evidence_gets_a_verdict_in_every_format(
    stack: str, body: bytes, later: bytes, document: object, form: str
) -> None:
    text = json.dumps(document).encode()
    pieces = [
        Piece(Role.PAGE, "p", body), Piece(Role.LATER, "p", later), Piece(Role.OPENMETRICS, "p", later),
        Piece(Role.BASELINE, "b", later), Piece(Role.API_PAGE, "http://a/metrics", later),
        Piece(Role.DISCOVERY, "d", text), Piece(Role.DOCUMENT, "http://a/v1/models", text),
        Piece(Role.DOCUMENT, "http://a/v2/models/m/config", text), Piece(Role.ENGINE_LOG, "l", body),
        Piece(Role.ANNOTATIONS, "m", text),
    ]  # fmt: skip
    report = judge(interpret(Bundle(Given(stack), tuple(pieces))))
    assert report.exit_code in (0, 2)
    assert rendered(report, form)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies=st.lists(TEXTS, max_size=4), source=st.text(max_size=20), error=st.text(max_size=20))
def test_a_stored_bundle_is_read_back_as_it_was(
    bodies: list[bytes], source: str, error: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pieces = [Piece(Role.PAGE, source, body, number, "text/plain", 5.5) for number, body in enumerate(bodies)]
    pieces.append(Piece(Role.LATER, source, error=error or "gone"))
    bundle = Bundle(Given("vllm", "", "0.32.0"), tuple(pieces))
    folder = tmp_path_factory.mktemp("bundle") / "evidence"
    store.write(bundle, folder)
    assert store.read(folder) == bundle
