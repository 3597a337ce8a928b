"""Help and error messages do not wait for libraries: they are imported when they are used."""

import subprocess
import sys

import pytest

import multitask
from tests.conftest import ROOT


def test_the_package_has_functions_and_imports_them_when_they_are_used():
    slow = ["pydantic", "numpy", "torch"]
    code = f"""
import sys, multitask
print([name for name in {slow} if name in sys.modules])
print([name for name in multitask.__all__ if name not in dir(multitask)])
for name in ("train", "check", "evaluate", "report", "ablate", "tune", "score"):
    assert getattr(multitask, name).__name__ == name
print("torch" in sys.modules, multitask.load.__name__, multitask.Callback.__name__)
"""
    command = [sys.executable, "-c", code]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["[]", "[]", "False load Callback"]
    with pytest.raises(AttributeError, match="'multitask' has no attribute 'lod'"):
        multitask.lod  # noqa: B018


LIST_MODULES = """
import sys
import run_multitask
try:
    code = run_multitask.main(sys.argv[1:])
except SystemExit as exit:
    code = exit.code
print("modules:", *sys.modules)
sys.exit(code)
"""


def loaded_modules(*arguments: str, exit_code: int = 0) -> set[str]:
    """Run a command in a new process; return the modules that were loaded when it ended."""
    command = [sys.executable, "-c", LIST_MODULES, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == exit_code, done.stderr
    *_, modules = done.stdout.splitlines()
    assert modules.startswith("modules: ")
    return set(modules.split())


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["report", "--help"]])
def test_help_loads_no_pydantic(arguments):
    assert not loaded_modules(*arguments) & {"pydantic", "yaml", "numpy", "torch"}


@pytest.mark.parametrize(
    "mistake",
    ["tasks.sst.poling=cls", "tasks.sst.pooling=clss", "tasks.sst.head=binray", "training.lr=fast"],
)
@pytest.mark.parametrize("command", [[], ["check"]])
def test_a_config_error_loads_no_numpy(command, mistake):
    loaded = loaded_modules(*command, "configs/demo.yaml", mistake, exit_code=2)
    assert "pydantic" in loaded
    assert not loaded & {"numpy", "torch", "transformers", "matplotlib"}


QUICK = [
    ("len([__import__('multitask.config')])", 1, ""),
    ("run(['--help'])", 0, "evaluate-search"),
    ("run([])", 2, "evaluate-search"),
    ("run(['train', '--help'])", 0, "--overwrite"),
    ("run(['predict', '--help'])", 0, "--file"),
    ("run(['nowhere.yaml'])", 2, "nowhere.yaml: cannot read"),
    ("run(['attention', 'runs', '--text', ' '])", 2, "--text: the text is empty"),
    (
        "run(['check', 'configs/demo.yaml', 'tasks.sst.pooling=men'])",
        2,
        "unknown pooling 'men' (did you mean 'mean'?)",
    ),
]


@pytest.mark.parametrize(("code", "status", "words"), QUICK)
def test_help_and_config_errors_need_no_torch(code, status, words):
    program = f"""
import sys

def run(arguments):
    import run_multitask
    try:
        return run_multitask.main(arguments)
    except SystemExit as end:
        return end.code

status = {code}
slow = {{"numpy", "torch", "transformers", "datasets", "pandas", "sklearn", "scipy", "matplotlib"}}
print("LOADED", sorted(slow & set(sys.modules)), status)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == f"LOADED [] {status}"
    assert words in result.stdout + result.stderr


INTERRUPTED_IMPORT = """
import os, runpy, signal, sys
wanted = sys.argv[1]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == wanted:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["run_multitask.py", "--help"]
runpy.run_path("run_multitask.py", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["argparse", "multitask", "multitask.utils.versions"])
def test_ctrl_c_during_the_first_imports_is_one_line(module):
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, module]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
