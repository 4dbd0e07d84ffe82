// SPDX-License-Identifier: Apache-2.0
// CallGate: lets the uploader stop within seconds although a storage library may hang in a request. Every call into the library
// passes the gate; once stopping, new calls are refused; a call that does not come back is abandoned: its thread is parked for
// ever when it does, so that it never touches what its owner has deleted since.
//
//   open ──Stop()──► stopping ──Abandon(), a call is inside──► abandoned
//
// Thread rule: Enter and Leave by the calling thread, the rest by any.
#pragma once

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "storage/parquet/dataset.h"

namespace stepscope {

class CallGate {
 public:
  /// CANCELLED once stopping. Pairs with Leave when OK.
  absl::Status Enter();
  void EnterToCleanUp();  ///< also while stopping
  void Leave();           ///< does not return once abandoned
  void Stop();
  bool stopping() const;
  /// True: the caller may go; the thread inside is cut off. False: no call is inside.
  bool Abandon();

 private:
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool inside_ ABSL_GUARDED_BY(mutex_) = false;
  bool abandoned_ ABSL_GUARDED_BY(mutex_) = false;
};

/// `dataset` behind `gate`.
std::unique_ptr<Dataset> GateDataset(std::unique_ptr<Dataset> dataset, std::shared_ptr<CallGate> gate);

}  // namespace stepscope
