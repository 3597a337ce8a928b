# Tested by tests/config/test_config.py
# ruff: noqa: F401 - other rooms import these names from here
"""The typed configuration: every key of a YAML file, its type, default, range and meaning.

``load_config`` reads a file (see ``multitask.config.yaml_merge`` for ``extends``, ``defaults`` and
overrides), validates it against these models and reports the first mistake in one line with file,
line, key path and the nearest valid key. No torch import here. ``docs/configuration.md`` is
generated from the docstrings below the fields.
"""

from multitask.config.base import EMBEDDED_DIR, Choice, Strict, fields_of, model_in
from multitask.config.config import BitLinearConfig, Config, EncoderConfig, InitFromConfig
from multitask.config.data_config import TEXT_KEYS, DataConfig
from multitask.config.read_config import load_config
from multitask.config.task_config import (
    CourseFileConfig,
    DistillConfig,
    RDropConfig,
    SmartConfig,
    TaskConfig,
)
from multitask.config.training_config import StageConfig, TrainingConfig
from multitask.config.validation_error import parsed
from multitask.config.yaml_reader import KeyPath
