"""Evidence over real HTTP: what is fetched, what is stored, what is left out, and the same verdict afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Run = Callable[..., Result]
LOG = (
    "INFO x] non-default args: {'model': 'm', 'api_key': 'sk-secret-1', 'max_model_len': 512, 'max_num_seqs': 16}\n"
    "INFO x] Received request: prompt: 'my password is hunter2', max_tokens 5\n"
    "INFO Initializing a V1 LLM engine (v0.32.0) with config: model='m', max_seq_len=512, download_dir=None\n"
    "INFO CPU KV cache size: 768 tokens, Maximum concurrency for 512 tokens per request: 1.50x\n"
)


def manifest(folder: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return document


def test_it_gathers_the_page_twice_other_forms_of_it_and_the_documents(engine: Any, run: Run, tmp_path: Path) -> None:
    result = run("gather", tmp_path / "e", "--stack", "vllm", "--url", engine.url, "--watch", "0.1")
    assert result.exit_code == 0, result.output
    roles = [piece["role"] for piece in manifest(tmp_path / "e")["pieces"]]
    assert roles == ["page", "later", "openmetrics", "openmetrics_utf8", "document", "document"]
    assert all(piece["sha256"] and piece["taken_utc"] for piece in manifest(tmp_path / "e")["pieces"])


@pytest.mark.parametrize("form", ["text", "json", "markdown", "html", "junit", "sarif"])
def test_judged_offline_it_is_the_same_verdict_byte_for_byte(form: str, engine: Any, run: Run, tmp_path: Path) -> None:
    flags = ("--stack", "vllm", "--url", engine.url, "--engine-version", "0.32.0")
    live = run(*flags, "--format", form)
    assert run("gather", tmp_path / "e", *flags).exit_code == 0
    first = run("--from", tmp_path / "e", "--format", form)
    assert live.exit_code == first.exit_code == 0
    assert first.output == live.output
    assert run("--from", tmp_path / "e", "--format", form).output == first.output


def test_the_negotiated_names_are_seen(engine: Any, run: Run) -> None:
    report = json.loads(run("--stack", "vllm", "--url", engine.url, "--format", "json").output)
    assert report["engine"]["version"] == "0.32.0"
    renames = [f for f in report["findings"] if f["check"] == "negotiation_renames"]
    assert len(renames) == 2
    assert renames[0]["message"].startswith("Prometheus 2 gets 3 names with underscores")


def test_secrets_are_not_kept(engine: Any, run: Run, tmp_path: Path) -> None:
    (tmp_path / "engine.log").write_text(LOG, encoding="utf-8")
    (tmp_path / "token").write_text("bearer-secret-2", encoding="utf-8")
    url = engine.url.replace("http://", "http://user:url-secret-3@") + "/metrics?key=query-secret-4"
    result = run(
        "gather", tmp_path / "e", "--stack", "vllm", "--url", url, "--engine-log", tmp_path / "*.log",
        "--bearer-token-file", tmp_path / "token",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    stored = b"".join(path.read_bytes() for path in (tmp_path / "e").iterdir())
    for secret in (b"sk-secret-1", b"bearer-secret-2", b"url-secret-3", b"query-secret-4", b"hunter2"):
        assert secret not in stored
    assert b"max_model_len" in stored
    assert b"768 tokens" in stored


def test_a_changed_file_and_a_damaged_manifest_are_refused(engine: Any, run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "e"
    run("gather", folder, "--stack", "vllm", "--url", engine.url)
    page = next(folder.glob("*-page.txt"))
    page.write_bytes(page.read_bytes() + b"x 1\n")
    result = run("--from", folder)
    assert result.exit_code == 2
    assert "sha256 differs" in result.output
    page.unlink()
    assert run("--from", folder).exit_code == 2
    for text in ("{", "[]", '{"format": 1}', '{"format": 1, "stack": "vllm", "given": {}, "pieces": [{}]}'):
        (folder / "manifest.json").write_text(text, encoding="utf-8")
        result = run("--from", folder)
        assert result.exit_code == 2, text
        assert "Error:" in result.output
    assert run("--from", tmp_path / "none").exit_code == 2


def test_evidence_is_never_mixed(engine: Any, run: Run, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine", encoding="utf-8")
    result = run("gather", tmp_path, "--stack", "vllm", "--url", engine.url)
    assert result.exit_code == 2
    assert "not empty" in result.output
    assert (tmp_path / "note.txt").read_text(encoding="utf-8") == "mine"


def test_what_cannot_be_had_is_a_piece_that_says_so(run: Run, tmp_path: Path, engine: Any) -> None:
    result = run("gather", tmp_path / "e", "--stack", "vllm", "--url", engine.url, "--url", "http://127.0.0.1:1/m")
    assert result.exit_code == 0
    errors = [piece["error"] for piece in manifest(tmp_path / "e")["pieces"] if piece["error"]]
    assert errors
    assert all("nothing listens there" in error for error in errors)
    judged = run("--from", tmp_path / "e", "--format", "json")
    report = json.loads(judged.stdout)
    assert judged.exit_code == 2
    assert [f["check"] for f in report["findings"] if f["severity"] == "error"][:1] == ["unreadable"]


def test_rays_pages_are_not_fetched_more_often_than_asked(run: Run, engine: Any) -> None:
    run("--stack", "ray-serve", "--url", engine.url)
    assert engine.paths.count("/metrics") == 1


def test_another_port_of_the_api_is_looked_at(
    run: Run, engine: Any, serve: Callable[..., Any], fixed: Callable[..., Any]
) -> None:
    page = (
        b'# TYPE ray_serve_num_ongoing_http_requests gauge\nray_serve_num_ongoing_http_requests{Version="2.60.0"} 0\n'
    )
    ray = serve(fixed(page))
    result = run("--stack", "ray-serve", "--url", ray.url, "--api-url", engine.url, "--format", "json")
    checks = [finding["check"] for finding in json.loads(result.stdout)["findings"]]
    assert "api_port_page" in checks


def test_tritons_configuration_is_read_for_the_models_of_its_page(
    run: Run, serve: Callable[..., Any], fixed: Callable[..., Any]
) -> None:
    page = b'# TYPE nv_inference_request_success counter\nnv_inference_request_success{model="chat",version="1"} 4\n'
    config = b'{"backend":"vllm","parameters":{"REPORT_CUSTOM_METRICS":{"string_value":"yes"}},"version":"2.53.0"}'
    metrics, api = serve(fixed(page)), serve(fixed(config))
    result = run("--stack", "triton", "--url", metrics.url, "--api-url", api.url, "--format", "json")
    report = json.loads(result.stdout)
    assert report["stack"]["version"] == "24.12"
    assert "/v2/models/chat/config" in [path for path, _ in api.requests]
    (finding,) = [f for f in report["findings"] if f["check"] == "config_switch"]
    assert "'yes'; 24.12 reads only true" in finding["message"]


def test_rays_dashboard_names_the_nodes(run: Run, serve: Callable[..., Any], fixed: Callable[..., Any]) -> None:
    page = b'# TYPE ray_node_mem_used gauge\nray_node_mem_used{SessionName="s",Version="2.60.0"} 1\n'
    ray = serve(fixed(page))
    names = [ray.url.removeprefix("http://"), "10.9.9.9:8080", ":44217"]
    dashboard = serve(fixed(json.dumps([{"labels": {"job": "ray"}, "targets": names}]).encode(), "application/json"))
    result = run("--stack", "ray-serve", "--url", ray.url, "--ray-sd", dashboard.url, "--format", "json")
    (finding,) = [f for f in json.loads(result.stdout)["findings"] if f["check"] == "ray_targets"]
    assert "10.9.9.9:8080" in finding["message"]
    assert dashboard.requests[0][0] == "/api/prometheus/sd"


@pytest.mark.parametrize(("values", "checks"), [((500, 520), []), ((500, 420), ["counter_falls"])])
def test_a_second_look_sees_what_moves_and_what_falls(
    values: tuple[int, int], checks: list[str], run: Run, serve: Callable[..., Any], fixed: Callable[..., Any]
) -> None:
    label = '{engine="0",model_name="m"}'
    pages = iter(
        [
            f"# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total{label} {value}\n"
            f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{label} 2\n".encode()
            for value in (*values, values[1], values[1])
        ]
    )

    def answer(handler: Any) -> None:
        fixed(next(pages) if handler.path == "/metrics" else b"{}")(handler)

    url = serve(answer).url
    result = run("--stack", "vllm", "--url", url, "--watch", "0.05")
    assert ("counter_falls" in result.output) is bool(checks)
    assert "moved: prompt_tokens\n" in result.output
    assert "stood still: requests_running\n" in result.output


def test_a_baseline_is_fetched_with_its_version(run: Run, engine: Any, tmp_path: Path) -> None:
    page = tmp_path / "page.txt"
    page.write_text("# TYPE vllm:prompt_tokens_total counter\nvllm:prompt_tokens_total 5\n", encoding="utf-8")
    flags = ("--stack", "kserve", "--file", page, "--baseline", f"{engine.url}/metrics", "--format", "json")
    same = json.loads(run(*flags, "--engine-version", "0.32.0").stdout)
    assert same["baseline"]["lost"] == ["vllm:generation_tokens_total", "vllm:request_success_total"]
    assert (same["baseline"]["bare"], same["baseline"]["kept"]) == (3, 1)
    other = json.loads(run(*flags, "--engine-version", "0.20.0").stdout)
    assert other["baseline"]["refused"]
    (finding,) = [f for f in other["findings"] if f["check"] == "baseline_version"]
    assert "0.32.0" in finding["message"]
    assert "0.20.0" in finding["message"]
    assert not [f for f in other["findings"] if f["check"] == "lost_by_layer"]


RAY = b'# TYPE ray_node_mem_used gauge\nray_node_mem_used{SessionName="s",Version="2.60.0"} 1\n'


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "the answer is empty"), (b"<html>", "no JSON list of targets"), (b'{"a": 1}', "no JSON list of targets"),
        (b"[]", "names no address"), (b'[{"targets": []}]', "names no address"), (b"3", "no JSON list of targets"),
    ],
)  # fmt: skip
def test_a_service_discovery_that_tells_nothing_is_an_input_error(
    body: bytes, said: str, run: Run, tmp_path: Path
) -> None:
    page, found = tmp_path / "page.txt", tmp_path / "sd.json"
    page.write_bytes(RAY)
    found.write_bytes(body)
    result = run("--stack", "ray-serve", "--file", page, "--ray-sd", found, "--format", "json")
    (finding,) = [f for f in json.loads(result.stdout)["findings"] if f["check"] == "unreadable_beside"]
    assert result.exit_code == 2
    assert said in finding["message"]
    assert "Error: " in result.stderr
    assert said in result.stderr


@pytest.mark.parametrize(("flag", "stack"), [("--ray-sd", "ray-serve"), ("--baseline", "ray-serve")])
def test_what_is_asked_for_and_cannot_be_fetched_is_an_input_error(
    flag: str, stack: str, run: Run, tmp_path: Path, serve: Callable[..., Any], fixed: Callable[..., Any]
) -> None:
    page = tmp_path / "page.txt"
    page.write_bytes(RAY)
    empty = serve(fixed(b"")).url
    missing = serve(fixed(b"no", status=404)).url
    for url, said in (("http://127.0.0.1:1", "nothing listens there"), (missing, "404"), (empty, "empty")):
        flags = ("--stack", stack, "--file", page, flag, url)
        result = run(*flags, "--format", "json")
        findings = [f for f in json.loads(result.stdout)["findings"] if f["check"] == "unreadable_beside"]
        assert result.exit_code == 2, url
        assert [said in finding["message"] for finding in findings] == [True], findings
        assert said in result.stderr
    folder = tmp_path / "e"
    run("gather", folder, *flags)
    assert run("--from", folder).exit_code == 2


def test_an_api_that_answers_nothing_is_an_input_error(run: Run, engine: Any) -> None:
    result = run("--stack", "vllm", "--url", engine.url, "--api-url", "http://127.0.0.1:1", "--format", "json")
    findings = [f for f in json.loads(result.stdout)["findings"] if f["check"] == "unreadable_beside"]
    assert result.exit_code == 2
    assert ["the API tells nothing" in finding["message"] for finding in findings] == [True]


def test_an_empty_baseline_is_an_input_error(run: Run, engine: Any, tmp_path: Path) -> None:
    empty = tmp_path / "bare.txt"
    empty.write_text("")
    result = run("--stack", "vllm", "--url", engine.url, "--baseline", empty)
    assert result.exit_code == 2
    assert "the baseline cannot be read" in result.output
