"""The stacks that can be shown, one module each."""

from __future__ import annotations

from obs_exporter.simulator.faces.base import Face, FaceInfo, PageUnavailableError
from obs_exporter.simulator.faces.kserve import KServeFace, KServeKnativeFace
from obs_exporter.simulator.faces.ray_serve import RayServeFace
from obs_exporter.simulator.faces.ray_serve_244 import RayServe244Face
from obs_exporter.simulator.faces.triton import TritonFace, TritonMetricsOffFace
from obs_exporter.simulator.faces.vllm import VllmFace
from obs_exporter.simulator.faces.vllm_v0 import VllmV0Face

FACES: dict[str, type[Face]] = {
    face.INFO.name: face
    for face in (
        VllmFace,
        VllmV0Face,
        KServeFace,
        KServeKnativeFace,
        TritonFace,
        TritonMetricsOffFace,
        RayServeFace,
        RayServe244Face,
    )
}
"""All faces by name."""

USUAL_LAYERS: dict[str, str] = {
    "vllm": "direct",
    "vllm-v0": "direct",
    "kserve": "direct",
    "kserve-knative": "direct",
    "triton": "triton",
    "triton-metrics-off": "triton",
    "ray-serve": "ray",
    "ray-serve-2.44": "ray-2.44",
}
"""The usual serving layer of each face."""

__all__ = ["FACES", "USUAL_LAYERS", "Face", "FaceInfo", "PageUnavailableError"]
