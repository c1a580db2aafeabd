"""What `alcove model import` says of labelled samples: one table of what int8 changed, by class; the same as JSON."""

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="importing needs torch: install alcove-platform[export]")

CLASSES = ["cat", "dog", "hat"]


def one_hot(answers: list[int]) -> Any:
    """Return outputs whose greatest is as given, f64 [samples, 1, outputs]."""
    return np.eye(len(CLASSES))[answers][:, None]


def test_classes_whose_answers_changed_are_counted_before_and_after(capsys: pytest.CaptureFixture[str]) -> None:
    """A class that gains, one that loses, one that stays and is not in the table."""
    from alcove.platform.cli.importing.comparison import Reading, compare_answers
    from alcove.platform.cli.importing.show import _show_changes

    labels = [0, 0, 0, 1, 1, 2]
    before, after = [0, 1, 1, 1, 1, 2], [0, 0, 2, 1, 0, 2]
    found = compare_answers(one_hot(before), one_hot(after), CLASSES, labels, Reading()).accuracy
    assert found is not None
    assert found.torch == pytest.approx(4 / 6)
    assert found.program == pytest.approx(4 / 6)
    assert [(each.folder, each.pictures, each.torch, each.program) for each in found.classes] == [
        ("cat", 3, 1, 2),
        ("dog", 2, 2, 1),
        ("hat", 1, 1, 1),
    ]
    assert sum(change.pictures for change in found.changes) == 3
    assert asdict(found)["classes"][1] == {"folder": "dog", "pictures": 2, "torch": 2, "program": 1}
    _show_changes(found, "pictures")
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.replace("│", " ").replace("┃", " ").splitlines()]
    assert "class pictures right in torch right in the program changed" in rows
    assert "cat 3 1 2 dog -> cat: 1, dog -> hat: 1" in rows
    assert "dog 2 2 1 dog -> cat: 1" in rows
    assert not any(row.startswith("hat") for row in rows)
