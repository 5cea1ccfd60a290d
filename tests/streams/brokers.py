"""Brokers for tests: librdkafka's mock cluster, and a real Redis on loopback."""

import ctypes
import json
import shutil
import socket
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

SECONDS = 120  # until a test that waits in vain gives up


def wait_until(condition):
    """Wait for a condition."""
    deadline = time.monotonic() + SECONDS
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return value


def ids(batches):
    """The first column of all rows."""
    return [int(i) for batch in batches for i in batch.X[:, 0]]


class Live:
    """The batches of a stream without an end, read by another thread until the block is left."""

    def __init__(self, stream, size):
        self.batches, self.error = [], None
        self._stop = threading.Event()
        self._chunks, stream._table.chunks = stream._table.chunks, self._until_stopped
        self._thread = threading.Thread(target=self._run, args=(stream.batches(size),))
        self._thread.start()

    def _until_stopped(self, kinds, start):
        with closing(self._chunks(kinds, start)) as chunks:
            for chunk in chunks:
                if self._stop.is_set():
                    return
                yield chunk

    def _run(self, batches):
        try:
            for batch in batches:
                self.batches.append(batch)
        except Exception as error:
            self.error = error

    def ids(self):
        """The first column of all rows so far."""
        return ids(list(self.batches))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()


class KafkaCluster:
    """A broker of librdkafka's mock cluster, which can go down and come back with its messages.

    It knows no transactions that fail, no compaction, cannot add a partition to a topic, and keeps
    5 MB of a partition.
    """

    def __init__(self, packed="none"):
        self._kafka = pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
        libraries = Path(self._kafka.__file__).parent.parent.glob(
            "confluent_kafka.libs/librdkafka*"
        )
        found = next(iter(libraries), None)
        if found is None:
            pytest.skip("confluent-kafka comes without a librdkafka of its own here")
        self._lib = lib = ctypes.CDLL(str(found))
        pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
        for name, result, *arguments in (
            ("conf_new", pointer),
            ("conf_set", number, pointer, text, text, text, ctypes.c_size_t),
            ("new", pointer, number, pointer, text, ctypes.c_size_t),
            ("destroy", None, pointer),
            ("mock_cluster_new", pointer, pointer, number),
            ("mock_cluster_destroy", None, pointer),
            ("mock_cluster_bootstraps", text, pointer),
            ("mock_topic_create", number, pointer, text, number, number),
            ("mock_topic_delete", number, pointer, text),
            ("mock_broker_set_down", number, pointer, ctypes.c_int32),
            ("mock_broker_set_up", number, pointer, ctypes.c_int32),
            (
                "mock_partition_delete_records",
                number,
                pointer,
                text,
                ctypes.c_int32,
                ctypes.c_int64,
            ),
        ):
            function = getattr(lib, f"rd_kafka_{name}")
            function.restype, function.argtypes = result, arguments
        settings = lib.rd_kafka_conf_new()
        lib.rd_kafka_conf_set(settings, b"bootstrap.servers", b"localhost:1", None, 0)
        lib.rd_kafka_conf_set(settings, b"log_level", b"0", None, 0)
        self._handle = lib.rd_kafka_new(0, settings, None, 0)
        self._cluster = lib.rd_kafka_mock_cluster_new(self._handle, 1)
        self.address = lib.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        settings = {"bootstrap.servers": self.address, "log_level": 0}
        self._producer = self._kafka.Producer(settings | {"compression.type": packed})

    def uri(self, topic):
        """The address of a topic."""
        return f"kafka://{self.address}/{topic}"

    def create(self, topic, n_partitions=1):
        """Make a topic."""
        assert (
            self._lib.rd_kafka_mock_topic_create(self._cluster, topic.encode(), n_partitions, 1)
            == 0
        )

    def delete(self, topic):
        """Delete a topic."""
        assert self._lib.rd_kafka_mock_topic_delete(self._cluster, topic.encode()) == 0

    def forget(self, topic, before, partition=0):
        """Let the messages before an offset go, as retention does."""
        assert not self._lib.rd_kafka_mock_partition_delete_records(
            self._cluster, topic.encode(), partition, before
        )

    def down(self):
        """Take the broker away."""
        self._lib.rd_kafka_mock_broker_set_down(self._cluster, 1)

    def up(self):
        """Bring it back."""
        self._lib.rd_kafka_mock_broker_set_up(self._cluster, 1)

    def write(self, topic, values, partition=lambda i: 0):
        """Write messages: text, bytes, None, or what JSON can say."""
        for i, value in enumerate(values):
            if not isinstance(value, (str, bytes, type(None))):
                value = json.dumps(value)
            while True:
                try:
                    self._producer.produce(topic, value, f"k{i}", partition=partition(i))
                    break
                except BufferError:
                    self._producer.poll(0.1)
        assert self._producer.flush(SECONDS) == 0

    def close(self):
        """Take it down for good."""
        self._producer.flush(0)
        self._lib.rd_kafka_mock_cluster_destroy(self._cluster)
        self._lib.rd_kafka_destroy(self._handle)


class RedisServer:
    """A redis-server on loopback, with a port and a folder of its own."""

    def __init__(self, folder, *options):
        self._redis = pytest.importorskip("redis", reason="needs redis")
        self._program = shutil.which("redis-server")
        if self._program is None:
            pytest.skip("needs redis-server")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._folder, self._options = folder, options
        self._process = None
        password = (
            options[options.index("--requirepass") + 1] if "--requirepass" in options else None
        )
        self.client = self._redis.Redis(port=self.port, password=password)
        self.start()

    def write(self, key, entries):
        """Add entries: fields, or the JSON in the only field."""
        adding = self.client.pipeline(transaction=False)
        for entry in entries:
            adding.xadd(key, entry if isinstance(entry, dict) else {"data": entry})
        return adding.execute()

    def uri(self, key):
        """The address of a stream."""
        return f"redis://127.0.0.1:{self.port}/{key}"

    def start(self):
        """Start it, with what it wrote down before."""
        settings = {"--port": str(self.port), "--bind": "127.0.0.1", "--save": ""}
        settings["--dir"] = str(self._folder)
        self._process = subprocess.Popen(
            [self._program, *sum(settings.items(), ()), *self._options],
            stdout=subprocess.DEVNULL,
        )
        wait_until(self._answers)

    def _answers(self):
        assert self._process.poll() is None, "redis-server ended"
        try:
            return self.client.ping()
        except self._redis.ConnectionError:
            return False

    def stop(self):
        """Stop it."""
        self.client.close()
        self._process.terminate()
        self._process.wait(SECONDS)


@pytest.fixture
def kafka(monkeypatch):
    """A broker of Kafka."""
    monkeypatch.delenv("FIRES_KAFKA_CONFIG", raising=False)
    cluster = KafkaCluster()
    yield cluster
    cluster.close()


@pytest.fixture
def redis_server(tmp_path, monkeypatch):
    """A server of Redis that keeps what it has when it is stopped."""
    for name in ("FIRES_REDIS_USERNAME", "FIRES_REDIS_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    server = RedisServer(tmp_path, "--appendonly", "yes", "--appendfsync", "always")
    yield server
    server.stop()
