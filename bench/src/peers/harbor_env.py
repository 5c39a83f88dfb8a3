"""An environment for Harbor that runs commands on this machine, in a directory per trial: it has none without Docker."""

import asyncio
import re
import shutil
import tempfile
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult

# The absolute paths of a container that belong to a trial.
OWN_PATHS = re.compile(r"(?<![\w./-])/(app|logs|tests|solution)(?![\w-])")


class LocalEnvironment(BaseEnvironment):
    @staticmethod
    def type():
        return "local"

    def _validate_definition(self):
        pass

    def _path(self, path):
        return Path(OWN_PATHS.sub(f"{self._root}/\\1", str(path)))

    async def start(self, force_build):
        self._root = Path(tempfile.mkdtemp())
        for name in ["logs/agent", "logs/verifier", "logs/artifacts", "tests", "solution"]:
            (self._root / name).mkdir(parents=True)
        shutil.copytree(self.environment_dir / "repo", self._root / "app")

    async def stop(self, delete):
        shutil.rmtree(self._root, ignore_errors=True)

    async def upload_file(self, source_path, target_path):
        self._path(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._path(target_path))

    async def upload_dir(self, source_dir, target_dir):
        shutil.copytree(source_dir, self._path(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path, target_path):
        shutil.copy(self._path(source_path), target_path)

    async def download_dir(self, source_dir, target_dir):
        if self._path(source_dir).is_dir():
            shutil.copytree(self._path(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(self, command, cwd=None, env=None, timeout_sec=None, user=None):
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            OWN_PATHS.sub(f"{self._root}/\\1", command),
            cwd=self._path(cwd or "/app"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        stdout, stderr = await process.communicate()
        return ExecResult(stdout=stdout.decode(), stderr=stderr.decode(), return_code=process.returncode)
