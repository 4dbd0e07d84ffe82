// SPDX-License-Identifier: Apache-2.0
// The public C API (stepscope/stepscope.h): each call finds the thread's ring and writes one record, or does nothing.
#include <string.h>

#include "agent/core/name_text.h"
#include "agent/core/session.h"
#include "stepscope/stepscope.h"

using stepscope::agent::g_session;
using stepscope::agent::Name;
using stepscope::agent::RingWriter;

namespace {

constexpr size_t kInfoMaxBytes = 4096;

// Calls write(ring, ticks) between Enter and Leave, when there is a ring to write to.
template <typename Write>
inline bool Record(Write write) {
  RingWriter* ring = g_session.ThreadRing();
  if (ring == nullptr) return false;
  if (!ring->Enter()) [[unlikely]] {
    g_session.CountDropped();
    return false;
  }
  const bool written = write(*ring, g_session.Ticks());
  ring->Leave();
  return written;
}

// Records that have no room for a split-off number get it back in the name: counter "loss_2" must not become "loss".
uint32_t NameWithNumber(const stepscope_name& name) {
  const Name* base = name.has_number != 0 ? g_session.names().Find(name.id) : nullptr;
  if (base == nullptr) return name.id;
  char text[STEPSCOPE_NAME_MAX_BYTES + 24];
  memcpy(text, base->text, base->bytes);
  size_t end = sizeof(text);
  uint64_t left = static_cast<uint64_t>(name.number < 0 ? -name.number : name.number);
  char digits[24];
  size_t count = 0;
  do {
    digits[count++] = static_cast<char>('0' + left % 10);
    left /= 10;
  } while (left != 0);
  end = base->bytes;
  text[end++] = name.number < 0 ? '-' : '_';
  while (count != 0) text[end++] = digits[--count];
  return g_session.names().Intern(text, end, base->domain);
}

}  // namespace

extern "C" {

stepscope_name stepscope_intern(const char* text, size_t bytes, int domain) {
  if (text == nullptr) return {0, 0, 0};
  const bool known_domain = domain >= STEPSCOPE_DOMAIN_USER && domain <= STEPSCOPE_DOMAIN_FRAMEWORK;
  const stepscope::agent::SplitNumber split = stepscope::agent::SplitTrailingNumber(text, bytes);
  const uint32_t id = g_session.names().Intern(text, split.base_bytes, static_cast<uint16_t>(known_domain ? domain : 0));
  return {id, split.has_number ? 1u : 0u, split.number};
}

void stepscope_begin(stepscope_name name) {
  Record([&](RingWriter& ring, uint64_t ticks) { return ring.Begin(name, ticks), true; });
}

void stepscope_end(void) {
  Record([](RingWriter& ring, uint64_t ticks) { return ring.End(ticks), true; });
}

void stepscope_end_named(stepscope_name name) {
  if (name.id == 0) return;
  Record([&](RingWriter& ring, uint64_t ticks) { return ring.EndNamed(name.id, ticks), true; });
}

void stepscope_annotate_begin(const char* text) {
  if (text == nullptr) text = "";
  stepscope_begin(stepscope_intern(text, strlen(text), STEPSCOPE_DOMAIN_USER));
}

uint64_t stepscope_token_begin(stepscope_name name) {
  if (name.id == 0) return 0;
  const uint64_t token = g_session.NextToken();
  const bool written = Record([&](RingWriter& ring, uint64_t ticks) { return ring.TokenBegin(token, name, ticks); });
  return written ? token : 0;
}

void stepscope_token_end(uint64_t token) {
  if (token == 0) return;
  Record([&](RingWriter& ring, uint64_t ticks) { return ring.TokenEnd(token, ticks); });
}

void stepscope_mark(stepscope_name name) {
  if (name.id == 0) return;
  Record([&](RingWriter& ring, uint64_t ticks) {
    return ring.Number(STEPSCOPE_RECORD_MARK, name.id, name.has_number != 0 ? name.number : STEPSCOPE_NO_NUMBER, ticks);
  });
}

void stepscope_counter(stepscope_name name, double value) {
  if (name.id == 0) return;
  int64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const uint32_t id = NameWithNumber(name);
  Record([&](RingWriter& ring, uint64_t ticks) { return ring.Number(STEPSCOPE_RECORD_COUNTER, id, bits, ticks); });
}

void stepscope_info(stepscope_name key, const char* value, size_t bytes) {
  if (key.id == 0) return;
  char text[kInfoMaxBytes];
  const size_t text_bytes = value != nullptr ? stepscope::agent::RepairUtf8(value, bytes, text, sizeof(text)).bytes : 0;
  const uint32_t id = NameWithNumber(key);
  Record([&](RingWriter& ring, uint64_t ticks) { return ring.Info(id, text, static_cast<uint32_t>(text_bytes), ticks); });
}

void stepscope_start(void) {
  Record([](RingWriter& ring, uint64_t ticks) { return ring.Number(STEPSCOPE_RECORD_WINDOW, 0, 1, ticks); });
}

void stepscope_stop(void) {
  Record([](RingWriter& ring, uint64_t ticks) { return ring.Number(STEPSCOPE_RECORD_WINDOW, 0, 0, ticks); });
}

void stepscope_publish_gil(const void* begin, const void* end) {
  Record([&](RingWriter& ring, uint64_t ticks) {
    return ring.Range(reinterpret_cast<uintptr_t>(begin), reinterpret_cast<uintptr_t>(end), ticks);
  });
}

const char* stepscope_state(void) { return g_session.State(); }
uint64_t stepscope_lost(void) { return g_session.Lost(); }
int stepscope_flush(int timeout_ms) { return g_session.Flush(timeout_ms) ? 1 : 0; }

}  // extern "C"
