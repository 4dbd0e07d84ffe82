/* SPDX-License-Identifier: Apache-2.0 */
#include "empty_calls.h"

void empty_begin(stepscope_name name) { (void)name; }
void empty_end(void) {}
