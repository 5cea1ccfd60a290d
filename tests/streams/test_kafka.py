"""A topic of Kafka as a stream: each message once, and no loss without a word."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from tests.streams.brokers import SECONDS, Live, ids, wait_until

from fires.checks import check_stream
from fires.core.errors import InputError, StateError
from fires.streams import kafka as kafka_module
from fires.streams.json_table import portion, read_address
from fires.streams.kafka import KafkaSink, from_kafka


def events(n, first=0):
    """Rows with an id, a number that may be missing, a category, and a label."""
    for i in range(first, first + n):
        row = {"id": i, "x": (i * 37 % 101) / 8, "town": f"t{i * i % 7}", "label": i % 2}
        if i % 11 == 5:
            del row["x"]
        yield row


def with_faults(rows):
    """Now and then something that is no row."""
    bad = ["oops", "[1, 2]", "", "  ", "null", b"\xff{}", None, '{"id": 1, "town": "t", "x": 2}']
    for i, row in enumerate(rows):
        if i % 9 == 4:
            yield bad[i % len(bad)]
        yield row


def same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert_array_equal(a.X, b.X)
        assert_array_equal(a.y, b.y)
        assert a.position == b.position


@pytest.fixture
def properties(tmp_path, monkeypatch):
    """Write properties of librdkafka."""

    def write(**said):
        path = tmp_path / "kafka.properties"
        lines = [f"{name.replace('_', '.')} = {value}\n" for name, value in said.items()]
        path.write_text("# ours\n\n" + "".join(lines))
        monkeypatch.setenv("FIRES_KAFKA_CONFIG", str(path))
        return path

    return write


def test_messages_are_rows_in_order(kafka):
    kafka.create("events")
    kafka.write("events", events(2_500))
    stream = from_kafka(kafka.uri("events"), "label", until_end=True)
    assert stream.schema.feature_names == ("id", "x", "town")
    batches = list(stream.batches(100))
    assert ids(batches) == list(range(2_500))
    assert [batch.position.mark for batch in batches[:2]] == [{"0": 100}, {"0": 200}]
    assert stream._table.lag() == 0
    check_stream(from_kafka(kafka.uri("events"), "label", until_end=True, categories="codes"))


def test_a_bookmark_after_any_batch_gives_the_rest_to_the_bit(kafka, monkeypatch):
    monkeypatch.setattr("fires.streams.json_table.FIRST", 130)
    monkeypatch.setattr("fires.streams.json_table.MOST", 130)
    kafka.create("events")
    kafka.write("events", with_faults(events(500)))
    stream = from_kafka(kafka.uri("events"), "label", until_end=True)
    told = []
    stream.on_fault = told.extend
    batches, marks = [], []
    for batch in stream.batches(70):
        batches.append(batch)
        marks.append((json.dumps(stream.bookmark()), len(told)))
    last = stream.rejected
    assert last.count == len(told) > 40
    for n, (mark, n_told) in enumerate(marks, start=1):
        bookmark = json.loads(mark)
        for rest in (
            stream.after(bookmark),
            from_kafka(kafka.uri("events"), until_end=True, after=bookmark),
        ):
            more = []
            rest.on_fault = more.extend
            same(list(rest.batches(70)), batches[n:])
            assert more == told[n_told:]
            assert rest.rejected == last
            assert set(stream.surprises()[1:]) <= set(rest.surprises())


def test_every_row_of_several_partitions_comes_once_over_many_restarts(kafka, monkeypatch):
    monkeypatch.setattr("fires.streams.json_table.FIRST", 90)
    monkeypatch.setattr("fires.streams.json_table.MOST", 90)
    rng = np.random.default_rng(0)
    kafka.create("events", 3)
    kafka.write("events", with_faults(events(1_200)), lambda i: int(rng.integers(3)))
    stream = from_kafka(kafka.uri("events"), "label", until_end=True)
    seen = []
    while len(seen) < 1_200:
        found = list(islice(stream.batches(50), int(rng.integers(1, 5))))
        seen += ids(found)
        bookmark = json.loads(json.dumps(stream.bookmark()))
        stream = from_kafka(kafka.uri("events"), until_end=True, after=bookmark)
    assert sorted(seen) == list(range(1_200))
    assert found[-1].position.rows == 1_200
    assert not list(stream.batches(50))


@pytest.mark.parametrize("until_end", [True, False])
def test_the_sample_does_not_depend_on_what_arrives_first(kafka, monkeypatch, until_end):
    kafka.create("events", 3)
    rows = [{"x": i, "late": None, "label": i % 2} for i in range(1_500)]
    for row in rows[400:]:
        row |= {"x": "text", "late": 3.5}
    kafka.write("events", rows, lambda i: i % 3)
    whole = from_kafka(kafka.uri("events"), "label", until_end=until_end)
    assert {row["name"]: row["kind"] for row in whole.describe()} == {
        "x": "category",
        "late": "number",
    }
    take, n_calls = kafka_module.KafkaReader._take, iter(range(10**6))

    def slowly(reader, n, ends):  # a few at a time, and now and then nothing
        return take(reader, min(n, 40), ends) if next(n_calls) % 2 else []

    monkeypatch.setattr(kafka_module.KafkaReader, "_take", slowly)
    again = from_kafka(kafka.uri("events"), "label", until_end=until_end)
    assert again.bookmark() == whole.bookmark()


def test_faults_say_where_they_are_and_tombstones_are_none(kafka):
    kafka.create("events", 2)
    kafka.write("events", events(200), lambda i: 1)
    kafka.write("events", [None, "oops\n{", None, '{"id": 200,\n "label": 1}', ""], lambda i: 1)
    stream = from_kafka(kafka.uri("events"), "label", until_end=True)
    faults = []
    stream.on_fault = faults.extend
    assert ids(stream.batches(50)) == list(range(201))
    assert [(fault.raw, dict(fault.where)) for fault in faults] == [
        ("oops\n{", {"partition": 1, "offset": 201}),
        ("", {"partition": 1, "offset": 204}),
    ]
    assert {fault.reason for fault in faults} == {"not a JSON object"}


def test_a_row_that_has_no_target_is_shown_as_it_was_written(kafka):
    kafka.create("events")
    kafka.write("events", [*events(120), '{ "id": 5 }'])
    stream = from_kafka(kafka.uri("events"), "label", until_end=True)
    faults = []
    stream.on_fault = faults.extend
    assert len(ids(stream.batches(50))) == 120
    (fault,) = faults
    assert (fault.raw, fault.where) == ('{ "id": 5 }', {"partition": 0, "offset": 120})


def test_a_stream_without_an_end_hands_on_what_comes(kafka):
    kafka.create("events")
    kafka.write("events", events(150))
    stream = from_kafka(kafka.uri("events"), "label")
    with Live(stream, 50) as live:
        wait_until(lambda: len(live.batches) == 3)
        for first in range(150, 200, 10):
            kafka.write("events", events(10, first))
        wait_until(lambda: len(live.batches) == 4)
        assert live.ids() == list(range(200))
        assert wait_until(lambda: stream._table.lag() == 0)


def test_the_lag_is_that_of_the_moment_it_is_asked_for(kafka, monkeypatch):
    """Another thread asks, and whoever reads is busy with a batch."""
    monkeypatch.setattr("fires.streams.json_table.ASK", 2.0)  # a busy machine may need one
    kafka.create("events", 3)
    kafka.write("events", events(300), lambda i: i % 3)
    stream = from_kafka(kafka.uri("events"), "label")
    with ThreadPoolExecutor(2) as others:
        with closing(stream.batches(100)) as batches:
            for _ in range(3):  # however few messages came at once, all are read
                next(batches)
            kafka.write("events", events(40, 300), lambda i: i % 2)
            assert list(others.map(lambda _: stream.lag(), range(8))) == [40] * 8
            kafka.down()
            assert others.submit(stream.lag).result() is None  # in time
            kafka.up()
            assert wait_until(lambda: others.submit(stream.lag).result() == 40)
        assert others.submit(stream.lag).result() == 40


def test_while_nothing_comes_there_are_chunks_without_rows(kafka):
    kafka.create("events")
    kafka.write("events", events(100))
    stream = from_kafka(kafka.uri("events"), "label")
    stream.max_wait = 0.0
    with closing(stream.batches(70)) as batches:
        assert [next(batches).n_rows, next(batches).n_rows] == [70, 30]


def test_a_broker_that_comes_back_is_waited_for(kafka):
    kafka.create("events")
    kafka.write("events", events(150))
    with Live(from_kafka(kafka.uri("events"), "label"), 50) as live:
        wait_until(lambda: len(live.batches) == 3)
        for first in (150, 200):
            kafka.down()
            kafka.up()
            kafka.write("events", events(50, first))
            wait_until(lambda: len(live.batches) == first // 50 + 1)  # noqa: B023
        assert live.ids() == list(range(250))
        assert live.error is None


def bookmark_after(kafka, n_batches, topic="events"):
    stream = from_kafka(kafka.uri(topic), "label", until_end=True)
    batches = stream.batches(50)
    found = list(islice(batches, n_batches))
    batches.close()
    return stream.bookmark(), ids(found)


def refusal(kafka, bookmark, topic="events"):
    with pytest.raises(InputError) as caught:
        list(from_kafka(kafka.uri(topic), until_end=True, after=bookmark).batches(50))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_offsets_that_are_gone_are_named(kafka):
    kafka.create("events")
    kafka.write("events", events(300))
    bookmark, _ = bookmark_after(kafka, 2)
    kafka.forget("events", 200)
    text = refusal(kafka, bookmark)
    assert 'partition 0 of topic "events": offsets 0 to 199 are gone' in text


def test_a_topic_made_anew_is_named(kafka):
    kafka.create("events")
    kafka.write("events", events(300))
    bookmark, _ = bookmark_after(kafka, 6)
    kafka.delete("events")
    kafka.create("events")
    kafka.write("events", events(20))
    text = refusal(kafka, bookmark)
    assert 'partition 0 of topic "events": ends before offset 20, and was read up to' in text


def test_messages_that_are_not_what_they_were_are_named(kafka):
    """They are read again, since a batch may end within a block; and are counted then."""
    kafka.create("events")
    kafka.write("events", events(150))
    bookmark, _ = bookmark_after(kafka, 1)
    kafka.delete("events")
    kafka.create("events")
    kafka.write("events", events(150, 1))
    text = refusal(kafka, bookmark)
    assert "offsets 0 to 149 were read, and are not what they were" in text


@pytest.mark.parametrize(("before", "now", "said"), [(2, 3, "2 of topic"), (3, 2, "2 of topic")])
def test_partitions_that_come_and_go_are_named(kafka, before, now, said):
    kafka.create("events", before)
    kafka.write("events", events(300), lambda i: i % 2)
    bookmark, _ = bookmark_after(kafka, 2)
    kafka.delete("events")
    kafka.create("events", now)
    kafka.write("events", events(300), lambda i: i % 2)
    text = refusal(kafka, bookmark)
    assert f"partition {said}" in text
    assert ("is new" if now > before else "is gone") in text


def test_a_partition_that_comes_while_we_read_is_named(kafka, properties):
    """The mock cluster cannot add one; so the topic is made anew with the same messages."""
    properties(topic_metadata_refresh_interval_ms=100, statistics_interval_ms=100)
    kafka.create("events", 2)
    kafka.write("events", events(300), lambda i: i % 2)
    with Live(from_kafka(kafka.uri("events"), "label"), 50) as live:
        wait_until(lambda: len(live.batches) == 6)
        kafka.delete("events")
        kafka.create("events", 3)
        kafka.write("events", events(300), lambda i: i % 2)
        wait_until(lambda: live.error is not None)
    assert 'partition 2 of topic "events": is new' in str(live.error)


def test_messages_that_go_before_they_are_read_are_named(kafka, properties):
    properties(queued_min_messages=1, fetch_message_max_bytes=1000)
    kafka.create("events")
    for first in range(0, 3_000, 100):  # each is sent by itself, and fetched so
        kafka.write("events", events(100, first))
    stream = from_kafka(kafka.uri("events"), "label", until_end=True)
    batches = stream.batches(50)
    found = [next(batches)]
    kafka.forget("events", 2_999)
    with pytest.raises(InputError, match=r"offsets [\d,]+ to 2,998 are gone"):
        found += batches
    assert ids(found) == list(range(len(ids(found))))  # those before the gap come


def test_a_damaged_bookmark_is_refused(kafka):
    kafka.create("events")
    kafka.write("events", events(150))
    bookmark, _ = bookmark_after(kafka, 1)
    for mark in ({"a": 1}, [1], {"0": "x"}):
        bookmark["start"]["mark"] = mark
        with pytest.raises(StateError, match="is damaged"):
            list(from_kafka(kafka.uri("events"), after=bookmark).batches(50))


def test_what_is_not_there_is_said_in_one_line(kafka, monkeypatch):
    monkeypatch.setattr("fires.streams.json_table.START", 0.5)
    with pytest.raises(InputError, match='there is no topic "nothing"'):
        from_kafka(kafka.uri("nothing"), "label")
    with pytest.raises(InputError, match="no broker answers"):
        from_kafka("kafka://127.0.0.1:1/events", "label")
    kafka.create("events")
    with pytest.raises(InputError, match="is empty"):
        from_kafka(kafka.uri("events"), "label", until_end=True)
    kafka.write("events", ["oops"])
    with pytest.raises(InputError, match="no readable rows; first problem: message 1: not a JSON"):
        from_kafka(kafka.uri("events"), "label", until_end=True)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("kafka://localhost:9092", "names no topic"),
        ("kafka://localhost:x/events", "no host and port"),
        ("kafka://localhost/events?group=1", 'no option "group"'),
        ("kafka://ann:s3cr3t@localhost/events", "FIRES_KAFKA_CONFIG"),
        ("kafka://ann:s3/cr3t@localhost/events", "FIRES_KAFKA_CONFIG"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(uri, said):
    pytest.importorskip("confluent_kafka")
    with pytest.raises(InputError, match=said) as caught:
        from_kafka(uri, "label")
    assert "s3" not in str(caught.value)
    assert "cr3t" not in str(caught.value)


def test_an_address_may_name_several_brokers():
    form = "kafka://host:port/topic"
    address = read_address("kafka://one,two:9093,[::1]:9/a%2Fb", form, 9092)
    assert str(address) == "kafka://one:9092,two:9093,[::1]:9/a/b"


def test_so_many_messages_are_taken_as_make_a_block():
    assert [portion(1_000, 200_000), portion(10, 160_000_000)] == [10_000, 1]


def test_properties_come_from_a_file(kafka, properties, monkeypatch):
    kafka.create("events")
    kafka.write("events", events(150))
    path = properties(no_such_thing=1)
    with pytest.raises(InputError, match=r'property: "no\.such\.thing"'):
        from_kafka(kafka.uri("events"), "label")
    path.write_text("sasl.password s3cr3t")
    with pytest.raises(InputError, match="line 1: not of the form key=value") as caught:
        from_kafka(kafka.uri("events"), "label")
    assert "s3cr3t" not in str(caught.value)
    monkeypatch.setenv("FIRES_KAFKA_CONFIG", str(path) + "x")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        from_kafka(kafka.uri("events"), "label")


def test_with_a_group_others_can_see_how_far_we_are(kafka, properties, monkeypatch):
    monkeypatch.setattr(kafka_module, "_COMMIT_EVERY", 0.0)
    properties(group_id="watched")
    kafka.create("events")
    kafka.write("events", events(150))
    from confluent_kafka import Consumer, TopicPartition

    group = Consumer({"bootstrap.servers": kafka.address, "group.id": "watched"})
    with closing(group), Live(from_kafka(kafka.uri("events"), "label"), 50):
        here = [TopicPartition("events", 0)]
        wait_until(lambda: group.committed(here, timeout=SECONDS)[0].offset == 150)


def test_records_are_written_under_their_id(kafka):
    kafka.create("answers")
    sink = KafkaSink(kafka.uri("answers"))
    for i in range(120):
        sink.write({"id": f"run/{i}", "size": i, "label": i % 2})
    sink.flush()
    stream = from_kafka(kafka.uri("answers"), "label", until_end=True, exclude=["id"])
    assert ids(stream.batches(50)) == list(range(120))
    sink.close()


def test_records_that_no_broker_takes_are_an_error(kafka, monkeypatch):
    monkeypatch.setattr("fires.streams.json_table.FLUSH", 0.5)
    monkeypatch.setattr("fires.streams.json_table.START", 0.5)
    kafka.create("answers")
    sink = KafkaSink(kafka.uri("answers"))
    kafka.down()
    sink.write({"id": 1})
    with pytest.raises(InputError, match=r"records could not be written: \w+") as caught:
        sink.flush()
    assert "\n" not in str(caught.value)
    assert "no answer" not in str(caught.value)  # the client knows more
    with pytest.raises(InputError, match="no broker answers"):
        KafkaSink(kafka.uri("answers"))
