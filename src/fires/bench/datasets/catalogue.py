"""What is known of the ten data sets of the paper: sizes, classes, licences, checksums, addresses.

Sizes and kinds are those of the paper's table 2; counts and digests were taken from the files. Each
SHA-256 of a published file is one that others recorded too; those of Spambase, Madelon and the
validation part of Gisette were also had from our tables, by writing the files again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fires.bench.datasets.download import READERS, Remote
from fires.streams.generated import RandomRBF, RandomTree

if TYPE_CHECKING:
    import polars as pl

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
_MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"


@dataclass(frozen=True)
class DataFile:
    """What a Parquet file of a data set should hold: its features, and the column ``target``.

    Parameters
    ----------
    file : str
        Its name.
    n_features : int
        How many columns it has besides the target.
    counts : mapping
        How many rows each label has.
    digest : str, optional
        The SHA-256 of its names and values (:func:`fires.bench.datasets.files.digest`), where it
        is known.

    Examples
    --------
    >>> DataFile("toy.parquet", n_features=2, counts={"ham": 3, "spam": 1}).n_rows
    4
    """

    file: str
    n_features: int
    counts: Mapping[Any, int]
    digest: str | None = None

    @property
    def n_rows(self) -> int:
        """How many rows it has."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class Info:
    """A data set of the paper.

    Parameters
    ----------
    name : str
        As the paper writes it; upper and lower case are the same to us.
    n_rows, n_features : int
        The size of the stream in the paper.
    kinds : str
        What the features are: continuous, categorical.
    positive : label
        The positive class: the greater label, or the one against the rest.
    source, licence : str
        Who publishes it, and on which terms.
    whole : DataFile, optional
        The file; None if the data set is generated.
    part : DataFile, optional
        A file that holds some of the rows, used where the whole is not at hand.
    sorted_by_class : bool
        Then the rows are shuffled before use.
    remotes : sequence of Remote
        The files as they are published.
    read : callable, optional
        What makes one table of these files.
    make : callable, optional
        ``make(n_samples, random_state=)`` is the stream, if the data set is generated.
    note : str
        What else there is to know.

    Examples
    --------
    >>> [info.name for info in CATALOGUE.values() if info.sampled]
    ['Dota', 'KDD']
    >>> [info.name for info in CATALOGUE.values() if info.one_against_rest]
    ['HAR', 'KDD', 'MNIST']
    """

    name: str
    n_rows: int
    n_features: int
    kinds: str
    positive: Any
    source: str
    licence: str
    whole: DataFile | None = None
    part: DataFile | None = None
    sorted_by_class: bool = False
    remotes: tuple[Remote, ...] = ()
    read: Callable[[Sequence[bytes]], pl.DataFrame] | None = field(default=None, repr=False)
    make: Callable[..., Any] | None = field(default=None, repr=False)
    note: str = ""

    @property
    def sampled(self) -> bool:
        """Whether the paper took a random sample of the rows."""
        return self.whole is not None and self.n_rows < self.whole.n_rows

    @property
    def one_against_rest(self) -> bool:
        """Whether there are more than two labels, of which one is the positive class."""
        return self.whole is not None and len(self.whole.counts) > 2


def _counts(text: str) -> dict[str, int]:
    """Labels and their numbers of rows, in turn."""
    words = text.split()
    return dict(zip(words[::2], map(int, words[1::2]), strict=True))


def _remotes(folder: str, paths: Sequence[str], *sha256: str | None) -> tuple[Remote, ...]:
    """Files in a folder on a server, with the SHA-256 of each where it is known."""
    return tuple(Remote(f"{folder}/{p}", s) for p, s in zip(paths, sha256, strict=True))


def _nips(name: str, *sha256: str) -> tuple[Remote, ...]:
    """The files of a set of the NIPS 2003 challenge; the last labels lie one folder above."""
    lower = name.lower()
    paths = [f"{name}/{lower}_{part}" for part in ("train.data", "train.labels", "valid.data")]
    return _remotes(f"{_UCI}/{lower}", [*paths, f"{lower}_valid.labels"], *sha256)


# The first line of each is what the paper says, and who publishes it: name, rows, features, kinds
# of features, positive class, source, licence.
_ALL = (
    Info(
        *("HAR", 10_299, 561, "cont.", "WALKING", "UCI", "CC BY 4.0"),
        whole=DataFile(
            "har.parquet",
            561,
            _counts(
                "WALKING 1722 WALKING_UPSTAIRS 1544 WALKING_DOWNSTAIRS 1406 SITTING 1777 "
                "STANDING 1906 LAYING 1944"
            ),
        ),
        remotes=_remotes(
            f"{_UCI}/00240",
            ["UCI%20HAR%20Dataset.zip"],
            "2045e435c955214b38145fb5fa00776c72814f01b203fec405152dac7d5bfeb0",
        ),
        note="the paper counts 562 features, the published files hold 561",
    ),
    Info(
        *("Spambase", 4_601, 57, "cont.", 1, "UCI", "CC BY 4.0"),
        whole=DataFile(
            "spambase.parquet",
            57,
            {0: 2_788, 1: 1_813},
            "aabf48e0ed21eff6db0f7ba1eb741962562502024fc098edfe4a6161877c21cc",
        ),
        sorted_by_class=True,
        remotes=_remotes(
            f"{_UCI}/spambase",
            ["spambase.data"],
            "b1ef93de71f97714d3d7d4f58fc9f718da7bbc8ac8a150eff2778616a8097b12",
        ),
    ),
    Info(
        *("Usenet", 5_931, 658, "cat.", 1, "LIAAD", "not stated"),
        whole=DataFile(
            "usenet.parquet",
            658,
            {0: 2_991, 1: 2_940},
            "9ce7cb92d20461a84fb63d3c350a7627d45a5807448d62bf94fceda375e0fe9f",
        ),
        note="the words behind the columns are not known",
    ),
    Info(
        *("Gisette", 7_000, 5_000, "cont.", 1, "UCI", "CC BY 4.0"),
        whole=DataFile("gisette.parquet", 5_000, {-1: 3_500, 1: 3_500}),
        part=DataFile(
            "gisette_valid.parquet",
            5_000,
            {-1: 500, 1: 500},
            "20d7a68ecf215b46631f4e5b82b2bf0975957ac33fc02fac5990bfc7f890b520",
        ),
        remotes=_nips(
            "GISETTE",
            "6d4c5e998afe67937b9e77a3334e03c85e545ebc65a6eb1333ffc14125cfc389",
            "42bd681fe51b161f033df773df14a0116e492676555ab14616c1b72edc054075",
            "5cea897956dd172a006132738254a27a8f61ecc1ceb6f5b20639c281d2942254",
            "a6b857a0448023f033c4dda2ef848714b4be2ae45ce598d088fb3efb406e08c5",
        ),
    ),
    Info(
        *("Madelon", 2_600, 500, "cont.", 1, "UCI", "CC BY 4.0"),
        whole=DataFile(
            "madelon.parquet",
            500,
            {-1: 1_300, 1: 1_300},
            "7f5d039f5c1ad5f32b7216c4698aa00dae493337144d5e86ba2a5e994bdb75fd",
        ),
        remotes=_nips(
            "MADELON",
            "0b6e37711efdc7ab74250c51e7d6966bffd9f8f2b0e9971e882c3a7a380c2314",
            "10bffcc3b017467cb810d326b931951adcbde2b4870faf981da2991993b48689",
            "cb9a46475147de1a58d9f15ef4c318e5b85de344e0f9ab92626fa446aa815dc9",
            "fbac32fa87fac41ab731994a1c824e7b25396069bff6df242c01fe240fcb34dc",
        ),
    ),
    Info(
        *("Dota", 100_000, 116, "cat.", 1, "UCI", "CC BY 4.0"),
        whole=DataFile(
            "dota2.parquet",
            116,
            {-1: 48_660, 1: 54_284},
            "3dff0923c0c5aaedea0527084ccb68db95bbf3cad022ef7c16d7185ef0c5c551",
        ),
        remotes=_remotes(f"{_UCI}/00367", ["dota2Dataset.zip"], None),
    ),
    Info(
        *("KDD", 100_000, 41, "cont., cat.", "normal", "UCI", "CC BY 4.0"),
        whole=DataFile(
            "kddcup99_10pct.parquet",
            41,
            _counts(
                "smurf 280790 neptune 107201 normal 97278 back 2203 satan 1589 ipsweep 1247 "
                "portsweep 1040 warezclient 1020 teardrop 979 pod 264 nmap 231 guess_passwd 53 "
                "buffer_overflow 30 land 21 warezmaster 20 imap 12 rootkit 10 loadmodule 9 "
                "ftp_write 8 multihop 7 phf 4 perl 3 spy 2"
            ),
            "eded9a02981c6dd3b118c146652909b25431772c7aa2a547fe436fd59ae3abb9",
        ),
        remotes=_remotes(
            f"{_UCI}/kddcup99-mld",
            ["kddcup.data_10_percent.gz"],
            "8045aca0d84e70e622d1148d7df782496f6333bf6eb979a1b0837c42a9fd9561",
        ),
        note="the rows are drawn from the published 10 % of the whole",
    ),
    Info(
        *("MNIST", 70_000, 784, "cont.", 3, "LeCun et al.", "CC BY-SA 3.0"),
        whole=DataFile(
            "mnist.parquet",
            784,
            dict(enumerate((6_903, 7_877, 6_990, 7_141, 6_824, 6_313, 6_876, 7_293, 6_825, 6_958))),
            "9018e61ac75ecb36fa648bce7d458fd6050bb21350322e12e17ca4b6884bfba9",
        ),
        remotes=_remotes(
            _MNIST,
            [
                f"{part}-{kind}-ubyte.gz"
                for part in ("train", "t10k")
                for kind in ("images-idx3", "labels-idx1")
            ],
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    Info(*("RBF", 10_000, 10_000, "cont.", 1, "generated", "-"), make=RandomRBF),
    Info(*("RTG", 10_000, 450, "cont., cat.", 1, "generated", "-"), make=RandomTree),
)

CATALOGUE: dict[str, Info] = {
    info.name.lower(): replace(info, read=READERS.get(info.name)) for info in _ALL
}
"""The data sets in the paper's order, under their names in lower case."""
