// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/lustre.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/proc_stat.h"
#include "base/time.h"
#include "daemon/collector/host/sysfs_values.h"
#include "daemon/collector/host/text_columns.h"

namespace stepscope {
namespace {

constexpr size_t kMostClients = 32;
constexpr const char* kPlaces[] = {"/sys/kernel/debug/lustre/llite", "/proc/fs/lustre/llite"};

void AddLine(std::string_view instance, std::string_view line, MetricSink* sink) {
  const auto name = MetricWord(TakeWord(line));
  const auto calls = ParseCount(TakeWord(line));
  if (!name || !calls || TakeWord(line) != "samples") return;  // snapshot_time and the like
  const std::string_view unit = TakeWord(line);
  sink->Add({.name = fmt::format("lustre.{}_calls_total", *name), .instance = instance, .value = static_cast<double>(*calls)});
  TakeWord(line);  // least
  TakeWord(line);  // most
  const auto sum = ParseCount(TakeWord(line));
  if (!sum) return;
  if (unit == "[bytes]") {
    sink->Add({.name = fmt::format("lustre.{}_total", *name), .instance = instance, .value = static_cast<double>(*sum)});
  } else if (unit == "[usec]" || unit == "[usecs]") {
    const double ns = static_cast<double>(*sum) * 1000;
    sink->Add({.name = fmt::format("lustre.{}_ns_total", *name), .instance = instance, .value = ns});
  }
}

/// A directory that is there but may not be read, as "PATH: why"; empty when none is.
std::string LockedPlace(const std::string& root) {
  for (const char* place : {"/sys/kernel/debug", "/sys/kernel/debug/lustre/llite", "/proc/fs/lustre/llite"}) {
    const std::string path = root + place;
    if (access(path.c_str(), R_OK | X_OK) != 0 && (errno == EACCES || errno == EPERM)) {
      return fmt::format("{}: {}", path, strerror(errno));
    }
  }
  return "";
}

}  // namespace

Lustre::Lustre(Options options) : options_(std::move(options)) { SetState("idle"); }

void Lustre::SetState(const char* when_there) {
  size_t clients = 0;
  for (const char* place : kPlaces) clients += ListNames(options_.root + place, kMostClients).size();
  if (clients > 0) return state_.Set({"lustre", "full", when_there, "", "", {{"clients", std::to_string(clients)}}});
  const std::string locked = LockedPlace(options_.root);
  if (locked.empty()) {
    return state_.Set({"lustre",
                       "none",
                       "absent",
                       "no Lustre client is mounted",
                       "nothing if this node uses none; else mount debugfs at /sys/kernel/debug where the daemon runs",
                       {}});
  }
  state_.Set({"lustre",
              "none",
              "unavailable",
              locked,
              "only if this node uses Lustre: run the daemon with CAP_DAC_READ_SEARCH; a kernel in lockdown refuses for all",
              {}});
}

void Lustre::Sample(std::span<const ProcessKey>, MetricSink* sink) {
  for (const char* place : kPlaces) {
    for (const std::string& client : ListNames(options_.root + place, kMostClients)) {
      const std::string text = ReadProcFile(fmt::format("{}{}/{}/stats", options_.root, place, client));
      std::string_view rest = text;
      while (auto line = TakeLine(rest)) AddLine(client, *line, sink);
    }
  }
  SetState("on");
}

}  // namespace stepscope
