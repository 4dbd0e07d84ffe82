// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/foreign_files.h"

#include <fcntl.h>
#include <pthread.h>

#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace stepscope {
namespace {

constexpr int kMostOfOneUser = 8;

}  // namespace

struct ForeignFiles::State {
  std::mutex mu;
  std::map<uint32_t, int> closing;  ///< by user
};

ForeignFiles::ForeignFiles() : state_(std::make_shared<State>()) {}

bool ForeignFiles::IsMemory(int fd) { return fcntl(fd, F_GET_SEALS) >= 0; }

void ForeignFiles::Close(uint32_t uid, unique_fd file) {
  {
    const std::lock_guard lock(state_->mu);
    ++state_->closing[uid];
  }
  std::thread([state = state_, uid, held = std::move(file)]() mutable {
    pthread_setname_np(pthread_self(), "close_foreign");
    held.reset();
    const std::lock_guard lock(state->mu);
    if (--state->closing[uid] == 0) state->closing.erase(uid);
  }).detach();
}

bool ForeignFiles::Full(uint32_t uid) const {
  const std::lock_guard lock(state_->mu);
  const auto found = state_->closing.find(uid);
  return found != state_->closing.end() && found->second >= kMostOfOneUser;
}

}  // namespace stepscope
