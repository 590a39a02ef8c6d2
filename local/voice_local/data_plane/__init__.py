"""The local data plane: SageMaker's runtime contract over HTTP/2, in front of containers on loopback."""

from voice_local.data_plane.errors import DataPlaneError, TlsMaterialError
from voice_local.data_plane.fault_plan import ArmedFault, FaultPlan, FiredFault
from voice_local.data_plane.faults import Direction, Fault, FaultKind, FaultSpecError, Scope
from voice_local.data_plane.server import DataPlane
from voice_local.data_plane.settings import DEFAULT_PORT, DataPlaneSettings, InputEnd
from voice_local.data_plane.tls import TlsMaterial

__all__ = [
    "DEFAULT_PORT",
    "ArmedFault",
    "DataPlane",
    "DataPlaneError",
    "DataPlaneSettings",
    "Direction",
    "Fault",
    "FaultKind",
    "FaultPlan",
    "FaultSpecError",
    "FiredFault",
    "InputEnd",
    "Scope",
    "TlsMaterial",
    "TlsMaterialError",
]
