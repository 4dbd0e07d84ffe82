// SPDX-License-Identifier: Apache-2.0
// A collector's state as answers carry it.
#pragma once

#include "base/valid_utf8.h"
#include "daemon/collector/collector_state.h"
#include "stepscope/v1/types.pb.h"

namespace stepscope {

inline void FillCollector(const CollectorState& state, v1::CollectorState* message) {
  message->set_name(state.name);
  message->set_level(state.level);
  message->set_state(state.state);
  message->set_reason(ValidUtf8(state.reason));
  message->set_next_step(ValidUtf8(state.next_step));
  message->set_failed_step(ValidUtf8(state.failed_step));
  message->set_error(state.error);
  message->set_works(state.works);
  message->set_lacks(state.lacks);
  for (const auto& [key, value] : state.numbers) (*message->mutable_numbers())[ValidUtf8(key)] = ValidUtf8(value);
}

}  // namespace stepscope
