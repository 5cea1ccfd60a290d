"""What holds for all tests: reproducible examples, and no deadline, since loops are compiled."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "fires",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fires")
