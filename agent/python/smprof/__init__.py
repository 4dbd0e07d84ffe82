# SPDX-License-Identifier: Apache-2.0
"""The same as `smppy`, under the name Amazon SageMaker Profiler has since December 2023 (docs/smppy.md).

Another installed module `smprof` wins over this one wherever both are found.
"""

from stepscope._other_module import hand_over as _hand_over

if not _hand_over(__name__, __file__):
    from stepscope._smppy import Config, SMProfiler, annotate, annotation_begin, annotation_end

    __all__ = ["Config", "SMProfiler", "annotate", "annotation_begin", "annotation_end"]
