"""Probe grids: train the modules of each task separately, on the frozen encoder.

With a frozen encoder the tasks are independent: a task's score depends only on its setting
(``PROBED``) and the seed. So every split is encoded once, for all poolings. Every (task, setting,
seed) is trained once, like the frozen baseline of a run, and the cells of the grid are composed of
these probes. A pooling with parameters is trained with its head; such a probe encodes its splits
itself.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from torch import Tensor

from multitask.config import Config
from multitask.inference.trivial_scores import trivial_scores
from multitask.inference.write_predictions import write_predictions
from multitask.models.build import initial_model
from multitask.models.head_checks import check_head
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.task_module import TaskModule
from multitask.store.files import ANYWHERE, remove_scraps
from multitask.store.lock import owned
from multitask.store.prepare_run import save_config
from multitask.store.saved import Baselines, TaskReport, Turns
from multitask.sweep.grid import PROBED, Grid
from multitask.sweep.progress_bars import Progress
from multitask.sweep.sweep_directory import Failure, Run, SweepDirectory, mean_score
from multitask.tasks.base import RowLabels
from multitask.training.frozen_probe import (
    Pooled,
    Probe,
    Probing,
    TokenStates,
    fixed,
    frozen_vectors,
    has_parameters,
    splits_in_use,
    train_probe,
)
from multitask.training.report_json import run_result, task_result
from multitask.training.setup import Plan, set_up
from multitask.utils.device import pick_device
from multitask.utils.errors import NotFinite
from multitask.utils.versions import git_revision

# a task and its keys of PROBED, on which a probe depends in addition to the seed
Setting = tuple[str, str]
# a trained probe, and its entry in report.json
Probed = tuple[Probe, TaskReport]


@dataclass
class Bench:
    """The data, encoder and vectors that the probes of a grid share.

    Attributes:
        plan: data and encoder, the same for every cell.
        owners: the config of the first cell with each setting. A probe starts with the initial
            weights of this cell.
        vectors: [N, sides, d] by task, pooling and split, for poolings without parameters.
    """

    plan: Plan
    owners: dict[Setting, Config]
    vectors: dict[str, dict[str, dict[str, Tensor]]]


def probe_all(
    grid: Grid, output: Path, runs: Sequence[Run], progress: Progress, failed: list[Failure]
) -> None:
    """Compose every run that is not finished; one process works on ``output``, others wait.

    Failures are added to ``failed``.

    Raises:
        UserError: bad data or encoder, or a cell that cannot be probed; before any training.
    """

    def waiting(name: str) -> None:
        progress.say(f"{output} is held by another process ({name}): waiting for it")

    directory = SweepDirectory(output)
    with owned(directory.probes_lock, "trains the probes", waiting=waiting):
        remove_scraps(directory.cells, ANYWHERE)  # also of finished runs
        pending = [run for run in runs if not run.finished]
        progress.skipped(len(runs) - len(pending))
        if pending:
            _compose(_set_up(grid, pending, progress), pending, progress, failed)


def setting_of(config: Config, task: str) -> Setting:
    """Return the task and its keys of ``PROBED`` as one value."""
    return task, json.dumps(config.tasks[task].model_dump(mode="json", include={*PROBED}))


def pooling_of(config: Config, task: str) -> str:
    """Return the task's pooling with its options as text."""
    return config.tasks[task].pooling.model_dump_json()


def _set_up(grid: Grid, pending: Sequence[Run], progress: Progress) -> Bench:
    """Load the data and the encoder, check every cell, and encode the splits of pending runs."""
    kernels = pending[0].config.encoder.kernels  # those of the sweep, in place of `auto`
    configs = [grid.config(c, grid.seeds[0], Path()).with_kernels(kernels) for c in grid.cells]
    with grid.placed(grid.cells[0]):
        with configs[0].errors_at(("device",)):
            device = pick_device(configs[0].device)
        plan = set_up(configs[0], device, progress.say)
    for warning in plan.warnings:
        progress.say(f"warning: {warning}")
    owners: dict[Setting, Config] = {}
    modules: dict[str, dict[str, TaskModule]] = {task: {} for task in plan.config.tasks}
    wanted = {(t, pooling_of(run.config, t)) for run in pending for t in run.config.tasks}
    for cell, config in zip(grid.cells, configs, strict=True):
        with grid.placed(cell):
            model = _checked_model(config, plan)
        for task in config.tasks:
            owners.setdefault(setting_of(config, task), config)
            pooling, module = pooling_of(config, task), model.module(task)
            if (task, pooling) in wanted and not has_parameters(module.pooler):
                modules[task].setdefault(pooling, module)
    counts = {task: sum(name == task for name, _ in owners) for task in modules}
    shown = ", ".join(f"{task} {count}" for task, count in counts.items())
    progress.say(f"{len(grid.cells)} cells, composed of {len(owners)} probes a seed: {shown}")
    vectors = {task: _encoded(plan, task, used) for task, used in modules.items() if used}
    return Bench(plan, owners, vectors)


def _checked_model(config: Config, plan: Plan) -> MultiTaskModel:
    """Return the model of a cell. Raises UserError if one of its tasks cannot be probed."""
    for task in config.tasks:
        kind, place = plan.data.readers[task].task_type, ("tasks", task, "head")
        if not isinstance(kind, RowLabels):
            message = "a probe has one vector and one label per row, which this head does not have"
            raise config.error(place, message)
        task_type = check_head(config, task)
        if task_type is not kind:
            names = task_type.name, kind.name
            message = "takes {} labels, but that of the first cell takes {}".format(*names)
            raise config.error(place, message)
    return initial_model(config, plan.model.encoder, plan.data, plan.device)


def _encoded(
    plan: Plan, task: str, modules: Mapping[str, TaskModule]
) -> dict[str, dict[str, Tensor]]:
    """Encode a task by pooling and split, in one pass per split; ``modules`` has each pooling."""
    names = {pooling: f"pooling_{i}" for i, pooling in enumerate(modules)}
    model = MultiTaskModel(
        plan.model.encoder,
        {names[pooling]: module for pooling, module in modules.items()},
        autocast=plan.model.autocast,
    )
    scorer, parts = replace(plan.scorer, model=model), plan.data.splits[task]
    by_split = {
        split: frozen_vectors(
            scorer, list(names.values()), parts[split], f"encoding {task} {split}"
        )
        for split in splits_in_use(parts)
    }
    return {
        pooling: {split: vectors[name] for split, vectors in by_split.items()}
        for pooling, name in names.items()
    }


def _compose(
    bench: Bench, pending: Sequence[Run], progress: Progress, failed: list[Failure]
) -> None:
    """Train each probe when a run first needs it, and write the runs."""
    trained = cache(partial(_probed, bench))
    revision = git_revision()
    for run in pending:
        began = time.monotonic()
        try:
            probes = {t: trained(setting_of(run.config, t), run.seed) for t in run.config.tasks}
        except NotFinite as error:
            failed.append(Failure(run, str(error)))
            progress.settled(run.name, f"failed: {error}")
            continue
        _write(bench.plan, run, probes, revision)
        progress.settled(run.name, f"{mean_score(run)} ({time.monotonic() - began:.0f} s)")


def _probed(bench: Bench, setting: Setting, seed: int) -> Probed:
    """Train one probe. Raises NotFinite if it fails, as do all runs that use it."""
    task, plan = setting[0], bench.plan
    config = bench.owners[setting].model_copy(update={"seed": seed})
    splits, reader = plan.data.splits[task], plan.data.readers[task]
    model = initial_model(config, plan.model.encoder, plan.data, plan.device)
    module = model.module(task)
    pooled: Pooled
    if has_parameters(module.pooler):
        pad_id = plan.data.tokenizer.pad_token_id
        pooled = TokenStates(model, splits, pad_id=pad_id, device=plan.device)
    else:
        pooled = fixed(bench.vectors[task][pooling_of(config, task)])
    lr = config.tasks[task].head_lr or config.training.head_lr
    how = Probing(lr, plan.metrics[task], seed)
    probe = train_probe(module, pooled, splits, reader, how=how, task=task)
    trivial = trivial_scores(module.head, splits["train"], splits["dev"], reader)
    baselines = Baselines(trivial=trivial, frozen=None)
    plan = replace(plan, config=config, model=model)
    turns, step = Turns(trained=probe.steps, skipped=0), probe.selected_step
    return probe, task_result(plan, task, probe.dev, baselines, selected_step=step, turns=turns)


def _write(plan: Plan, run: Run, probes: Mapping[str, Probed], revision: str | None) -> None:
    """Write the run's directory; ``report.json`` comes last, as it marks a finished run."""
    run.directory.mkdir(parents=True, exist_ok=True)
    config = run.config.with_labels(plan.data.label_values())
    save_config(config.with_kernels(plan.model.encoder.kernels), run.files)
    for task, (probe, _) in probes.items():
        rows, reader = plan.data.splits[task]["dev"].rows, plan.data.readers[task]
        write_predictions(run.files, task, "dev", rows=rows, scores=probe.dev, reader=reader)
    steps = sum(probe.steps for probe, _ in probes.values())
    training = {
        "probe": True,
        "git_revision": revision,
        "wall_time_s": sum(probe.seconds for probe, _ in probes.values()),
        "steps": {"planned": steps, "done": steps},
        "select": "per_task",
    }
    entries = {task: entry for task, (_, entry) in probes.items()}
    report = run_result(replace(plan, config=run.config), entries, training, plan.warnings)
    run.files.write_json(run.files.report, report.content())
    run.files.seal(finished=True)
