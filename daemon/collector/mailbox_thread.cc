// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/mailbox_thread.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <future>
#include <utility>

#include "base/status.h"

namespace stepscope {

absl::Status MailboxThread::Open() {
  wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake_.ok()) return absl::OkStatus();
  return ErrnoStatus(errno, fmt::format("eventfd of the {} thread", name_), "raise the limit of open files (LimitNOFILE)");
}

void MailboxThread::Start(std::function<void()> wait, std::function<void()> look) {
  const std::lock_guard lock(mutex_);
  state_ = State::kRunning;
  thread_ = std::thread([this, wait = std::move(wait), look = std::move(look)] { Loop(wait, look); });
  pthread_setname_np(thread_.native_handle(), name_);
}

void MailboxThread::Stop(std::function<void()> last) {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    state_ = State::kStopping;
    posted_.push_back(std::move(last));
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

absl::Status MailboxThread::Call(std::function<absl::Status()> work) {
  std::promise<absl::Status> answer;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::kNew) {
      return absl::FailedPreconditionError(fmt::format("the {} collector was not started; start it first", name_));
    }
    if (state_ == State::kStopping) return absl::UnavailableError(fmt::format("the {} collector is stopping", name_));
    posted_.push_back([&] { answer.set_value(work()); });
  }
  eventfd_write(wake_.get(), 1);
  return answer.get_future().get();
}

void MailboxThread::Post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }
  eventfd_write(wake_.get(), 1);
}

std::vector<std::function<void()>> MailboxThread::TakePosted() {
  const std::lock_guard lock(mutex_);
  return std::exchange(posted_, {});
}

bool MailboxThread::IsOver() {
  const std::lock_guard lock(mutex_);
  return state_ == State::kStopping && posted_.empty();
}

void MailboxThread::Loop(const std::function<void()>& wait, const std::function<void()>& look) {
  do {
    wait();
    eventfd_t ignored;
    eventfd_read(wake_.get(), &ignored);
    for (const auto& work : TakePosted()) work();
    look();
  } while (!IsOver());
}

}  // namespace stepscope
