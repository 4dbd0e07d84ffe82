// SPDX-License-Identifier: Apache-2.0
// AwayTime: what the daemon could not see between its last sign of life and this start. Agents keep their rows in their rings
// meanwhile; turns of threads and samples of counters are recorded by the daemon alone, so each job that was open then gets one
// row of `loss`:
//
//      last turn stored ─┐                 ┌─ this daemon takes the job up
//   ──── stored rows ────x░░░ loss row ░░░░x──── stored rows ────►  node time
//         x     x     x  signs of life: the moment of the last delivery in each seal, stored with it
//
// Thread rule: Sign on any one thread, the rest on the thread that starts the daemon.
#pragma once

#include <string>

#include "daemon/jobs/job_table.h"
#include "storage/store.h"
#include "trace/batch.h"

namespace stepscope {

class AwayTime {
 public:
  /// Reads the last sign of life from `store`, which outlives this, as `clock` does.
  AwayTime(const Store* store, const Clock* clock, std::string boot_id);

  /// The row to store with everything that was delivered until `last_delivery`.
  MetaRow Sign(NodeTime last_delivery) const;

  struct Missing {
    Batch loss;  ///< one row
    NodeTime end;
  };
  /// Of a run that was open when the last daemon stopped. It ends now; or, for a run of an earlier boot, whose last second (rows
  /// of agents too) the disk may not have, at the last moment that run can have lived.
  Missing Missed(const JobSnapshot& job) const;

 private:
  NodeTime LastTurn(RunId run, NodeTime begin) const;

  const Store* const store_;
  const Clock* const clock_;
  const std::string boot_id_;
  std::string last_boot_id_;  ///< of the last sign of life; empty = there was none
  NodeTime last_alive_;
};

}  // namespace stepscope
