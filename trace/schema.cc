// SPDX-License-Identifier: Apache-2.0
#include "trace/schema.h"

#include <array>

namespace stepscope {
namespace {

using enum ColumnKind;

constexpr ColumnSpec kDeviceOpColumns[] = {
    {1, "start_ns", kTime, "begin on the device, node time"},
    {2, "dur_ns", kDuration, "length"},
    {3, "kind", kInt, "what the source called it"},
    {4, "grain", kInt, "0 leaf, 1 envelope"},
    {5, "name", kName, "kernel or operation name"},
    {6, "shape", kInt, "launch shape id; 0 = none"},
    {7, "correlation", kInt, "joins an api_call of the same process"},
    {8, "bytes", kInt, "bytes moved; 0 where it moves none"},
    {9, "direction", kInt, "copy direction as the source gave it"},
    {10, "graph", kInt, "graph id; 0 = none"},
    {11, "node", kInt, "graph node id; 0 = none"},
    {12, "flags", kInt, "clock doubt and other marks"},
};
constexpr ColumnSpec kApiCallColumns[] = {
    {1, "start_ns", kTime, "call entry, node time"},
    {2, "dur_ns", kDuration, "length"},
    {3, "name", kName, "function"},
    {4, "correlation", kInt, "joins device_op rows"},
    {5, "status", kInt, "return code"},
};
constexpr ColumnSpec kSpanColumns[] = {
    {1, "start_ns", kTime, "begin, node time"},
    {2, "dur_ns", kDuration, "length; 0 for a mark"},
    {3, "name", kName, "base name, the split-off number removed"},
    {4, "domain", kInt, "SpanDomain: user, step, loader, optimizer, framework, mark, window"},
    {5, "number", kInt, "number split off the name (step_12 -> 12), see has_number"},
    {6, "has_number", kInt, "1 if the name carried a number"},
    {7, "depth", kInt, "nesting depth on its thread, 0 = outermost"},
    {8, "token", kInt, "token of an overlapping span; 0 = nested span"},
    {9, "flags", kInt, "SpanFlags bits"},
};
constexpr ColumnSpec kSchedSliceColumns[] = {
    {1, "on_ns", kTime, "switched in, node time"},
    {2, "dur_ns", kDuration, "off - on"},
    {3, "wait_ns", kDuration, "runnable but not running before this turn: on - max(previous off, waking)"},
    {4, "cpu", kInt, "logical CPU"},
    {5, "waker", kInt, "host tid of the waking task; 0 = none or not a task"},
    {6, "waker_kind", kInt, "WakerKind"},
    {7, "syscall", kInt, "system call nr the thread was in at switch-out; -1 = fault or user mode"},
    {8, "arg0", kInt, "first argument of that call (futex address, fd)"},
    {9, "state", kInt, "SliceState, with the healed (0x100) and first (0x200) bits"},
    {10, "seq", kInt, "low 32 bits of voluntary + involuntary switches of the thread, this one included"},
    {11, "exec_ns", kDuration, "growth of se.sum_exec_runtime: the kernel's own books"},
    {12, "rq_wait_ns", kDuration, "growth of sched_info.run_delay"},
    {13, "stolen_ns", kDuration, "run-queue clock over the turn minus exec"},
    {14, "min_faults", kInt, "minor page faults in this turn"},
    {15, "maj_faults", kInt, "major page faults in this turn"},
};
constexpr ColumnSpec kSchedWaitColumns[] = {
    {1, "start_ns", kTime, "runnable since, node time"},
    {2, "dur_ns", kDuration, "length of the wait"},
    {3, "occupant", kInt, "host tid that held the CPU; 0 = none to name, -1 = unknown"},
    {4, "occupant_process", kInt, "its host tgid"},
    {5, "part_ns", kDuration, "how long it held it; the parts of a wait sum to dur_ns"},
    {6, "occupant_class", kInt, "OccupantClass"},
    {7, "occupant_name", kName, "thread name; empty for another user's"},
    {8, "cpu", kInt, "logical CPU whose run queue the thread waited in"},
};
constexpr ColumnSpec kCounterColumns[] = {
    {1, "time_ns", kTime, "when sampled, node time"},
    {2, "metric", kName, "metric name"},
    {3, "value", kReal, "value in the metric's unit"},
    {4, "scaled", kInt, "1 if scaled up from a multiplexed counter"},
};
constexpr ColumnSpec kStackSampleColumns[] = {
    {1, "time_ns", kTime, "when sampled, node time"},
    {2, "stack", kInt, "stack id"},
};
constexpr ColumnSpec kCollectiveColumns[] = {
    {1, "start_ns", kTime, "begin, node time"},
    {2, "dur_ns", kDuration, "length"},
    {3, "communicator", kInt, "communicator id"},
    {4, "sequence", kInt, "n-th collective of the communicator"},
    {5, "op", kInt, "operation"},
    {6, "bytes", kInt, "payload"},
    {7, "rank", kInt, "rank in the communicator"},
};
constexpr ColumnSpec kLostPartColumns[] = {
    {1, "start_ns", kTime, "begin, node time"},
    {2, "dur_ns", kDuration, "length"},
    {3, "class", kInt, "class of the lost time"},
    {4, "drain", kInt, "why the queue was empty"},
    {5, "activity", kInt, "what the host did"},
};
constexpr ColumnSpec kFindingColumns[] = {
    {1, "start_ns", kTime, "first evidence, node time"},
    {2, "dur_ns", kDuration, "span of the evidence"},
    {3, "title", kName, "one sentence"},
    {4, "cost_ns", kDuration, "time lost to it"},
    {5, "saving_ns", kDuration, "what fixing it would save"},
    {6, "confidence", kReal, "0..1"},
};
constexpr ColumnSpec kClockSampleColumns[] = {
    {1, "time_ns", kTime, "node time of the reading"},
    {2, "source_clock", kInt, "ClockKind of hello.h"},
    {3, "reading", kInt, "source clock reading, ticks"},
    {4, "wall_ns", kInt, "CLOCK_REALTIME at the same moment, ns since the epoch"},
    {5, "error_ns", kDuration, "half width of the bracket the readings were taken in"},
};
constexpr ColumnSpec kLossColumns[] = {
    {1, "start_ns", kTime, "first loss of this row, node time"},
    {2, "dur_ns", kDuration, "until the last loss"},
    {3, "stage", kInt, "LossStage"},
    {4, "source", kEntity, "process, thread or cpu that lost; 0 = the node"},
    {5, "reason", kInt, "LossReason"},
    {6, "table_id", kInt, "TableId of the lost rows; 0 = unknown"},
    {7, "count", kInt, "rows or records lost; -1 = unknown"},
    {8, "bytes", kInt, "bytes lost; -1 = unknown"},
};

constexpr std::array<TableSpec, 12> kTables = {{
    {TableId::kDeviceOp, "device_op", "one operation on an accelerator queue", kDeviceOpColumns},
    {TableId::kApiCall, "api_call", "one runtime or driver call of a host thread", kApiCallColumns},
    {TableId::kSpan, "span", "one user or framework range", kSpanColumns},
    {TableId::kSchedSlice, "sched_slice", "one turn of a thread on a CPU and how it got there", kSchedSliceColumns},
    {TableId::kSchedWait, "sched_wait", "who held the CPU during one wait", kSchedWaitColumns},
    {TableId::kCounter, "counter", "one sample of a metric", kCounterColumns},
    {TableId::kStackSample, "stack_sample", "one stack of a thread", kStackSampleColumns},
    {TableId::kCollective, "collective", "one rank's part in one collective", kCollectiveColumns},
    {TableId::kLostPart, "lost_part", "one piece of a device's lost time", kLostPartColumns},
    {TableId::kFinding, "finding", "one sentence with cost and evidence", kFindingColumns},
    {TableId::kClockSample, "clock_sample", "simultaneous readings of clocks", kClockSampleColumns},
    {TableId::kLoss, "loss", "what is missing, where and why", kLossColumns},
}};

}  // namespace

std::optional<size_t> TableSpec::Find(std::string_view column) const {
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == column) return i;
  }
  return std::nullopt;
}

std::span<const TableSpec> AllTables() { return kTables; }

const TableSpec* FindTable(TableId id) {
  for (const TableSpec& table : kTables) {
    if (table.id == id) return &table;
  }
  return nullptr;
}

const TableSpec* FindTable(std::string_view name) {
  for (const TableSpec& table : kTables) {
    if (table.name == name) return &table;
  }
  return nullptr;
}

}  // namespace stepscope
