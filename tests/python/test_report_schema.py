# SPDX-License-Identifier: Apache-2.0
"""docs/formats/report.v1.schema.json is a valid schema that takes a report and refuses a broken one."""

import copy
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs/formats/report.v1.schema.json").read_text())

REPORT = {
    "schema": "stepscope.report.v1",
    "job": {
        "job": "1000.run.demo",
        "name": "demo",
        "kind": "run",
        "uid": 1000,
        "tenant": "host",
        "attempt": 0,
        "state": "done",
        "state_reason": "",
        "command": "python train.py",
        "start_wall_ns": 1764590000000000000,
        "end_wall_ns": 1764590010000000000,
        "ranks": [{"rank": 0, "local_rank": 0, "world_size": 1, "pid": 7, "restart": 0}],
        "tables": {"span": {"rows": 3, "stored_bytes": 90}},
        "processes": 1,
        "facts": {"lr": "3e-4"},
    },
    "window": {"begin_ns": 5, "end_ns": 10, "final": True},
    "devices": [],
    "kernels": [],
    "cpus": {"running_ns": 4, "runnable_ns": 1, "slices": 2, "processes": []},
    "threads": [],
    "steps": [],
    "spans": [],
    "loss": [{"stage": "agent", "reason": "ring full", "table": "span", "count": -1, "bytes": -1}],
    "findings": [],
    "overhead": {"daemon_cpu_ns": 1, "sender_cpu_ns": 1, "stored_bytes": 90, "daemon_rss_bytes": 1},
}


def set_at(report, path, value):
    for key in path[:-1]:
        report = report[key]
    report[path[-1]] = value


def remove_at(report, path):
    for key in path[:-1]:
        report = report[key]
    del report[path[-1]]


def problems(report):
    return [error.json_path for error in Draft202012Validator(SCHEMA).iter_errors(report)]


@pytest.fixture
def report():
    return copy.deepcopy(REPORT)


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


def test_a_minimal_report_is_valid(report):
    assert problems(report) == []


def test_fields_of_a_later_release_are_ignored(report):
    report["new"] = {"anything": 1}
    report["job"]["new"] = "x"
    report["loss"][0]["new"] = None
    assert problems(report) == []


def test_a_device_of_a_later_release_is_valid(report):
    device = {
        "ops": 2,
        "span_ns": 10,
        "busy_ns": 6,
        "idle_ns": 4,
        "compute_ns": 5,
        "communication_ns": 1,
        "exposed_communication_ns": 1,
        "wait_ns": 0,
        "exposed_memory_ns": 0,
        "overlap_ns": 0,
        "opaque_ns": 0,
        "lost": [{"class": "idle", "drain": "launch late", "activity": "python", "ns": 4}],
    }
    report["devices"] = [device]
    report["kernels"] = [{"name": "gemm", "count": 2, "total_ns": 5, "min_ns": 2, "max_ns": 3, "mean_ns": 2}]
    assert problems(report) == []


@pytest.mark.parametrize("field", list(REPORT))
def test_no_top_level_field_may_be_missing(report, field):
    del report[field]
    assert problems(report) == ["$"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["schema"], "stepscope.report.v2"),
        (["window", "end_ns"], 1.5),
        (["window", "final"], "yes"),
        (["job", "uid"], -1),
        (["job", "facts", "lr"], 3e-4),
        (["job", "tables", "span", "rows"], -2),
        (["threads"], {}),
        (["cpus", "slices"], "2"),
        (["loss", 0, "count"], -2),
        (["overhead", "stored_bytes"], None),
    ],
)
def test_a_wrong_value_is_found_where_it_is(report, path, value):
    set_at(report, path, value)
    expected = "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    assert problems(report) == [expected]


@pytest.mark.parametrize("path", [["job", "name"], ["window", "begin_ns"], ["loss", 0, "stage"], ["cpus", "processes"]])
def test_a_field_that_is_gone_is_found(report, path):
    remove_at(report, path)
    assert len(problems(report)) == 1


def described(schema):
    """Every subschema of a value, whether by name, in a list or in $defs."""
    yield schema
    for part in (schema.get("properties", {}), schema.get("$defs", {})):
        for child in part.values():
            yield from described(child)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from described(schema[key])


def test_every_field_says_what_it_means():
    named = [(name, field) for schema in described(SCHEMA) for name, field in schema.get("properties", {}).items()]
    assert [name for name, field in named if not field.get("description")] == []


def test_every_duration_names_its_unit():
    named = [(name, field) for schema in described(SCHEMA) for name, field in schema.get("properties", {}).items()]
    assert [name for name, field in named if name.endswith("_ns") and "nanoseconds" not in field["description"]] == []
