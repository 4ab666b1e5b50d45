from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from condiff import __version__
from condiff.errors import InvalidFileError


def test_version(condiff: Run) -> None:
    result = condiff("--version")
    assert (result.code, result.out, result.err) == (0, f"condiff {__version__}\n", "")


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_every_command(condiff: Run, option: str) -> None:
    result = condiff(option)
    assert result.code == 0
    for command in ("demo", "fit", "predict", "certify", "data"):
        assert command in result.out


@pytest.mark.parametrize("command", ["demo", "fit", "predict", "certify"])
def test_help_of_a_command_shows_an_example(condiff: Run, command: str) -> None:
    result = condiff(command, "--help")
    assert result.code == 0
    assert f"Example: condiff {command}" in result.out


@pytest.mark.parametrize(
    "arguments",
    [["fti"], ["fit", "--colour", "red"], ["--colour"], ["fit"], ["fit", "x.csv", "--target", "y"], ["certify"]],
    ids=" ".join,
)
def test_what_the_command_line_does_not_know_is_one_line(condiff: Run, arguments: list[str]) -> None:
    condiff(*arguments).assert_failed(
        f"see condiff{' ' + arguments[0] if arguments[0] in ('fit', 'certify') else ''} --help"
    )


def test_without_a_command_the_help_is_shown(condiff: Run) -> None:
    result = condiff()
    assert "certify" in result.out + result.err


def test_an_error_is_one_line_and_with_debug_a_traceback(condiff: Run) -> None:
    condiff("fit", "nowhere.csv", "--target", "y", "--out", "m").assert_failed("nowhere.csv does not exist")
    with pytest.raises(ValueError, match=r"nowhere\.csv does not exist"):
        condiff("fit", "nowhere.csv", "--target", "y", "--out", "m", "--debug")


@pytest.mark.parametrize("arguments", [["--debug", "certify", "no.npz"], ["certify", "--debug", "no.npz"]])
def test_debug_is_understood_before_and_after_the_command(condiff: Run, arguments: list[str]) -> None:
    with pytest.raises(InvalidFileError, match=r"no\.npz: no such file"):
        condiff(*arguments)


def test_the_script_shows_a_traceback_with_debug(script: Run) -> None:
    result = script("certify", "no.npz", "--debug")
    assert result.code != 0
    assert "Traceback" in result.err
    assert "no.npz: no such file" in result.err


def test_the_script_says_an_error_in_one_line(script: Run) -> None:
    script("certify", "no.npz").assert_failed("no.npz: no such file")


def test_what_the_system_refuses_is_one_line_too(condiff: Run, flowers: Path) -> None:
    in_a_file = flowers / "model"
    condiff("fit", flowers, "--target", "species", "--out", in_a_file).assert_failed("flowers.csv")


@pytest.mark.parametrize(
    ("command", "message"), [("fit", "stopped; nothing was written"), ("certify", "condiff: error: stopped\n")]
)
def test_an_interruption_says_so(
    condiff: Run, flowers: Path, monkeypatch: pytest.MonkeyPatch, command: str, message: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("condiff.cli.inputs.read_table", interrupted)
    monkeypatch.setattr("condiff.reproduce.datasets.graphs.read_graph", interrupted)
    rest = ["--target", "species", "--out", flowers.with_name("m")] if command == "fit" else []
    result = condiff(command, flowers if command == "fit" else "x.npz", *rest)
    assert (result.code, result.out) == (130, "")
    assert message in result.err
    assert len(result.err.splitlines()) == 1
    assert [path.name for path in flowers.parent.iterdir()] == ["flowers.csv"]


def test_ctrl_c_stops_a_fit_that_reports_its_progress(flowers: Path) -> None:
    # The fit is replaced by one that never ends; all else is the command as it is, in a process of its own.
    program = (
        "import sys, time\n"
        "from condiff.cli import app, fit, output\n"
        "output._BEAT = 0.05\n"
        "fit._fit = lambda *_: (print('it has begun', file=sys.stderr, flush=True), time.sleep(100))\n"
        f"sys.argv = {['condiff', 'fit', str(flowers), '--target', 'species', '--out', str(flowers.with_name('m'))]}\n"
        "app.main()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        said = iter(running.stderr.readline, "")
        assert "it has begun\n" in said  # before, a module that is being imported may swallow the signal
        assert next(said).startswith("fitting 150 rows ... ")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=100)
    assert (running.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "condiff: error: stopped; nothing was written"
    assert [path.name for path in flowers.parent.iterdir()] == ["flowers.csv"]


HEAVY = ("torch", "sklearn", "scipy", "pandas", "pyarrow")


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "nowhere.csv", "--target", "y", "--out", "m"],
        ["fit", "flowers.csv", "--target", "specie", "--out", "m"],
        ["fit", "flowers.csv", "--target", "species", "--out", "m", "--drop", "colour"],
        ["fit", "flowers.csv", "--target", "species", "--out", "m", "--keep", "colour"],
        ["fit", "broken.csv", "--target", "y", "--out", "m"],
        ["fit", "infinite.csv", "--target", "y", "--out", "m"],
        ["fit", "one.csv", "--target", "y", "--out", "m"],
        ["predict", "nowhere", "flowers.csv", "--out", "a.csv"],
        ["predict", "flowers.csv", "flowers.csv", "--out", "flowers.csv"],
        ["predict", "model", "flowers.csv", "--out", "a.csv"],
        ["predict", "model", "broken.csv", "--out", "a.csv"],
        ["fit", "days.csv", "--target", "y", "--out", "m"],
        ["fit", "flowers.csv", "--target", "species", "--out", "model"],
        ["fit", "--colour"],
    ],
    ids=lambda arguments: " ".join(arguments[:4]),
)
def test_an_error_in_the_input_imports_nothing_large(flowers: Path, arguments: list[str]) -> None:
    (flowers.parent / "broken.csv").write_text("a,y\n1\n")
    (flowers.parent / "infinite.csv").write_text("a,y\n1,u\ninf,v\n2,u\n")
    (flowers.parent / "one.csv").write_text("a,y\n1,u\n2,u\n")
    (flowers.parent / "days.csv").write_text("a,y\n1,2024-01-01\n2,2024-01-02\n")
    (flowers.parent / "model").mkdir()
    column = {"$dict": {"name": "colour", "type": "category"}}
    state = {"encoder_": {"$dict": {"columns": [column]}}}
    (flowers.parent / "model" / "model.json").write_text(json.dumps({"state": {"$dict": state}, "metadata": None}))
    program = (
        "import sys, atexit\n"
        f"atexit.register(lambda: print([name for name in {HEAVY} if name in sys.modules]))\n"
        f"sys.argv = {['condiff', *arguments]}\n"
        "from condiff.cli.app import main; main()"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=flowers.parent, check=False
    )
    assert found.returncode == 2, found.stderr
    assert found.stderr.startswith("condiff: error: ")
    assert len(found.stderr.splitlines()) == 1
    assert found.stdout == "[]\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["predict", "--help"],
        ["reproduce", "--help"],
        ["bench", "--help"],
        ["reproduce", "node", "--help"],
        ["bench", "tables", "--help"],
        ["certify", "nowhere.npz"],
        ["report", "nowhere"],
        ["explore", "nowhere.csv", "--target", "y"],
        ["label", "nowhere.csv", "--target", "y"],
        ["fewshot", "nowhere", "--labels", "labels.csv"],
    ],
    ids=" ".join,
)
def test_help_and_what_does_not_exist_import_neither_torch_nor_scikit_learn(
    tmp_path: Path, arguments: list[str]
) -> None:
    program = (
        "import sys, atexit\n"
        "atexit.register(lambda: sys.stderr.write(str({'torch', 'sklearn'} & set(sys.modules))))\n"
        f"sys.argv = {['condiff', *arguments]}\n"
        "from condiff.cli.app import main; main()"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert found.returncode == (0 if "--help" in arguments else 2)
    assert found.stderr.endswith("set()")


@pytest.mark.parametrize(
    ("arguments", "others"),
    [
        (["fit", "--help"], ["condiff.cli.theory", "condiff.cli.forecast", "condiff.cli.reproduce"]),
        (["reproduce", "node", "--help"], ["condiff.cli.fit", "condiff.reproduce.protocols.prostate"]),
    ],
    ids=["fit", "reproduce"],
)
def test_a_command_imports_no_other(tmp_path: Path, arguments: list[str], others: list[str]) -> None:
    program = (
        "import sys, atexit\n"
        f"atexit.register(lambda: sys.stderr.write(str(set({others}) & set(sys.modules))))\n"
        f"sys.argv = {['condiff', *arguments]}\n"
        "from condiff.cli.app import main; main()"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert found.stderr == "set()"


def test_the_package_can_be_run(tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "condiff", "--version"], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert found.stdout == f"condiff {__version__}\n"


def test_predict_imports_neither_torch_nor_scikit_learn(condiff: Run, flowers: Path) -> None:
    folder = flowers.parent
    assert condiff("fit", flowers, "--target", "species", "--out", folder / "m").code == 0
    program = (
        "import sys, atexit\n"
        f"atexit.register(lambda: print([name for name in {('torch', 'sklearn', 'pandas')} if name in sys.modules]))\n"
        "sys.argv = ['condiff', 'predict', 'm', 'flowers.csv', '--out', 'answers.csv', '--json']\n"
        "from condiff.cli.app import main; main()"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=folder, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")]
)
def test_too_little_memory_is_one_line(condiff: Run, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr("condiff.cli.app.app", fail)
    condiff("demo").assert_failed("not enough memory")
