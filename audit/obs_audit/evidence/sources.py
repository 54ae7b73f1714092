"""Where the evidence of one audit is."""

from __future__ import annotations

from dataclasses import dataclass

from obs_audit.evidence.pieces import Given


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the evidence is, as asked for on the command line."""

    stack: str
    stack_version: str = ""
    engine_version: str = ""
    urls: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    api_url: str = ""
    bearer_token_file: str = ""
    watch: float = 0.0
    engine_logs: tuple[str, ...] = ()
    ray_sd: str = ""
    annotations: tuple[str, ...] = ()
    baseline: str = ""
    exercise: str = ""
    model: str = ""
    exercise_hard: bool = False

    @property
    def given(self) -> Given:
        """What the user says of the stack."""
        return Given(self.stack, self.stack_version, self.engine_version)

    @property
    def none(self) -> bool:
        """Whether there is nothing to gather: a paper audit."""
        return self == Sources(self.stack, self.stack_version, self.engine_version)

    @property
    def fetches(self) -> bool:
        """Whether anything is to be had over HTTP."""
        return bool(self.urls) or "://" in self.baseline or "://" in self.ray_sd
