"""Reads an export with the programs that it is for, and prints what they found as JSON.

Usage: check.py TOOLS EXPORTS, where EXPORTS has a directory per format.
"""

import asyncio
import json
import pathlib
import sys
import typing

import typing_extensions

tools, exports = map(pathlib.Path, sys.argv[1:])

# Harbor needs Python 3.12 for two names of `typing` alone.
typing.TypedDict = typing_extensions.TypedDict
typing.override = typing_extensions.override
sys.path.insert(0, str(tools / "harbor"))


def atif():
    from harbor.models.trajectories import Trajectory
    from harbor.utils.trajectory_validator import TrajectoryValidator

    found = {}
    for path in sorted((exports / "atif").glob("*.json")):
        validator = TrajectoryValidator()
        if not validator.validate(path):
            raise SystemExit(f"{path}: {validator.errors}")
        trajectory = Trajectory.model_validate_json(path.read_text())
        metrics = trajectory.final_metrics
        found[path.stem] = {
            "agent": trajectory.agent.name,
            "version": trajectory.schema_version,
            "steps": [step.source for step in trajectory.steps],
            "calls": [call.function_name for step in trajectory.steps for call in step.tool_calls or []],
            "results": sum(len(step.observation.results) for step in trajectory.steps if step.observation),
            "subagents": [len(one.steps) for one in trajectory.subagent_trajectories or []],
            "prompt_tokens": metrics.total_prompt_tokens,
            "completion_tokens": metrics.total_completion_tokens,
            "step_prompt_tokens": [step.metrics.prompt_tokens for step in trajectory.steps if step.metrics],
        }
    return found


def inspect():
    from inspect_ai.analysis import events_df, messages_df, samples_df
    from inspect_ai.log import read_eval_log

    found = {}
    for path in sorted((exports / "inspect").glob("*.eval")):
        log = read_eval_log(str(path))
        samples = samples_df(str(path), quiet=True)
        messages = messages_df(str(path), quiet=True)
        events = events_df(str(path), quiet=True)
        found[log.eval.task] = {
            "status": log.status,
            "model": log.eval.model,
            "samples": [sample.id for sample in log.samples],
            "scores": {name: score.value for name, score in log.samples[0].scores.items()},
            "accuracy": {score.name: score.metrics["accuracy"].value for score in log.results.scores},
            "roles": [message.role for message in log.samples[0].messages],
            "events": [event.event for event in log.samples[0].events],
            "spans": [event.name for event in log.samples[0].events if event.event == "span_begin"],
            "samples_df": len(samples),
            "messages_df": len(messages),
            "events_df": len(events),
        }
    return found


def harbor():
    from harbor.models.job.result import JobResult
    from harbor.models.trial.config import TrialConfig
    from harbor.models.trial.result import TrialResult

    (job,) = (exports / "harbor").iterdir()
    result = JobResult.model_validate_json((job / "result.json").read_text())
    trials = {}
    for path in sorted(job.glob("*/result.json")):
        trial = TrialResult.model_validate_json(path.read_text())
        TrialConfig.model_validate_json(path.with_name("config.json").read_text())
        trials[trial.trial_name] = {
            "rewards": trial.verifier_result.rewards if trial.verifier_result else None,
            "tokens": trial.compute_token_cost_totals()[:3],
            "agent": trial.agent_info.name,
            "failure": trial.failure_cause and trial.failure_cause.value,
        }
    completed = result.stats.n_completed_trials
    return {"completed": completed, "evals": sorted(result.stats.evals), "trials": trials}


def frames():
    import duckdb
    import pandas
    import polars
    import pyarrow.feather
    import pyarrow.parquet

    found = {}
    for name in ["trials", "turns", "tool_calls", "verdicts"]:
        parquet, arrow, csv = (exports / kind / f"{name}.{kind}" for kind in ["parquet", "arrow", "csv"])
        table = pyarrow.parquet.read_table(parquet)
        table.validate(full=True)
        feather = pyarrow.feather.read_table(arrow)
        feather.validate(full=True)
        rows = table.to_pylist()
        assert feather.to_pylist() == rows, name
        assert polars.read_parquet(parquet).to_dicts() == rows, name
        assert polars.read_ipc(arrow, memory_map=False).to_dicts() == rows, name
        assert len(pandas.read_parquet(parquet)) == len(rows), name
        assert list(pandas.read_csv(csv).columns) == table.column_names, name
        assert len(pandas.read_csv(csv)) == len(rows), name
        counted = duckdb.sql(f"select count(*), count(distinct trial) from '{parquet}'").fetchone()
        assert counted[0] == len(rows), name
        found[name] = {"rows": len(rows), "trials": counted[1], "first": rows[0] if rows else None}
        found[name]["types"] = {field.name: str(field.type) for field in table.schema}
    return found


def swebench():
    found = []
    for path in sorted((exports / "swebench").glob("*.jsonl")):
        found += [json.loads(line) for line in path.read_text().splitlines()]
    return found


readers = {"atif": atif, "inspect": inspect, "harbor": harbor, "frames": frames, "swebench": swebench}
print(json.dumps({name: read() for name, read in readers.items()}))
