"""Every example in a docstring runs and prints what it says."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import mogul

MODULES = ["mogul", *(found.name for found in pkgutil.walk_packages(mogul.__path__, "mogul."))]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    module = importlib.import_module(name)
    result = doctest.testmod(module)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples failed: see the output above"


@pytest.mark.parametrize("name", MODULES)
def test_a_module_says_what_it_is_for(name):
    assert inspect.getdoc(importlib.import_module(name))


def test_examples_are_found():
    finder = doctest.DocTestFinder()
    modules = map(importlib.import_module, MODULES)
    with_examples = {module.__name__ for module in modules for test in finder.find(module) if test.examples}
    assert {"mogul.training.fit", "mogul.data.dataset", "mogul.metrics", "mogul.priors.sparse"} <= with_examples
