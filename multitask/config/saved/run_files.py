"""``best.json``, ``baselines.json``, ``run.json`` and so on: the smaller JSON files of a run."""

from pydantic import ConfigDict, RootModel, model_validator

from multitask.config.saved.base import Saved
from multitask.config.saved.report_model import Baselines
from multitask.config.selected_steps import JOINT


class BestSteps(RootModel[dict[str, int]]):
    """``best.json``: the best step of each task and of ``joint``."""

    model_config = ConfigDict(strict=True)

    @model_validator(mode="after")
    def _has_joint(self) -> "BestSteps":
        if JOINT not in self.root:
            raise ValueError(f"it has no {JOINT}")
        return self


class AllBaselines(RootModel[dict[str, Baselines]]):
    """``baselines.json``: the baselines of each task that has some."""

    model_config = ConfigDict(strict=True)


class TrackerIds(RootModel[dict[str, str]]):
    """``trackers/ids.json``: the id that each tracker knows the run by."""

    model_config = ConfigDict(strict=True)


class StartedWith(Saved):
    """Checksums of the config and of each task's data, and the kernels."""

    config: str | None = None
    data: dict[str, str] | None = None
    kernels: str | None = None


class Marker(Saved):
    """``run.json``, the first file that a run writes."""

    format: int = 1
    started_with: StartedWith = StartedWith()
