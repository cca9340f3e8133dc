"""Every Python block of docs/python.md runs as it stands, by itself, in an empty folder.

One that needs a package which the tests do without says so in its first line, and is skipped where that is missing.
"""

import re

import pytest
from conftest import ROOT

DOCUMENT = ROOT / "docs" / "python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)


def test_there_are_blocks():
    assert len(BLOCKS) >= 9


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[0][:40])
def test_block(block, python):
    if needed := re.match(r"# needs the package (\w+)\n", block):
        pytest.importorskip(needed[1])
    python(block)
