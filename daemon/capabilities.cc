// SPDX-License-Identifier: Apache-2.0
#include "daemon/capabilities.h"

#include <dirent.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "base/status.h"

namespace stepscope {
namespace {

constexpr std::chrono::seconds kAnswerTime{2};

// What one thread does when it is asked to, in a signal handler: state it may touch is static, and there is one drop at a time.
struct Order {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  std::atomic<int> answered{0};
  std::atomic<int> error{0};
};
Order g_order;

void Obey(int) {
  const int saved = errno;
  // The kernel writes to the header when it dislikes the version, so each thread has its own.
  __user_cap_header_struct header = g_order.header;
  if (syscall(SYS_capset, &header, g_order.data) != 0) g_order.error = errno;
  g_order.answered.fetch_add(1);
  errno = saved;
}

std::vector<pid_t> OtherThreads() {
  std::vector<pid_t> threads;
  std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/task"), &closedir);
  const pid_t self = gettid();
  while (const dirent* entry = directory != nullptr ? readdir(directory.get()) : nullptr) {
    const std::string_view name(entry->d_name);
    pid_t tid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), tid).ec == std::errc() && tid != self) threads.push_back(tid);
  }
  return threads;
}

void GiveOrder(const CapabilitySet& keep) {
  for (auto& half : g_order.data) half = {};
  for (const std::string& name : keep) {
    cap_value_t value = 0;
    if (cap_from_name(name.c_str(), &value) != 0) continue;
    g_order.data[value / 32].permitted |= 1u << (value % 32);
    g_order.data[value / 32].effective |= 1u << (value % 32);
  }
  g_order.error = 0;
}

bool WaitForAnswers(int wanted) {
  const auto deadline = std::chrono::steady_clock::now() + kAnswerTime;
  while (g_order.answered < wanted) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// A thread that has obeyed makes threads without the rights, so what a pass finds new was made by one that had not: passes end.
absl::Status OrderOthers(int signal_number) {
  std::set<pid_t> asked;
  for (bool found = true; found;) {
    found = false;
    g_order.answered = 0;
    int waiting_for = 0;
    for (const pid_t tid : OtherThreads()) {
      if (!asked.insert(tid).second) continue;
      found = true;
      if (tgkill(getpid(), tid, signal_number) == 0) ++waiting_for;
    }
    if (!WaitForAnswers(waiting_for)) {
      return absl::DeadlineExceededError(fmt::format("dropping capabilities: {} of {} threads did not answer; restart the daemon",
                                                     waiting_for - g_order.answered.load(), waiting_for));
    }
  }
  return absl::OkStatus();
}

}  // namespace

CapabilitySet ToKeep(const CapabilityNeeds& needs, const CapabilitySet& held) {
  const bool is_root = needs.uid == 0;
  if (is_root && !held.contains("cap_sys_ptrace")) return held;
  CapabilitySet wanted;
  if (needs.kernel_programs) wanted.insert({"cap_bpf", "cap_perfmon"});
  if (needs.perf_of_others) wanted.insert("cap_perfmon");
  // Processes of root keep the capabilities the daemon gives up; looking into them is a right of its own then.
  if (needs.other_users || is_root) wanted.insert({"cap_sys_ptrace", "cap_dac_read_search"});
  if (needs.foreign_folders) wanted.insert("cap_dac_override");
  CapabilitySet keep;
  for (const std::string& name : wanted) {
    if (held.contains(name)) keep.insert(name);
  }
  return keep;
}

absl::StatusOr<CapabilitySet> EffectiveCapabilities() {
  const std::unique_ptr<_cap_struct, int (*)(void*)> all(cap_get_proc(), &cap_free);
  if (all == nullptr) return ErrnoStatus(errno, "cap_get_proc");
  CapabilitySet set;
  for (cap_value_t value = 0; value < cap_max_bits(); ++value) {
    cap_flag_value_t is_set = CAP_CLEAR;
    if (cap_get_flag(all.get(), value, CAP_EFFECTIVE, &is_set) != 0 || is_set != CAP_SET) continue;
    const std::unique_ptr<char, int (*)(void*)> name(cap_to_name(value), &cap_free);
    if (name != nullptr) set.insert(name.get());
  }
  return set;
}

absl::Status DropTo(const CapabilitySet& keep) {
  GiveOrder(keep);
  // Any real-time signal but the first, which debuggers like; nobody in this process uses them.
  const int signal_number = SIGRTMIN + 5;
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = &Obey;
  action.sa_flags = SA_RESTART;
  if (sigaction(signal_number, &action, &before) != 0) return ErrnoStatus(errno, "sigaction for dropping capabilities");
  Obey(0);
  absl::Status others = OrderOthers(signal_number);
  // A thread that answers late must still meet the handler: the signal's default is to end the process.
  if (others.ok()) sigaction(signal_number, &before, nullptr);
  if (const int error = g_order.error) return ErrnoStatus(error, "capset of a thread");
  return others;
}

std::string CapabilityText(const CapabilitySet& set) { return set.empty() ? "none" : fmt::format("{}", fmt::join(set, ", ")); }

}  // namespace stepscope
