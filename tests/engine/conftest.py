"""Workers with tiny models, and one scripted worker for each test that wants it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.worker_client import WorkerClient


@pytest.fixture
def worker() -> Iterator[WorkerClient]:
    """A worker process that has loaded nothing yet; gone after the test."""
    client = WorkerClient.spawn()
    yield client
    client.close()


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Where a test writes its script."""
    return tmp_path / "script.yaml"
