"""Make digits.svg, the picture of the README: `.venv/bin/python docs/images/make_digits.py`."""

from pathlib import Path

from histrs._demo import readme_picture, run_experiment

picture = readme_picture(run_experiment(seed=0, report=print))
Path(__file__).with_name("digits.svg").write_text(picture, encoding="utf-8")
