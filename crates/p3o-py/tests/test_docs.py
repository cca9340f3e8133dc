"""Every Python block of docs/python.md runs as it stands, by itself, in an empty folder."""

import re

import pytest
from conftest import ROOT

DOCUMENT = ROOT / "docs" / "python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", DOCUMENT.read_text(), re.M | re.S)


def test_there_are_blocks():
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[0][:40])
def test_block(block, python):
    python(block)
