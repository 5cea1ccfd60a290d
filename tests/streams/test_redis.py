"""A Redis Stream as a stream: each entry once, and no loss without a word."""

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import islice

import pytest
from numpy.testing import assert_array_equal
from tests.streams.brokers import Live, RedisServer, ids, wait_until

from fires.checks import check_stream
from fires.core.errors import InputError, StateError
from fires.streams.redis import RedisSink, from_redis


def flat(n, first=0):
    """Entries with an id, a number that may be missing, a category, and a label."""
    for i in range(first, first + n):
        row = {"id": i, "x": (i * 37 % 101) / 8, "town": f"t{i * i % 7}", "label": i % 2}
        if i % 11 == 5:
            del row["x"]
        yield row


def as_json(rows):
    return map(json.dumps, rows)


def with_faults(entries):
    """Now and then something that is no row."""
    bad = ['{"oops"', '{"id": 1} {}', {"id": 1, "x": "", "town": "Ulm"}, {"a": b"\xff", "b": "c"}]
    for i, entry in enumerate(entries):
        if i % 9 == 4:
            yield bad[i % len(bad)]
        if i % 200 == 60:  # more than are read at once
            yield from [bad[0]] * 300
        yield entry


def same(one, other):
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert_array_equal(a.X, b.X)
        assert_array_equal(a.y, b.y)
        assert a.position == b.position


@pytest.mark.parametrize("form", [flat, lambda n: as_json(flat(n))], ids=["fields", "JSON"])
def test_entries_are_rows_in_order(redis_server, form):
    last = redis_server.write("events", form(1_200))[-1].decode()
    stream = from_redis(redis_server.uri("events"), "label", until_end=True)
    assert stream.schema.feature_names == ("id", "x", "town")
    batches = list(stream.batches(100))
    assert ids(batches) == list(range(1_200))
    assert batches[-1].position.mark == {"id": last, "added": 1_200}
    assert stream._table.lag() == 0
    check_stream(
        from_redis(redis_server.uri("events"), "label", until_end=True, categories="codes")
    )


@pytest.mark.parametrize(
    "form",
    [pytest.param(iter, id="fields", marks=pytest.mark.slow), pytest.param(as_json, id="JSON")],
)
def test_a_bookmark_after_any_batch_gives_the_rest_to_the_bit(redis_server, monkeypatch, form):
    monkeypatch.setattr("fires.streams.json_table.FIRST", 130)
    monkeypatch.setattr("fires.streams.json_table.MOST", 130)
    redis_server.write("events", with_faults(form(flat(500))))
    stream = from_redis(redis_server.uri("events"), "label", until_end=True)
    told = []
    stream.on_fault = told.extend
    batches, marks = [], []
    for batch in stream.batches(70):
        batches.append(batch)
        marks.append((json.dumps(stream.bookmark()), len(told)))
    assert ids(batches) == list(range(500))
    last = stream.rejected
    assert last.count == len(told) == 956
    for n, (mark, n_told) in enumerate(marks, start=1):
        bookmark = json.loads(mark)
        for rest in (
            stream.after(bookmark),
            from_redis(redis_server.uri("events"), until_end=True, after=bookmark),
        ):
            more = []
            rest.on_fault = more.extend
            same(list(rest.batches(70)), batches[n:])
            assert more == told[n_told:]
            assert rest.rejected == last


@pytest.mark.parametrize("form", [iter, as_json], ids=["fields", "JSON"])
def test_fields_that_come_and_go(redis_server, monkeypatch, form):
    monkeypatch.setattr("fires.streams.json_table.FIRST", 130)
    monkeypatch.setattr("fires.streams.json_table.MOST", 130)
    monkeypatch.setattr("fires.streams.json_table.SAMPLE_ROWS", 100)
    later = [{"late": str(i / 8), "x": str(i), "label": str(i % 2)} for i in range(300)]
    redis_server.write("events", form([*flat(400), *later]))
    how = {"until_end": True, "columns": "open"}
    stream = from_redis(redis_server.uri("events"), "label", **how)
    batches, marks = [], []
    for batch in stream.batches(70):
        batches.append(batch)
        marks.append(json.dumps(stream.bookmark()))
    assert batches[0].names == ("id", "x", "town")
    assert batches[5].names == ("id", "x", "town", "late")
    assert batches[-1].names == ("x", "late")
    for n, mark in enumerate(marks, start=1):
        rest = list(
            from_redis(redis_server.uri("events"), after=json.loads(mark), **how).batches(70)
        )
        same(rest, batches[n:])
        assert [batch.names for batch in rest] == [batch.names for batch in batches[n:]]


def test_faults_say_where_they_are(redis_server):
    redis_server.write("events", as_json(flat(150)))
    broken, nothing, alien = redis_server.write(
        "events", ['{"oops"', {"data": "oops"}, {"a": b"\xff"}]
    )
    stream = from_redis(redis_server.uri("events"), "label", until_end=True)
    faults = []
    stream.on_fault = faults.extend
    assert len(ids(stream.batches(50))) == 150
    assert [(fault.raw, fault.where["id"].encode()) for fault in faults] == [
        ('{"oops"', broken),
        ('{"data": "oops"}', nothing),
        ('{"a": "\\xff"}', alien),
    ]


def test_a_stream_without_an_end_hands_on_what_comes(redis_server):
    redis_server.write("events", flat(150))
    stream = from_redis(redis_server.uri("events"), "label")
    with Live(stream, 50) as live:
        wait_until(lambda: len(live.batches) == 3)
        for first in range(150, 200, 10):
            redis_server.write("events", flat(10, first))
        wait_until(lambda: len(live.batches) == 4)
        assert live.ids() == list(range(200))
        assert wait_until(lambda: stream._table.lag() == 0)


def test_the_lag_is_that_of_the_moment_it_is_asked_for(redis_server):
    """Another thread asks, and whoever reads is busy with a batch."""
    redis_server.write("events", flat(300))
    stream = from_redis(redis_server.uri("events"), "label")
    with ThreadPoolExecutor(2) as others:
        with closing(stream.batches(100)) as batches:
            next(batches)
            redis_server.write("events", flat(40, 300))
            assert list(others.map(lambda _: stream.lag(), range(8))) == [40] * 8
            redis_server.stop()
            assert others.submit(stream.lag).result() is None
            redis_server.start()
            assert others.submit(stream.lag).result() == 40
        assert others.submit(stream.lag).result() == 40


def test_while_nothing_comes_there_are_chunks_without_rows(redis_server):
    redis_server.write("events", flat(100))
    stream = from_redis(redis_server.uri("events"), "label")
    stream.max_wait = 0.0
    with closing(stream.batches(70)) as batches:
        assert [next(batches).n_rows, next(batches).n_rows] == [70, 30]


def test_a_server_that_comes_back_is_waited_for(redis_server):
    redis_server.write("events", flat(150))
    with Live(from_redis(redis_server.uri("events"), "label"), 50) as live:
        wait_until(lambda: len(live.batches) == 3)
        for first in (150, 200):
            redis_server.stop()
            redis_server.start()
            redis_server.write("events", flat(50, first))
            wait_until(lambda: len(live.batches) == first // 50 + 1)  # noqa: B023
        assert live.ids() == list(range(250))
        assert live.error is None


def test_a_server_that_comes_back_without_its_entries_is_told_of(tmp_path):
    server = RedisServer(tmp_path)
    server.write("events", flat(150))
    with Live(from_redis(server.uri("events"), "label"), 50) as live:
        wait_until(lambda: len(live.batches) == 3)
        server.stop()
        server.start()
        wait_until(lambda: live.error is not None)
    server.stop()
    assert 'stream "events": it is gone, and was read up to id' in str(live.error)


def bookmark_after(server, n_batches):
    stream = from_redis(server.uri("events"), "label", until_end=True)
    batches = stream.batches(50)
    list(islice(batches, n_batches))
    batches.close()
    return stream.bookmark()


def refusal(server, bookmark):
    with pytest.raises(InputError) as caught:
        list(from_redis(server.uri("events"), until_end=True, after=bookmark).batches(50))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def small_portions(monkeypatch):
    monkeypatch.setattr("fires.streams.json_table.FIRST", 50)
    monkeypatch.setattr("fires.streams.json_table.MOST", 50)


def test_entries_that_were_trimmed_before_they_were_read_are_named(redis_server, small_portions):
    names = redis_server.write("events", flat(300))
    bookmark = bookmark_after(redis_server, 3)
    for n_gone in (50, 100):  # what was read may go
        redis_server.client.xtrim("events", minid=names[n_gone], approximate=False)
        rest = from_redis(redis_server.uri("events"), until_end=True, after=bookmark)
        assert ids(rest.batches(50)) == list(range(150, 300))
    redis_server.client.xtrim("events", minid=names[180], approximate=False)
    text = refusal(redis_server, bookmark)
    last, first = names[99].decode(), names[180].decode()
    assert f"80 entries after id {last} and before {first} are gone" in text
    redis_server.client.xtrim("events", maxlen=0)
    assert f"200 entries after id {last} are gone" in refusal(redis_server, bookmark)


def test_entries_that_were_deleted_before_they_were_read_are_named(redis_server, small_portions):
    names = redis_server.write("events", flat(300))
    redis_server.client.xdel("events", names[290])  # before anybody reads
    bookmark = bookmark_after(redis_server, 3)
    redis_server.client.xdel("events", names[20])
    rest = from_redis(redis_server.uri("events"), until_end=True, after=bookmark)
    assert ids(rest.batches(50)) == [i for i in range(150, 300) if i != 290]
    redis_server.client.xdel("events", names[200])
    assert f"1 entry after id {names[99].decode()} is gone" in refusal(redis_server, bookmark)


def test_entries_that_go_while_we_read_are_named(redis_server, small_portions):
    names = redis_server.write("events", flat(300))
    batches = from_redis(redis_server.uri("events"), "label").batches(50)
    found = [next(batches), next(batches)]
    redis_server.client.xtrim("events", minid=names[200], approximate=False)
    with pytest.raises(InputError, match=r"100 entries after id .* are gone, and were not read"):
        found += batches
    assert ids(found) == list(range(100))


def test_a_key_that_was_made_anew_is_told_of(redis_server):
    redis_server.write("events", flat(300))
    bookmark = bookmark_after(redis_server, 2)
    redis_server.client.delete("events")
    redis_server.write("events", flat(40))
    assert "were read, and some are gone, or the key was recreated" in refusal(
        redis_server, bookmark
    )
    bookmark["start"]["mark"] |= {"added": 41}
    assert "it has had 40 entries in all, and 41 were read" in refusal(redis_server, bookmark)
    redis_server.client.delete("events")
    redis_server.client.xadd("events", {"id": 1}, id="5-1")
    bookmark["start"]["mark"] = {"id": "7-1", "added": 1}
    assert "its last id is 5-1, and it was read up to 7-1" in refusal(redis_server, bookmark)


def test_a_damaged_bookmark_is_refused(redis_server):
    redis_server.write("events", flat(150))
    bookmark = bookmark_after(redis_server, 1)
    for mark in ({"a": 1}, [1], "1-1", {"id": "x", "added": 1}, {"id": "1-1", "added": "x"}):
        bookmark["start"]["mark"] = mark
        with pytest.raises(StateError, match="is damaged"):
            list(from_redis(redis_server.uri("events"), after=bookmark).batches(50))


def test_what_is_not_there_is_said_in_one_line(redis_server, monkeypatch):
    monkeypatch.setattr("fires.streams.json_table.START", 0.5)
    with pytest.raises(InputError, match='there is no key "nothing"'):
        from_redis(redis_server.uri("nothing"), "label")
    redis_server.client.set("text", 1)
    with pytest.raises(InputError, match='the key "text" does not hold a stream'):
        from_redis(redis_server.uri("text"), "label")
    with pytest.raises(InputError, match="no server answers"):
        from_redis("redis://127.0.0.1:1/events", "label")
    redis_server.write("events", ['{"oops'])
    with pytest.raises(InputError, match="no readable rows; first problem: entry 1: not a JSON"):
        from_redis(redis_server.uri("events"), "label", until_end=True)
    redis_server.client.xtrim("events", maxlen=0)
    with pytest.raises(InputError, match="is empty"):
        from_redis(redis_server.uri("events"), "label", until_end=True)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("redis://localhost:6379", "names no key"),
        ("redis://localhost:99999/events", "no host and port"),
        ("redis://one,two/events", "is on one server"),
        ("redis://localhost/events?db=x", '"x" is not the number of a database'),
        ("redis://localhost/events?password=s3cr3t", 'no option "password"'),
        ("redis://:s3cr3t@localhost/events", "FIRES_REDIS_PASSWORD"),
        ("rediss://:s3/cr3t@localhost/events", "FIRES_REDIS_PASSWORD"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(uri, said):
    pytest.importorskip("redis")
    with pytest.raises(InputError, match=said) as caught:
        from_redis(uri, "label")
    assert "s3" not in str(caught.value)
    assert "cr3t" not in str(caught.value)


def test_another_database_is_named_before_or_behind_the_key(redis_server):
    other = redis_server.client.__class__(port=redis_server.port, db=3)
    for i, row in enumerate(flat(120)):
        other.xadd("a/b", row, id=f"1-{i + 1}")
    for uri in (
        redis_server.uri("3/a/b"),
        redis_server.uri("a/b?db=3"),
        redis_server.uri("3/a%2Fb"),
    ):
        stream = from_redis(uri, "label", until_end=True)
        assert ids(stream.batches(50)) == list(range(120))
    other.close()


def test_a_password_comes_from_the_environment(tmp_path, monkeypatch):
    server = RedisServer(tmp_path, "--requirepass", "s3cr3t")
    server.write("events", flat(120))
    for said in (None, "wrong"):
        if said:
            monkeypatch.setenv("FIRES_REDIS_PASSWORD", said)
        with pytest.raises(InputError, match="FIRES_REDIS_PASSWORD"):
            from_redis(server.uri("events"), "label")
    monkeypatch.setenv("FIRES_REDIS_PASSWORD", "s3cr3t")
    assert len(ids(from_redis(server.uri("events"), "label", until_end=True).batches(50))) == 120
    server.stop()


def test_records_are_written_with_their_id(redis_server):
    sink = RedisSink(redis_server.uri("answers"))
    for i in range(120):
        sink.write({"id": f"run/{i}", "size": i, "label": i % 2})
    redis_server.stop()
    redis_server.start()
    sink.flush()
    entries = redis_server.client.xrange("answers")
    assert [fields[b"id"] for _, fields in entries] == [b"run/%d" % i for i in range(120)]
    assert json.loads(entries[7][1][b"data"]) == {"id": "run/7", "size": 7, "label": 1}
    sink.close()


def test_records_that_no_server_takes_are_an_error(redis_server, monkeypatch):
    monkeypatch.setattr("fires.streams.json_table.FLUSH", 0.3)
    redis_server.client.set("text", 1)
    sink = RedisSink(redis_server.uri("text"))
    sink.write({"id": 1})
    with pytest.raises(InputError, match="wrong kind of value"):
        sink.flush()
    redis_server.stop()
    with pytest.raises(InputError, match="no server answers") as caught:
        sink.flush()
    assert "\n" not in str(caught.value)
    redis_server.start()
