// SPDX-License-Identifier: Apache-2.0
// The event tables, hand-written once. Blocks, Parquet, RPC rows and docs/formats are all derived from this list; proto enums
// are checked equal to it by a test. Columns are only ever added (with a new id); a changed meaning is a new column.
//
// Every row also has a lane (the entity that makes rows sequential, see batch.h), which is not listed here. Column 0 of each
// table is its start in node time; kDuration in column 1 (where present) makes the half-open interval [start, start + dur).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace stepscope {

enum class TableId : uint16_t {
  kDeviceOp = 1,
  kApiCall = 2,
  kSpan = 3,
  kSchedSlice = 4,
  kSchedWait = 5,
  kCounter = 6,
  kStackSample = 7,
  kCollective = 8,
  kLostPart = 9,
  kFinding = 10,
  kClockSample = 11,
  kLoss = 12,
};

/// How a column's int64 is to be read, coded and shown.
enum class ColumnKind : uint8_t {
  kTime,      ///< node time, ns
  kDuration,  ///< ns, >= 0
  kInt,       ///< plain signed integer
  kName,      ///< NameId of the run (before interning: index into Batch::names)
  kEntity,    ///< EntityId of the run (before interning: index into Batch::entities, -1 = none)
  kReal,      ///< IEEE double, bit-cast to int64
};

struct ColumnSpec {
  uint16_t id;            ///< stable within the table; stored in blocks
  std::string_view name;  ///< column name in Parquet and RPC
  ColumnKind kind;
  std::string_view doc;
};

struct TableSpec {
  TableId id;
  std::string_view name;
  std::string_view doc;
  std::span<const ColumnSpec> columns;

  /// Index of the column called `name`; nullopt if the table has none.
  std::optional<size_t> Find(std::string_view column) const;
};

/// All tables in id order.
std::span<const TableSpec> AllTables();
/// nullptr when `id` is none of ours (a block of a newer release).
const TableSpec* FindTable(TableId id);
const TableSpec* FindTable(std::string_view name);

/// Column positions of the tables this release writes, checked against the specs by a unit test.
namespace span_column {
enum : size_t { kStart, kDur, kName, kDomain, kNumber, kHasNumber, kDepth, kToken, kFlags };
}
namespace slice_column {
enum : size_t {
  kOn, kDur, kWait, kCpu, kWaker, kWakerKind, kSyscall, kArg0, kState, kSeq, kExec, kRqWait, kStolen, kMinFaults, kMajFaults
};
}
namespace wait_column {
enum : size_t { kStart, kDur, kOccupant, kOccupantProcess, kPart, kOccupantClass, kOccupantName, kCpu };
}
namespace counter_column {
enum : size_t { kTime, kName, kValue, kScaled };
}
namespace clock_column {
enum : size_t { kNode, kSourceClock, kReading, kWall, kError };
}
namespace loss_column {
enum : size_t { kStart, kDur, kStage, kSource, kReason, kTable, kCount, kBytes };
}

/// span.domain: who named the range.
enum class SpanDomain : int64_t { kUser = 0, kStep = 1, kLoader = 2, kOptimizer = 3, kFramework = 4, kMark = 5, kWindow = 6 };
/// span.flags bits.
enum SpanFlags : int64_t {
  kSpanToken = 1,         ///< opened by a token: may overlap others and end on another thread
  kSpanInstant = 2,       ///< a mark: dur 0
  kSpanCut = 4,           ///< end never seen; dur ends at the last sign of life of the process
  kSpanUnbalanced = 8,    ///< an end closed it together with inner spans left open
  kSpanNameCut = 16,      ///< the name was longer than 4 KB and was cut with a hash suffix
};
/// sched_slice.state: how the turn ended (node.md state machine).
enum class SliceState : int64_t {
  kBlocked = 0, kBlockedIo = 1, kRunnable = 2, kPreempted = 3, kStopped = 4, kTraced = 5, kDead = 6, kThrottled = 7
};
/// sched_slice.state bit set when the switch-in was never seen and `on` was rebuilt as off - exec.
constexpr int64_t kSliceHealed = 0x100;
/// sched_slice.state bit set on the first slice of a thread.
constexpr int64_t kSliceFirst = 0x200;
/// sched_slice.state bit of a slice recorded without the kernel's books (level `own`): its waker, syscall, arg0, seq, exec, rq_wait,
/// stolen and faults are unknown; they read 0, syscall -1.
constexpr int64_t kSliceOwnLevel = 0x400;
/// sched_slice.state bit beside it: the thread slept before this turn and when it was woken is unknown; wait reads 0.
constexpr int64_t kSliceWaitUnknown = 0x800;
/// sched_slice.waker_kind
enum class WakerKind : int64_t { kUnknown = 0, kTask = 1, kTimer = 2, kDisk = 3, kNet = 4, kLocalNet = 5, kIrq = 6, kNone = 7 };

/// sched_wait.occupant_class: what held the CPU.
enum class OccupantClass : int64_t {
  kUnknown = 0,      ///< older than the CPU's history, or a switch was not seen; occupant -1
  kOthers = 1,       ///< several, beyond those named; occupant 0
  kIdle = 2,         ///< nobody: the wake-up was on its way to an idle CPU; occupant 0
  kSameJob = 3,
  kKernel = 4,       ///< a kernel thread
  kSameUser = 5,     ///< another process of the job's user
  kOtherJob = 6,     ///< of another user too: no ids, no name
  kOtherUser = 7,    ///< no ids, no name
  kGone = 8,         ///< ended before it could be looked up
};

/// loss.stage: where rows were lost.
enum class LossStage : int64_t { kAgent = 1, kKernel = 2, kIngest = 3, kPipeline = 4, kSampler = 5, kStore = 6, kRetention = 7 };
/// loss.reason
enum class LossReason : int64_t {
  kRingFull = 1,        ///< the writer found its ring full and dropped the newest record
  kNoRing = 2,          ///< no ring left for a thread
  kDaemonAway = 3,      ///< nobody took the rows; stage agent: the target ended too, kernel: the daemon's own, store: power loss
  kMalformed = 4,       ///< bytes that are not a record; skipped and counted
  kUnplaceable = 5,     ///< a reading no clock map could place
  kNameCap = 6,         ///< too many names; the row kept the name (other)
  kUnmatchedEnd = 7,    ///< an end without a begin
  kKernelRingFull = 8,  ///< BPF ring buffer full
  kTickSkipped = 9,     ///< a sampler ran late
  kRateLimited = 10,    ///< a session exceeded its limits
  kEvicted = 11,        ///< removed by retention
  kDamaged = 12,        ///< a block of the store that cannot be read
};

}  // namespace stepscope
