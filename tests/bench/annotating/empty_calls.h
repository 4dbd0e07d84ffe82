/* SPDX-License-Identifier: Apache-2.0
 * What a call into a shared library costs by itself: the same signatures as stepscope_begin and stepscope_end, no work. */
#ifndef STEPSCOPE_TESTS_BENCH_ANNOTATING_EMPTY_CALLS_H_
#define STEPSCOPE_TESTS_BENCH_ANNOTATING_EMPTY_CALLS_H_

#include "stepscope/stepscope.h"

void empty_begin(stepscope_name name);
void empty_end(void);

#endif /* STEPSCOPE_TESTS_BENCH_ANNOTATING_EMPTY_CALLS_H_ */
