from contextlib import suppress

import pytest

from fires.core.errors import InputError
from fires.run.folder import OutFolder


def test_files_appear_together_and_the_mark_last(tmp_path):
    path = tmp_path / "a" / "b"
    with OutFolder(path, "mark") as folder:
        assert not any(file.is_file() for file in path.iterdir())
        folder.publish({name: f"{name}\n" for name in ("mark", "z", "a")})
    assert {file.name: file.read_text() for file in path.iterdir()} == {
        "mark": "mark\n",
        "z": "z\n",
        "a": "a\n",
    }


def test_what_comes_to_nothing_leaves_nothing(tmp_path):
    path = tmp_path / "a" / "b"
    with OutFolder(path, "mark"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_was_there_stays_with_all_it_holds(tmp_path):
    (tmp_path / "mine").write_text("mine")
    with OutFolder(tmp_path, "mark"):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_an_earlier_result_is_replaced_only_if_that_is_wanted(tmp_path):
    for text in ("1", "2"):
        with OutFolder(tmp_path, "mark", overwrite=text == "2") as folder:
            folder.publish({"mark": text})
        with pytest.raises(InputError, match=r"an earlier run \(mark\); give --overwrite"):
            OutFolder(tmp_path, "mark")
    assert (tmp_path / "mark").read_text() == "2"
    with OutFolder(tmp_path, "another") as folder:  # of another kind: beside it
        folder.publish({"another": ""})
    assert {file.name for file in tmp_path.iterdir()} == {"mark", "another"}


def test_a_folder_that_cannot_be_is_an_error_with_its_name(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OSError, match="Not a directory") as raised:
            OutFolder(path, "mark")
        assert raised.value.filename == str(path)


def test_a_file_that_cannot_be_written_leaves_an_earlier_result(tmp_path):
    for texts in ({"mark": "1", "a": "2"}, {"a": "3", "mark": None}):
        with OutFolder(tmp_path, "mark", ["a"], overwrite=True) as folder, suppress(AttributeError):
            folder.publish(texts)
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == {"mark": "1", "a": "2"}
