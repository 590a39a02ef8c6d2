"""The endpoints of known behaviour and the command, as the quick tests have them."""

from tests.client.bench.conftest import bench, recordings, stand_in

__all__ = ["bench", "recordings", "stand_in"]
