# SPDX-License-Identifier: Apache-2.0
"""Under `smppy`, the first name of Amazon SageMaker Profiler, stepscope records what a script annotates (docs/smppy.md).

Another installed module `smppy` wins over this one wherever both are found.
"""

from stepscope._other_module import hand_over as _hand_over

if not _hand_over(__name__, __file__):
    from stepscope._smppy import Config, SMProfiler, annotate, annotation_begin, annotation_end

    __all__ = ["Config", "SMProfiler", "annotate", "annotation_begin", "annotation_end"]
