// SPDX-License-Identifier: Apache-2.0
// The kernel refuses in the middle: after so many calls of bpf() every further one fails, as under a seccomp profile or a
// security module. Whatever the number, the collector says which step failed and leaves nothing open or loaded.
#include <bpf/bpf.h>
#include <dirent.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <climits>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <thread>

#include "base/unique_fd.h"
#include "sched_live.h"

namespace stepscope {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// Counts one system call of this process and answers EPERM to those beyond what is allowed. For a process of its own.
class CallGate {
 public:
  explicit CallGate(uint32_t number) {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{std::size(code), code};
    // Made before the filter, the supervisor is not under it. What a sanitizer opens for a new thread is closed when it runs.
    supervisor_ = std::thread([this] { Supervise(); });
    is_running_.wait(false);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    listener_ = static_cast<int>(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program));
    if (listener_ < 0) listener_ = -errno;
    listener_.notify_one();
    supervisor_.detach();
  }
  bool works() const { return listener_ >= 0; }
  /// `more` calls from now on.
  void Allow(int more) { allowed_ = more == INT_MAX ? INT_MAX : seen_ + more; }
  int seen() const { return seen_; }

 private:
  static constexpr int kNone = INT_MIN;

  void Supervise() {
    is_running_ = true;
    is_running_.notify_one();
    listener_.wait(kNone);
    for (;;) {
      seccomp_notif call{};
      if (ioctl(listener_, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
        if (errno == EINTR || errno == ENOENT) continue;
        return;
      }
      seccomp_notif_resp answer{};
      answer.id = call.id;
      if (++seen_ <= allowed_) {
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
      } else {
        answer.error = -EPERM;
      }
      ioctl(listener_, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
  }

  std::atomic<int> listener_{kNone};
  std::atomic<int> allowed_{INT_MAX}, seen_{0};
  std::atomic<bool> is_running_{false};
  std::thread supervisor_;
};

int OpenDescriptors() {
  int count = 0;
  std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir("/proc/self/fd"), &closedir);
  while (readdir(directory.get()) != nullptr) ++count;
  return count;
}

using Tell = std::function<void(const std::string&)>;

/// What `work` tells in a child of this process. `while_there` runs while the child stands in that call.
std::string InChild(const std::function<void(const Tell&)>& work, const std::function<void()>& while_there = [] {}) {
  int out[2], over[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(over, O_CLOEXEC) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    close(over[1]);
    close(out[0]);
    alarm(60);  // a call that never comes back ends the child, and with it the answer
    work([&](const std::string& text) {
      if (write(out[1], text.data(), text.size()) < 0) _exit(1);
      close(out[1]);
      char byte;
      _exit(static_cast<int>(read(over[0], &byte, 1)));
    });
    _exit(1);
  }
  close(out[1]);
  close(over[0]);
  std::string text;
  char chunk[4096];
  for (ssize_t got; (got = read(out[0], chunk, sizeof(chunk))) > 0;) text.append(chunk, static_cast<size_t>(got));
  while_there();
  close(over[1]);
  close(out[0]);
  waitpid(child, nullptr, 0);
  return text;
}

struct Loaded {
  std::set<std::string> ids;  ///< "program 17 sched_switch"
  std::set<std::string> names;
};

/// BPF programs and maps of the whole machine.
Loaded LoadedNow() {
  Loaded loaded;
  const auto add = [&](const char* kind, uint32_t id, const char* name) {
    loaded.ids.insert(fmt::format("{} {} {}", kind, id, name));
    loaded.names.insert(fmt::format("{} {}", kind, name));
  };
  for (uint32_t id = 0; bpf_prog_get_next_id(id, &id) == 0;) {
    const unique_fd fd(bpf_prog_get_fd_by_id(id));
    bpf_prog_info info{};
    uint32_t size = sizeof(info);
    if (fd.ok() && bpf_obj_get_info_by_fd(fd.get(), &info, &size) == 0) add("program", id, info.name);
  }
  for (uint32_t id = 0; bpf_map_get_next_id(id, &id) == 0;) {
    const unique_fd fd(bpf_map_get_fd_by_id(id));
    bpf_map_info info{};
    uint32_t size = sizeof(info);
    if (fd.ok() && bpf_obj_get_info_by_fd(fd.get(), &info, &size) == 0) add("map", id, info.name);
  }
  return loaded;
}

std::string Described(const CollectorState& state) { return fmt::format("{}; {}", state.reason, state.next_step); }

class SchedRefused : public testing::Test {
 protected:
  void SetUp() override {
    const Loaded before = LoadedNow();
    const std::string full = InChild([](const Tell& tell) { StartAllowed(INT_MAX, tell); }, [&] { ours_ = LoadedNow().names; });
    if (!full.ends_with("started")) GTEST_SKIP() << "needs CAP_BPF, CAP_PERFMON and seccomp: " << full;
    for (const std::string& name : before.names) ours_.erase(name);
    calls_ = std::atoi(full.c_str());
    AwaitNothingOfOurs(before);
  }

  /// Tells "CALLS calls: started", with the programs loaded, or "CALLS calls: REASON; NEXT STEP | what is left".
  static void StartAllowed(int calls, const Tell& tell) {
    CallGate gate(SYS_bpf);
    if (!gate.works()) return tell("no seccomp listener");
    gate.Allow(calls);
    const int before = OpenDescriptors();
    SystemClock clock;
    KeptRows rows;
    std::optional<SchedCollector> collector;
    collector.emplace(SchedOptions{}, &rows, nullptr, &clock);
    const absl::Status status = collector->Start();
    if (status.ok()) return tell(fmt::format("{} calls: started", gate.seen()));
    const std::string said = Described(collector->State());
    const absl::Status tracked = collector->Track(Pid{getppid()}, kRun);
    collector.reset();
    tell(fmt::format("{} calls: {} | track: {} | {} left open", gate.seen(), said, tracked.ok() ? "ok" : "refused",
                     OpenDescriptors() - before));
  }
  /// Programs and maps of ours that were not there before go away in their own time.
  void AwaitNothingOfOurs(const Loaded& before) const {
    std::vector<std::string> left;
    for (int tries = 0; tries < 1000; ++tries) {
      left.clear();
      for (const std::string& object : LoadedNow().ids) {
        const size_t id = object.find(' ');
        const std::string name = object.substr(0, id) + object.substr(object.find(' ', id + 1));
        if (!before.ids.contains(object) && ours_.contains(name)) left.push_back(object);
      }
      if (left.empty()) return;
      usleep(10'000);
    }
    ADD_FAILURE() << "still loaded: " << testing::PrintToString(left);
  }

  int calls_ = 0;  ///< of bpf() that a full start takes
  std::set<std::string> ours_;
};

TEST_F(SchedRefused, AfterAnyNumberOfCallsTheStartNamesTheStepAndLeavesNothingBehind) {
  ASSERT_GT(calls_, 20);
  const int step = IsFull() ? 1 : 5;  // a start takes more than a second under a sanitizer
  for (int allowed = (calls_ - 1) % step; allowed < calls_; allowed += step) {
    const Loaded before = LoadedNow();
    const std::string said = InChild([&](const Tell& tell) { StartAllowed(allowed, tell); }, [&] { AwaitNothingOfOurs(before); });
    SCOPED_TRACE(testing::Message() << allowed << " of " << calls_ << " calls allowed: " << said);
    EXPECT_THAT(said, AnyOf(HasSubstr("scheduling"), HasSubstr("calls: clearing the ")));
    EXPECT_THAT(said, HasSubstr("EPERM: Operation not permitted; give the daemon CAP_BPF and CAP_PERFMON"));
    EXPECT_THAT(said, HasSubstr("| track: refused | 0 left open"));
  }
}

// The daemon may lose a right between its start and its first job.
TEST_F(SchedRefused, ATrackThatIsRefusedHalfWaySaysSoAndTheNextOneWorks) {
  const std::string said = InChild([](const Tell& tell) {
    RecordedProcess process;
    CallGate gate(SYS_bpf);
    SystemClock clock;
    KeptRows rows;
    SchedCollector collector({}, &rows, nullptr, &clock);
    if (!collector.Start().ok()) return tell("not started");
    int refused = 0;
    for (absl::Status tracked = absl::UnknownError(""); !tracked.ok() && refused < 1000;) {
      const int before = OpenDescriptors();
      gate.Allow(refused);
      tracked = collector.Track(Pid{process.pid()}, kRun);
      if (tracked.ok()) break;
      ++refused;
      const bool names_step = tracked.message().find("EPERM") != std::string_view::npos;
      if (!names_step || collector.State().state != "idle" || OpenDescriptors() != before)
        return tell(fmt::format("{} allowed: {}; state {}, {} left open", refused - 1, std::string(tracked.message()),
                                collector.State().state, OpenDescriptors() - before));
    }
    gate.Allow(INT_MAX);
    process.Exec();
    process.Do("run 100");
    const bool is_flushed = collector.Flush().ok();
    tell(fmt::format("{} refused, then {} processes, rows: {}", refused, is_flushed ? collector.Counters().processes : 0,
                     rows.SliceCount() > 200 ? "yes" : "no"));
  });
  EXPECT_THAT(said, EndsWith("1 processes, rows: yes"));
  EXPECT_GT(std::atoi(said.c_str()), 10) << "every call of an attachment was refused once: " << said;
}

TEST_F(SchedRefused, WithoutAnEventDescriptorTheStartFailsAndATrackIsAnswered) {
  const std::string said = InChild([](const Tell& tell) {
    CallGate gate(SYS_eventfd2);
    gate.Allow(0);
    const int before = OpenDescriptors();
    SystemClock clock;
    KeptRows rows;
    std::optional<SchedCollector> collector;
    collector.emplace(SchedOptions{}, &rows, nullptr, &clock);
    const absl::Status started = collector->Start();
    const absl::Status tracked = collector->Track(Pid{getppid()}, kRun);
    collector.reset();
    tell(fmt::format("{} | {} | {} left open", std::string(started.message()), std::string(tracked.message()),
                     OpenDescriptors() - before));
  });
  EXPECT_THAT(said, AllOf(StartsWith("eventfd of the sched thread: EPERM"), HasSubstr("| scheduling records are not available: "),
                          EndsWith("| 0 left open")));
}

}  // namespace
}  // namespace stepscope
