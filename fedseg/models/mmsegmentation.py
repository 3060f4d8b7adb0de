"""Imports from MMSegmentation, without timm.

It imports timm for one backbone, and that takes as long as everything else: here it is imported
when such a backbone is built.
"""

import sys
from importlib import import_module
from typing import Any

_LATE = "timm"


class _Late:
    """Stands for a module that is imported when something of it is used."""

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(_LATE), name)


_early = _LATE in sys.modules or "mmseg.models" in sys.modules
if not _early:
    sys.modules[_LATE] = None  # an import of it fails, which MMSegmentation allows for
try:
    from mmseg.models.backbones import timm_backbone
    from mmseg.models.backbones.bisenetv2 import BGALayer, BiSeNetV2, GELayer
    from mmseg.models.decode_heads.decode_head import BaseDecodeHead
    from mmseg.models.segmentors import EncoderDecoder
finally:
    if not _early:
        del sys.modules[_LATE]
if not _early:
    timm_backbone.timm = _Late()

__all__ = ["BGALayer", "BaseDecodeHead", "BiSeNetV2", "EncoderDecoder", "GELayer"]
