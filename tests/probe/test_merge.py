"""Shards: who sends what, how they meet, and that a merged result is exactly the whole run's."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from obs_exporter.probe.cli import main
from obs_exporter.probe.lag import LagHistogram
from obs_exporter.probe.load import Level, Stop
from obs_exporter.probe.merge import merge_files
from obs_exporter.probe.outcome import Outcome, Record
from obs_exporter.probe.report import render
from obs_exporter.probe.results import Damage, ResultError, ResultWriter, read_records, requests_path
from obs_exporter.probe.shards import Rendezvous, Shard, ShardError
from obs_exporter.probe.summary import Accumulator, LevelKey

USAGE = "usage"


@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 200))
def test_together_the_shards_send_every_request_once(count: int, slots: int, requests: int) -> None:
    level = Level("short", slots, None, requests, None)
    shards = [Shard(i, count) for i in range(count)]
    assert sum(shard.slots(level) for shard in shards) == slots
    assert sorted(index for shard in shards for index in shard.indexes(level)) == list(range(requests))
    assert all(shard.slots(level) or not list(shard.indexes(level)) for shard in shards)


@given(st.integers(1, 9), st.integers(1, 40), st.integers(1, 20), st.integers(0, 39))
def test_requests_are_shared_as_the_slots_are(count: int, slots: int, waves: int, more: int) -> None:
    level = Level("short", slots, None, slots * waves + more % slots, None)
    for shard in (Shard(i, count) for i in range(count)):
        mine = len(list(shard.indexes(level)))
        assert shard.slots(level) * waves <= mine <= shard.slots(level) * (waves + 1)


@pytest.mark.parametrize("text", ["1", "4/4", "-1/4", "a/b", "1/0", "/"])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(ValueError, match="not a shard"):
        Shard.parse(text)


def some_records(count: int, seed: int) -> list[Record]:
    rng = random.Random(seed)
    found = []
    for index in range(count):
        ok = rng.random() < 0.9
        ttft = rng.uniform(0.01, 0.6)
        gaps = tuple(rng.randrange(5000, 20000) for _ in range(7))
        found.append(Record(
            scenario="short", concurrency=4, rate=None, repeat=0, index=index, id=str(index),
            outcome=Outcome.OK if ok else Outcome.TRUNCATED, good=ok and ttft < 0.5, started_at=1000 + index * 0.05,
            ttft_s=ttft, last_s=ttft + sum(gaps) / 1e6, e2e_s=ttft + sum(gaps) / 1e6, tokens=8, token_source=USAGE,
            events=8, gaps_us=gaps, ambiguous=rng.random() < 0.1,
        ))  # fmt: skip
    return found


def client_side(**changes: Any) -> dict[str, Any]:
    return {"calibrated": True, "ttft_error_p50_s": 0.0001, "ttft_error_p99_s": 0.001, "cpu_share": 0.2,
            "lag_s": LagHistogram().to_json(), "limited": "", **changes}  # fmt: skip


def write_shard(folder: Path, index: int, count: int, records: list[Record], **client: Any) -> Path:
    path = folder / f"shard-{index}.json"
    header = {
        "run_id": "r",
        "shard": f"{index}/{count}",
        "seed": 0,
        "target": {"name": "t"},
        "load": {},
        "slo": {"ttft_s": 0.5, "e2e_s": 10.0},
    }
    writer = ResultWriter(path, header)
    accumulator = Accumulator(LevelKey("short", 4, 0.0, 0))
    for record in records:
        writer.record(record)
        accumulator.add(record)
    writer.level(accumulator.summary() | {"client": client_side(**client), "client_limited": False, "server": None})
    writer.finish()
    return path


def test_the_merge_is_exact(tmp_path: Path) -> None:
    records = some_records(200, 1)
    paths = [write_shard(tmp_path, i, 3, records[i::3]) for i in range(3)]
    merged = merge_files(paths, tmp_path / "all.json")
    whole = Accumulator(LevelKey("short", 4, 0.0, 0))
    for record in records:
        whole.add(record)
    (level,) = merged["levels"]
    assert {key: level[key] for key in whole.summary()} == whole.summary()
    assert merged["partial"] is False
    assert {record.index for record in read_records(tmp_path / "all.requests.jsonl")} == set(range(200))


def test_the_worst_client_speaks_for_all(tmp_path: Path) -> None:
    records = some_records(40, 2)
    paths = [
        write_shard(tmp_path, 0, 2, records[::2]),
        write_shard(tmp_path, 1, 2, records[1::2], ttft_error_p99_s=0.02, limited="slow"),
    ]
    (level,) = merge_files(paths, tmp_path / "all.json")["levels"]
    assert level["client"]["ttft_error_p99_s"] == 0.02
    assert level["client_limited"] is True


def test_a_missing_shard_makes_it_partial(tmp_path: Path) -> None:
    path = write_shard(tmp_path, 1, 3, some_records(20, 3))
    merged = merge_files([path], tmp_path / "all.json")
    assert merged["partial"] is True
    assert "0/3, 2/3" in merged["partial_reason"]


def test_shards_that_ran_apart_are_no_level(tmp_path: Path) -> None:
    records = some_records(40, 4)
    paths = [write_shard(tmp_path, 0, 2, records[:20]), write_shard(tmp_path, 1, 2, records[20:])]
    (level,) = merge_files(paths, tmp_path / "all.json")["levels"]
    assert level["client_limited"] is True
    assert "--rendezvous" in level["client"]["limited"]


def test_shards_that_ended_apart_get_no_advice_to_meet(tmp_path: Path) -> None:
    records = some_records(40, 4)
    paths = [write_shard(tmp_path, 0, 2, records[::2]), write_shard(tmp_path, 1, 2, records[1:10:2])]
    merged = merge_files(paths, tmp_path / "all.json")
    (level,) = merged["levels"]
    assert "ended apart" in level["client"]["limited"]
    assert "--rendezvous" not in render(merged, "text")
    assert "--processes" not in render(merged, "text")


def test_a_killed_shard_without_levels_is_merged(tmp_path: Path) -> None:
    records = some_records(40, 7)
    paths = [write_shard(tmp_path, 0, 2, records[::2]), write_shard(tmp_path, 1, 2, records[1::2])]
    data = json.loads(paths[1].read_text())
    paths[1].write_text(json.dumps(data | {"levels": [], "partial": True, "partial_reason": "was killed"}))
    merged = merge_files(paths, tmp_path / "all.json")
    assert merged["levels"][0]["requests"] == 40
    assert merged["partial_reason"] == "shard 1/2: was killed"
    assert any("computed from the 20 requests" in note for note in merged["notes"])


def test_other_runs_are_refused(tmp_path: Path) -> None:
    first = write_shard(tmp_path, 0, 2, some_records(4, 5))
    second = write_shard(tmp_path, 1, 2, some_records(4, 6))
    data = json.loads(second.read_text())
    second.write_text(json.dumps(data | {"run_id": "other"}))
    with pytest.raises(ResultError, match="run_id differs"):
        merge_files([first, second], tmp_path / "all.json")
    with pytest.raises(ResultError, match="the same shard"):
        merge_files([first, first], tmp_path / "all.json")
    with pytest.raises(ResultError, match="one of the shards"):
        merge_files([first], first)
    second.write_text(json.dumps(data | {"shard": None}))
    with pytest.raises(ResultError, match="not a shard"):
        merge_files([first, second], tmp_path / "all.json")


def test_a_line_cut_by_a_crash_is_passed_over(tmp_path: Path) -> None:
    path = write_shard(tmp_path, 0, 1, some_records(5, 7))
    requests = tmp_path / "shard-0.requests.jsonl"
    whole = requests.read_text()
    requests.write_text(whole[:-30])
    merged = merge_files([path], tmp_path / "all.json")
    assert merged["levels"][0]["requests"] == 4
    assert merged["partial"] is False
    requests.write_text(whole[:-1])  # an editor took the last line's end: the request is whole
    assert merge_files([path], tmp_path / "again.json")["levels"][0]["requests"] == 5


DAMAGED = (
    "\x00\x00\x00\n", "not json\n", "[1]\n", "{}\n", '{"scenario": "short"}\n', "[" * 50_000 + "\n", "\n",
)  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_lines_are_left_out_counted_and_named(tmp_path: Path, damage: str) -> None:
    path = write_shard(tmp_path, 0, 1, some_records(10, 7))
    lines = requests_path(path).read_text().splitlines(keepends=True)
    requests_path(path).write_text("".join([*lines[:3], damage, *lines[3:8], damage, *lines[8:]]))
    merged = merge_files([path], tmp_path / "all.json")
    assert merged["levels"][0]["requests"] == 10
    assert merged["partial"] is True
    assert "shard-0.requests.jsonl: 2 damaged lines left out (line 4, 10)" in merged["partial_reason"]


@pytest.mark.parametrize(
    "change",
    [{"ttft_s": "abc"}, {"ttft_s": True}, {"tokens": -1}, {"tokens": 1.5}, {"gaps_us": [1, "x"]}, {"outcome": "fine"},
     {"concurrency": None}, {"rate": 2.0}, {"e2e_s": float("nan")}, {"good": 1}, {"started_at": None}],
)  # fmt: skip
def test_a_line_with_a_wrong_value_is_damaged(tmp_path: Path, change: dict[str, Any]) -> None:
    path = write_shard(tmp_path, 0, 1, some_records(3, 7))
    lines = requests_path(path).read_text().splitlines()
    lines[1] = json.dumps(json.loads(lines[1]) | change)
    requests_path(path).write_text("\n".join(lines) + "\n")
    damage = Damage()
    assert [record.index for record in read_records(requests_path(path), damage)] == [0, 2]
    assert (damage.count, damage.lines) == (1, [2])


@given(st.lists(st.binary(max_size=20) | st.just(b"{}"), max_size=5))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("x") / "x.jsonl"
    record = json.dumps(some_records(1, 7)[0].to_json()).encode()
    path.write_bytes(b"\n".join([*lines, record, *lines]))
    damage = Damage()
    assert [found.index for found in read_records(path, damage)] == [0]
    assert damage.count <= 2 * path.read_bytes().count(b"\n")
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    if lines:
        with pytest.raises(ResultError, match="none of its"):
            list(read_records(path))
    else:
        assert list(read_records(path)) == []


EXTREMES = (0, 1, -1, 2**62, -(2**62), 1e308, -1e308, 5e-324, 0.0)


@given(st.data())
def test_any_number_in_a_line_gives_a_sound_file(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    folder = tmp_path_factory.mktemp("x")
    path = write_shard(folder, 0, 1, some_records(4, 7))
    lines = requests_path(path).read_text().splitlines()
    numbers = [key for key, value in json.loads(lines[1]).items() if isinstance(value, int | float)]
    for i in (1, 2):
        changed = {data.draw(st.sampled_from(numbers)): data.draw(st.sampled_from(EXTREMES))}
        lines[i] = json.dumps(json.loads(lines[i]) | changed)
    requests_path(path).write_text("\n".join(lines) + "\n")
    merged = merge_files([path], folder / "all.json")
    assert 2 <= sum(level["requests"] for level in merged["levels"]) <= 4
    json.loads((folder / "all.json").read_text(), parse_constant=pytest.fail)


def test_fields_of_a_newer_version_and_nulls_are_no_damage(tmp_path: Path) -> None:
    record = some_records(1, 7)[0]
    line = json.dumps(record.to_json() | {"newer": 1, "detail": None, "tokens": None, "gaps_us": None})
    (tmp_path / "x.jsonl").write_text(line + "\n")
    (found,) = read_records(tmp_path / "x.jsonl")
    assert (found.ttft_s, found.detail, found.tokens, found.gaps_us) == (record.ttft_s, "", 0, ())


def test_only_a_file_without_any_readable_line_is_an_error(tmp_path: Path) -> None:
    path = write_shard(tmp_path, 0, 1, some_records(3, 7))
    requests_path(path).write_text("\x00\n" * 7)
    with pytest.raises(ResultError, match="none of its 7 lines is a request"):
        merge_files([path], tmp_path / "all.json")
    assert not (tmp_path / "all.json").exists()
    requests_path(path).write_text("")
    assert merge_files([path], tmp_path / "all.json")["levels"] == []


def test_many_damaged_lines_are_named_by_the_first(tmp_path: Path) -> None:
    path = write_shard(tmp_path, 0, 1, some_records(3, 7))
    with requests_path(path).open("a") as file:
        file.write("x\n" * 30)
    reason = merge_files([path], tmp_path / "all.json")["partial_reason"]
    assert "30 damaged lines left out (line 4, 5, 6, 7, 8, ...)" in reason


def test_the_report_of_a_killed_run_names_its_damaged_lines(tmp_path: Path) -> None:
    path = write_shard(tmp_path, 0, 1, some_records(20, 7))
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | {"levels": [], "partial": True, "partial_reason": "was killed"}))
    text = requests_path(path).read_text().replace('"index":4,', '"index":,', 1)
    requests_path(path).write_text(text)
    shown = CliRunner().invoke(main, ["report", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "PARTIAL RESULT: was killed; shard-0.requests.jsonl: 1 damaged line left out (line 5)" in shown.output
    assert "computed from the 19 requests" in shown.output
    merged = merge_files([path], tmp_path / "all.json")
    assert merged["partial_reason"].count("damaged") == 1


def test_numbers_without_requests_are_not_merged(tmp_path: Path) -> None:
    path = write_shard(tmp_path, 0, 1, some_records(3, 7))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"requests_file": None}))
    with pytest.raises(ResultError, match="has no requests file"):
        merge_files([path], tmp_path / "all.json")


def test_a_merged_result_beside_its_shards_is_no_shard(tmp_path: Path) -> None:
    write_shard(tmp_path, 0, 1, some_records(3, 7))
    for _ in range(3):
        done = CliRunner().invoke(main, ["merge", str(tmp_path), "--output", str(tmp_path / "all.json")])
        assert done.exit_code == 0, done.output
    assert (tmp_path / "all.2.json").exists()


def test_merge_command(tmp_path: Path) -> None:
    path = write_shard(tmp_path, 0, 2, some_records(5, 8))
    done = CliRunner().invoke(main, ["merge", str(path), "--output", str(tmp_path / "all.json")])
    assert done.exit_code == 1
    assert "PARTIAL" in done.output
    bad = CliRunner().invoke(main, ["merge", str(tmp_path / "nope.json"), "--output", str(tmp_path / "all.json")])
    assert bad.exit_code == 2


def test_merge_waits_for_a_folder_of_shards(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    folder.mkdir()
    records = some_records(40, 9)
    write_shard(folder, 0, 2, records[::2])
    later = threading.Timer(0.3, write_shard, (folder, 1, 2, records[1::2]))
    later.start()
    done = CliRunner().invoke(main, ["merge", str(folder), "--output", str(folder / "all.json"), "--wait", "20"])
    later.join()
    assert done.exit_code == 0, done.output
    assert len(list(read_records(folder / "all.requests.jsonl"))) == 40
    empty = CliRunner().invoke(main, ["merge", str(tmp_path), "--output", str(tmp_path / "all.json")])
    assert empty.exit_code == 2


def test_shards_meet(tmp_path: Path) -> None:
    times: list[float] = []

    def go(index: int) -> None:
        time.sleep(0.1 * index)
        Rendezvous(tmp_path, "r", Shard(index, 3), 10).meet("level-0", Stop())
        times.append(time.monotonic())

    start = time.monotonic()
    threads = [threading.Thread(target=go, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert min(times) - start >= 0.2


def test_shards_that_do_not_come_are_told(tmp_path: Path) -> None:
    with pytest.raises(ShardError, match="only 1 of 2"):
        Rendezvous(tmp_path, "r", Shard(0, 2), 0.05).meet("level-0", Stop())
    (tmp_path / "file").touch()
    with pytest.raises(ShardError, match="cannot meet"):
        Rendezvous(tmp_path / "file", "r", Shard(0, 2), 0.05).meet("level-0", Stop())
