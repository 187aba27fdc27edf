"""Every public estimator keeps the contract that the manual's table states."""

import pytest

from tests.all_estimators import CASES, public_estimators

pytest.importorskip("array_api_strict")
pytest.importorskip("polars")

from tests import contract

NAMES = [type(case.make()).__name__ for case in CASES]


def test_every_public_estimator_is_tried():
    assert {type(case.make()) for case in CASES} == public_estimators()
    assert list(contract.written()) == NAMES


def test_the_page_is_what_the_script_writes():
    assert contract.PAGE.read_text(encoding="utf-8") == contract.rendered(contract.written())


@pytest.mark.parametrize("column", contract.COLUMNS)
@pytest.mark.parametrize("case", CASES, ids=NAMES)
# Warnings of small data are other tests' matter.
@pytest.mark.filterwarnings("ignore")
def test_an_estimator_does_what_the_table_says(case, column, capsys):
    said = contract.written()[type(case.make()).__name__]
    found = contract.COLUMNS[column](case)
    assert found == said[list(contract.COLUMNS).index(column)]


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_the_diagram_leads_to_the_manual(case):
    estimator = case.make()
    module = ".".join(type(estimator).__module__.split(".")[:2])
    page = f"/reference/generated/{module}.{type(estimator).__name__}.html"
    assert estimator._get_doc_link().endswith(page)
    assert f'{page}"' in estimator._repr_html_()
    reference = (contract.ROOT / "docs" / "reference" / "index.rst").read_text(encoding="utf-8")
    assert f"   {type(estimator).__name__}\n" in reference


def test_a_class_of_another_package_has_no_link_to_this_manual():
    class Own(type(CASES[0].make())):
        pass

    assert Own()._get_doc_link() == ""
