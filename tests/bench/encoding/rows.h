// SPDX-License-Identifier: Apache-2.0
// Rows shaped like a training node's, made up from distributions; no recorded row is in here.
//
//   sched_slice  turns of 200 threads: log-normal run and sleep times, futex and epoll waits, the kernel's own books close to
//   ours span         nested annotations of 8 ranks: steps, four parts, twelve layers each counter      40 metrics read every 100
//   ms: counters that grow, gauges that wander device_op    kernels of 8 devices, 200 launch shapes: entropy of start 2.5 bytes
//   and of length 2.0, as in recorded traces of
//                real training (V100, A100, MI300)
//   api_call     the launches of those kernels by 8 host threads
//
// All times carry 1 ns noise, which is what most of the bytes are. The same seed gives the same rows.
#pragma once

#include <string_view>
#include <vector>

#include "trace/batch.h"

namespace stepscope::bench {

struct Shape {
  std::string_view name;
  Batch (*make)(size_t rows);
};

Batch SchedSlices(size_t rows);
Batch Spans(size_t rows);
Batch Counters(size_t rows);
Batch DeviceOps(size_t rows);
Batch ApiCalls(size_t rows);

inline const std::vector<Shape>& Shapes() {
  static const std::vector<Shape> shapes = {
      {"sched_slice", SchedSlices}, {"span", Spans}, {"counter", Counters}, {"device_op", DeviceOps}, {"api_call", ApiCalls}};
  return shapes;
}

}  // namespace stepscope::bench
