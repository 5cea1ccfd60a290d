r"""Numbers as people write them: 12.3%, $1,234.50, (3.20), 5 kg, 1.234,56.

The form of a column is found once, in a sample. A cell in another form is not a number then: "5 lb"
in a column of "5 kg" would be a wrong value, not a missing one.
"""

from __future__ import annotations

import re
from functools import lru_cache

import polars as pl

from fires.columns.schema import Hints, NumberForm
from fires.core.validation import LARGEST

_SIGNS = r"[$€£¥₹₩₽₺฿₫₪₴]"
_CODES = (
    "USD|EUR|GBP|JPY|CHF|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|TRY|US\\$|R\\$"
)
_BLANK = r"[ \u00a0\u202f]"
_ANY = re.compile(
    rf"^(?P<sign>[+-])?\(?(?P<before>{_SIGNS}|{_CODES})?{_BLANK}*(?(sign)|[+-]?)"
    rf"(?P<digits>\d(?:[\d.,'’]|{_BLANK}\d)*(?:[eE][+-]?\d+)?|[.,]\d+)"
    rf"{_BLANK}*(?P<behind>[%‰°]?(?:{_SIGNS}|[\p{{L}}µ/²³]{{0,8}}))\)?$".replace(
        "\\p{L}", "A-Za-zÀ-ÿ"
    )
)
_MOST_DIGITS = 24
"""A longer row of digits is a name, not an amount."""
_GROUPS = r"(?:\d{1,3}(?:S\d{3})+|\d{1,2}(?:S\d{2})+S\d{3})"
"""Groups of three digits; in India, of two before the last."""


def plain_numbers(text: pl.Series) -> pl.Series:
    """Read 1234.5, as any parser does.

    Examples
    --------
    >>> plain_numbers(pl.Series(["1e3", "1,5", "inf", "1e300"])).to_list()
    [1000.0, None, None, None]
    """
    return usable(text.cast(pl.Float64, strict=False))


def usable(values: pl.Series) -> pl.Series:
    """Drop numbers that nothing can be calculated with."""
    return values.set(~(values.abs() <= LARGEST).fill_null(True), None)


def read_numbers(text: pl.Series, form: NumberForm) -> pl.Series:
    """Read numbers that are written in a form.

    Examples
    --------
    >>> text = pl.Series(["$1,234.50", "($3)", "-$2", "0", "7", "€3"])
    >>> read_numbers(text, NumberForm("$", thousands=",")).to_list()
    [1234.5, -3.0, -2.0, 0.0, None, None]
    """
    parts = text.str.extract_groups(_pattern(form)).struct.unnest()
    digits = parts["digits"]
    if form.thousands:
        digits = digits.str.replace_all(_separator(form.thousands), "")
    if form.decimal != ".":
        digits = digits.str.replace(form.decimal, ".", literal=True)
    values = digits.cast(pl.Float64, strict=False)
    n_units = parts["before"].is_not_null().cast(pl.Int8) + parts["behind"].is_not_null()
    enough = (n_units == 1) if form.unit else (n_units == 0)
    values = values.set(~(enough | ((values == 0.0) & (n_units == 0))).fill_null(True), None)
    minus = (parts["sign"] == "-").fill_null(False) | (parts["inner"] == "-").fill_null(False)
    opened, closed = parts["open"].is_not_null(), parts["close"].is_not_null()
    two_signs = parts["sign"].is_not_null() & parts["inner"].is_not_null()
    values = values.set((opened != closed) | (opened & minus) | two_signs, None)
    negative = minus | opened
    return usable(values.zip_with(~negative, -values)).alias(text.name)


@lru_cache(maxsize=256)
def _pattern(form: NumberForm) -> str:
    point = re.escape(form.decimal)
    decimals = rf"{point}\d*" if form.decimal == "." else rf"{point}\d+"  # 93. but not 93,
    digits = rf"(?:\d+(?:{decimals})?|{point}\d+)(?:[eE][+-]?\d+)?"
    if form.thousands:
        grouped = _GROUPS.replace("S", _separator(form.thousands))
        digits = rf"(?:{grouped}(?:{decimals})?|{digits})"
    unit = re.escape(form.unit) if form.unit else r"[^\s\S]"
    return (
        rf"^(?P<sign>[+-])?(?P<open>\()?(?P<before>{unit})?{_BLANK}*(?P<inner>[+-])?"
        rf"(?P<digits>{digits}){_BLANK}*(?P<behind>{unit})?(?P<close>\))?$"
    )


def _separator(thousands: str) -> str:
    return _BLANK if thousands == " " else "['’]" if thousands == "'" else re.escape(thousands)


def find_number_form(values: list[str], hints: Hints) -> tuple[NumberForm, bool] | None:
    """Find the form in which most of some texts are numbers.

    Examples
    --------
    >>> find_number_form(["$3", "$1,200", "$4.50"], Hints())
    (NumberForm(unit='$', decimal='.', thousands=','), True)
    >>> find_number_form(["1,5", "12,25"], Hints())
    (NumberForm(unit='', decimal=',', thousands='.'), True)
    """
    found = [match for match in map(_ANY.match, values) if match]
    found = [match for match in found if len(match["digits"]) <= _MOST_DIGITS]
    if not found or len(values) - len(found) > max(1, len(values) // 5):
        return None
    units: dict[str, int] = {}
    for match in found:
        unit = match["before"] or match["behind"] or ""
        units[unit] = units.get(unit, 0) + 1
    # Zero may stand without its unit.
    unit = max(units, key=lambda name: (units[name], bool(name)))
    if not unit and len(units) > 1 and units[""] < len(found):
        bare = [match for match in found if not (match["before"] or match["behind"])]
        if all(match["digits"].strip("0.,") == "" for match in bare):
            unit = max((name for name in units if name), key=lambda name: units[name])
    digits = [m["digits"] for m in found if (m["before"] or m["behind"] or "") == unit]
    return _find_marks(digits, unit, hints)


def _find_marks(digits: list[str], unit: str, hints: Hints) -> tuple[NumberForm, bool] | None:
    """What stands before decimals and between thousands, and whether that is sure."""
    if hints.decimal is not None or hints.thousands is not None:
        decimal = hints.decimal or ("." if hints.thousands != "." else ",")
        thousands = hints.thousands
        if thousands is None:
            thousands = {",": ".", ".": ","}.get(decimal, "")
        return NumberForm(unit, decimal, thousands), True
    for mark, gap in ((" ", _BLANK), ("'", "['’]")):
        if any(re.search(gap, text) for text in digits):
            rest = [re.sub(gap, "", text) for text in digits]
            decimal = "," if any("," in text for text in rest) else "."
            return NumberForm(unit, decimal, mark), True
    commas = [text for text in digits if "," in text]
    points = [text for text in digits if "." in text]
    both = [text for text in commas if "." in text]
    if both:
        last = {max(text.rfind(","), text.rfind(".")) == text.rfind(",") for text in both}
        if len(last) > 1:
            return None
        decimal, thousands = (",", ".") if last.pop() else (".", ",")
        return NumberForm(unit, decimal, thousands), True
    if commas and points:  # each value has one of them: 1,234 and 5.5, or 1.234 and 5,5
        if _all_grouped(commas, ","):
            return NumberForm(unit, ".", ","), not _all_grouped(points, ".")
        return (NumberForm(unit, ",", "."), True) if _all_grouped(points, ".") else None
    if commas:
        if not _all_grouped(commas, ","):
            return NumberForm(unit, ",", "."), True
        return NumberForm(unit, ".", ","), any(text.count(",") > 1 for text in commas)
    if any(text.count(".") > 1 for text in points):
        return (NumberForm(unit, ",", "."), True) if _all_grouped(points, ".") else None
    return NumberForm(unit, ".", ","), True


def _all_grouped(texts: list[str], mark: str) -> bool:
    """Whether all commas, or points, can stand between groups of three digits."""
    pattern = re.compile(_GROUPS.replace("S", re.escape(mark)))
    return all(pattern.fullmatch(text) and not text.startswith("0") for text in texts)


def may_be_grouped(text: pl.Series) -> bool:
    """Whether all points of a column of plain numbers can stand between groups of three digits."""
    with_point = text.drop_nulls().filter(text.drop_nulls().str.contains(".", literal=True))
    return len(with_point) > 0 and _all_grouped(
        [value.lstrip("+-") for value in with_point.to_list()], "."
    )
