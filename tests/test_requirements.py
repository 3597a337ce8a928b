"""requirements.txt names every package that the product imports."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions

import pytest

from tests.conftest import ROOT

OURS = ("multitask", "heads", "pals", "smart")
# modules of optional packages: imported when they are used, with a message that names the package
OPTIONAL = {
    "argcomplete": "completion in the shell",
    "faiss": "search in an index of many texts",
    "flask": "serve",
    "mlflow": "training.trackers",
    "onnx": "export --format onnx",
    "onnxruntime": "export --format onnx",
    "sentence_transformers": "export --format sentence-transformers",
    "optuna": "tune",
    "peft": "export --format peft",
    "ray": "ablate --engine ray",
    "seqeval": "metrics of tagged words",
    "torchjd": "training.gradient_surgery",
    "trackio": "training.trackers",
    "wandb": "training.trackers",
    "werkzeug": "serve",
}
COMES_WITH = {"pydantic_core": "pydantic", "werkzeug": "flask"}


@cache
def third_party_modules() -> dict[str, set[str]]:
    """Map each third-party top-level module to the files that import it."""
    files = [ROOT / "run_multitask.py", *(f for room in OURS for f in (ROOT / room).rglob("*.py"))]
    modules: dict[str, set[str]] = {}
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "optional":
                names = [word.value for word in node.args[:1] if isinstance(word, ast.Constant)]
            for name in {name.partition(".")[0] for name in names}:
                if name not in sys.stdlib_module_names and name not in OURS:
                    modules.setdefault(name, set()).add(str(file.relative_to(ROOT)))
    return modules


def normalized(name: str) -> str:
    """Normalize the name of a package, as pip does."""
    return re.sub(r"[-_.]+", "-", name).lower()


def required_packages() -> set[str]:
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    names = [re.match(r"[\w.-]+", line) for line in lines if not line.startswith(("#", "-"))]
    return {normalized(name[0]) for name in names if name}


@cache
def distributions() -> dict[str, list[str]]:
    """Map each top-level module to the packages that provide it; reads all installed ones."""
    return dict(packages_distributions())


def packages_of(module: str) -> set[str]:
    """List the installed packages that provide a top-level module."""
    module = COMES_WITH.get(module, module)
    return {normalized(name) for name in distributions().get(module, [module])}


def test_every_imported_module_is_required_or_optional():
    required = required_packages()
    missing = {
        module: sorted(files)
        for module, files in third_party_modules().items()
        if module not in OPTIONAL and not packages_of(module) & required
    }
    assert not missing, "add these to requirements.txt, or import them when they are used"


def test_optional_packages_are_not_required_but_known_to_developers():
    imported = third_party_modules()
    assert not OPTIONAL.keys() - imported.keys(), "no longer imported"
    for module in OPTIONAL:
        assert not packages_of(module) & required_packages(), module


def test_one_module_imports_optuna():
    assert third_party_modules()["optuna"] == {"multitask/sweep/tune.py"}


@pytest.mark.slow
def test_training_and_inference_import_no_optional_package():
    code = (
        f"import sys; sys.modules.update(dict.fromkeys({sorted(OPTIONAL)}))\n"
        "import run_multitask\n"
        "for name in run_multitask.COMMANDS: run_multitask.command_module(name)\n"
        "import multitask.training.train_run, multitask.inference.load_run\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_files_of_extras_name_packages_alone():
    """Setuptools reads them, and refuses the options of pip."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["dynamic"]
    extras = project["optional-dependencies"].values()
    files = {
        *project["dependencies"]["file"],
        *(file for extra in extras for file in extra["file"]),
    }
    lines = [line for file in files for line in (ROOT / file).read_text().splitlines()]
    assert not [line for line in lines if line.startswith("-")]
    engines = (ROOT / "requirements-engines.txt").read_text()
    assert (ROOT / "extras" / "tune.txt").read_text() in engines
