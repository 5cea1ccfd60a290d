"""How fast messages become batches, beside a plain consumer that only parses the JSON.

Both read the same messages from the same broker, librdkafka's mock cluster or a real Redis, in one
process in which they take turns; the broker is another process. Once the clock is the processor's,
for all threads of the process, and once that on the wall, which is what a user sees.

The mock cluster keeps no more than 5 MB of a partition. So a few objects are repeated, and packed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import Ratio, Row, show, shown, take_turns

N_MESSAGES, N_FEATURES, BATCH_SIZE, ROUNDS, ASKED = 50_000, 20, 100, 5, 0.5
# The mock cluster in a process of its own, so that its work is not taken for ours.
CLUSTER = """
import sys
from benchmarks.brokers import messages
from tests.streams.brokers import KafkaCluster
cluster = KafkaCluster("zstd")
cluster.create("events")
cluster.write("events", messages())
print(cluster.address, flush=True)
sys.stdin.read()
"""


def messages() -> Iterator[str]:
    """JSON objects of numbers, and a label."""
    X = np.random.default_rng(0).standard_normal((100, N_FEATURES)).round(6)
    texts = []
    for row in X.tolist():
        values = {f"feature_{j}": value for j, value in enumerate(row)}
        texts.append(json.dumps({**values, "label": int(row[0] > row[1])}))
    return islice(cycle(texts), N_MESSAGES)


@contextmanager
def kafka() -> Iterator[tuple[Callable[[int], object], Callable[[int], object]]]:
    """The plain consumer of a topic, and ours."""
    from confluent_kafka import Consumer, TopicPartition

    from fires.streams.kafka import from_kafka

    command = [sys.executable, "-c", CLUSTER]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()

        def plain(_: int) -> None:
            settings = {"bootstrap.servers": address, "group.id": "plain"}
            settings["auto.offset.reset"] = "error"
            with closing(Consumer(settings)) as consumer:
                consumer.assign([TopicPartition("events", 0, 0)])
                n = 0
                while n < N_MESSAGES:
                    found = consumer.consume(10_000, 0.1)
                    n += len([json.loads(message.value()) for message in found])

        stream = from_kafka(f"kafka://{address}/events", "label", until_end=True)
        yield plain, lambda _: read(stream)
        process.communicate()


@contextmanager
def redis() -> Iterator[tuple[Callable[[int], object], Callable[[int], object]]]:
    """The plain consumer of a stream, and ours."""
    from tests.streams.brokers import RedisServer

    from fires.streams.redis import from_redis

    with tempfile.TemporaryDirectory() as folder:
        server = RedisServer(Path(folder))
        server.write("events", messages())

        def plain(_: int) -> None:
            last, n = b"0-0", 0
            while n < N_MESSAGES:
                ((_, found),) = server.client.xread({"events": last}, count=10_000)
                n += len([json.loads(fields[b"data"]) for _, fields in found])
                last = found[-1][0]

        stream = from_redis(server.uri("events"), "label", until_end=True)
        yield plain, lambda _: read(stream)
        server.stop()


def read(stream: Any) -> None:
    assert sum(batch.n_rows for batch in stream.batches(BATCH_SIZE)) == N_MESSAGES


def measure(what: str, broker: Any) -> list[Row]:
    rows = []
    with broker() as (plain, ours):
        for clock, name in ((time.process_time, "processor"), (time.perf_counter, "wall")):
            seconds = take_turns({"plain": plain, "ours": ours}, ROUNDS, untimed=0, clock=clock)
            slow, fast = seconds["plain"], seconds["ours"]
            ratio = Ratio.of(slow, fast)
            for who, taken, figure in (
                (f"{what}, plain consumer, {name}", slow, ("1",)),
                (
                    f"{what}, ours, {name}",
                    fast,
                    (ratio, f">= {ASKED}", bool(ratio.value >= ASKED)),
                ),
            ):
                speed = f"{N_MESSAGES / taken.min():,.0f} rows/s"
                rows.append(Row(who, speed, shown(taken), *figure))
    return rows


def main() -> list[Row]:
    rows = measure("Kafka", kafka) + measure("Redis", redis)
    size = f"{N_MESSAGES:,} messages of {N_FEATURES} numbers, batches of {BATCH_SIZE}"
    return show(f"brokers: a plain consumer's time over ours, {size}", rows)
