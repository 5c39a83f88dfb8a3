"""The case for Inspect: its files are copied to a sandbox, a command changes one, another checks it."""

from pathlib import Path

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, accuracy, scorer
from inspect_ai.solver import solver
from inspect_ai.util import sandbox

REPO = Path(__file__).parent / "repo"


@solver
def agent():
    async def solve(state, generate):
        argv = ["sh", "-c", "cat > /dev/null; echo more >> f1"]
        await sandbox().exec(argv, input=state.input_text)
        return state

    return solve


@scorer(metrics=[accuracy()])
def changed():
    async def score(state, target):
        found = await sandbox().exec(["grep", "-q", "more", "f1"])
        return Score(value=1 if found.success else 0)

    return score


@task
def trivial():
    files = {file.name: str(file) for file in REPO.iterdir() if file.is_file()}
    sample = Sample(input="Change one file.", files=files)
    return Task(dataset=[sample], solver=agent(), scorer=changed(), sandbox="local")
