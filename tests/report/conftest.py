"""What tests of the page share."""

from tests.report.browser import browser, chromium  # noqa: F401 - fixtures
