"""The command `histrs` says its version, and what a bug report needs."""

import subprocess
import sys

import numpy as np
import pytest

from histrs import __main__, __version__, _histrs


def test_version():
    command = [sys.executable, "-m", "histrs", "--version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout == f"histrs {__version__}\n"


def test_info(capsys):
    assert __main__.main(["--info"]) == 0
    facts = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert facts["histrs"] == __version__
    assert facts["numpy"] == np.__version__
    assert facts["instructions"] == _histrs.instruction_set()


@pytest.mark.parametrize("arguments", [[], ["demo"]])
def test_anything_else_is_refused(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        __main__.main(arguments)
    assert stop.value.code == 2
    assert "--info" in capsys.readouterr().err
