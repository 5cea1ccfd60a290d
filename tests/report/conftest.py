"""What tests of the page share."""

from tests.report.browser import browser  # noqa: F401 - a fixture
