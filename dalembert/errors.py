"""0 · errors and warnings that this package raises on purpose; each text is meant for users."""

from dalembert._results import (
    ActuationWarning,
    AssemblyError,
    AssemblyWarning,
    BatchError,
    ConversionWarning,
    DalembertError,
    DataWarning,
    EquilibriumError,
    FileError,
    LiftOffWarning,
    ModelError,
    PoseError,
    PrecisionWarning,
    RecordWarning,
    RedundancyWarning,
    SimulationError,
    SingularWarning,
    SlackBeltWarning,
    StiffnessWarning,
)

__all__ = [
    "ActuationWarning", "AssemblyError", "AssemblyWarning", "BatchError", "ConversionWarning", "DalembertError",
    "DataWarning", "EquilibriumError", "FileError", "LiftOffWarning", "ModelError", "PoseError", "PrecisionWarning",
    "RecordWarning", "RedundancyWarning", "SimulationError", "SingularWarning", "SlackBeltWarning",
    "StiffnessWarning",
]  # fmt: skip
