// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/job_facts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/proc_stat.h"
#include "base/valid_utf8.h"
#include "daemon/collector/host/sysfs_values.h"

namespace stepscope {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostFileBytes = 1 << 20;  // the platform allows 100 hyperparameters of 2500 characters
constexpr size_t kMostValueBytes = 1024;
constexpr size_t kMostNameBytes = 128;
constexpr size_t kMostEntries = 200;
constexpr int kDeepest = 16;

constexpr std::string_view kSecretWords[] = {"token",  "secret",     "password", "passwd",      "credential",
                                             "apikey", "access_key", "api_key",  "private_key", "accesskey"};
// What board makers leave in DMI fields that nobody filled.
constexpr std::string_view kNothing[] = {"", "None", "Not Specified", "Default string", "To be filled by O.E.M."};

bool IsSecret(std::string_view name) {
  std::string lower(name);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
  return std::ranges::any_of(kSecretWords, [&lower](std::string_view word) { return lower.find(word) != std::string::npos; });
}

std::string Cut(std::string_view text) {
  if (text.size() <= kMostValueBytes) return ValidUtf8(text);
  return ValidUtf8(text.substr(0, kMostValueBytes)) + "…";
}

std::string TextOf(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// The platform's SDK writes a string as JSON inside the JSON: "\"adam\"" is adam.
std::string UnquotedText(const Json& value) {
  std::string text = TextOf(value);
  if (!text.starts_with('"')) return text;
  const Json inner = Json::parse(text, nullptr, false);
  return inner.is_string() ? inner.get<std::string>() : text;
}

/// nullopt: the file is not there, or a problem that is noted.
std::optional<Json> ReadJson(const std::string& path, std::vector<std::string>* problems) {
  if (access(path.c_str(), F_OK) != 0) return std::nullopt;
  const std::string text = ReadProcFile(path, kMostFileBytes + 1);
  if (text.empty()) {
    problems->push_back(fmt::format("{} is empty or cannot be read", path));
    return std::nullopt;
  }
  if (text.size() > kMostFileBytes) {
    problems->push_back(fmt::format("{} is larger than {} bytes", path, kMostFileBytes));
    return std::nullopt;
  }
  const auto is_shallow = [](int depth, Json::parse_event_t, Json&) { return depth <= kDeepest; };
  Json json = Json::parse(text, is_shallow, false);
  if (json.is_object()) return json;
  problems->push_back(fmt::format("{} is not a JSON object", path));
  return std::nullopt;
}

void AddText(const Json& json, const char* from, const std::string& key, JobFacts* result) {
  const auto found = json.find(from);
  if (found != json.end() && found->is_string()) result->facts[key] = Cut(found->get<std::string>());
}

void AddHyperparameters(const Json& json, const std::string& path, JobFacts* result) {
  size_t left = kMostEntries;
  for (const auto& [name, value] : json.items()) {
    if (left-- == 0) {
      result->problems.push_back(fmt::format("{} has {} entries; {} are kept", path, json.size(), kMostEntries));
      return;
    }
    if (name.size() > kMostNameBytes) continue;
    result->facts["hyperparameter." + name] = IsSecret(name) ? "hidden" : Cut(UnquotedText(value));
  }
}

void AddResources(const Json& json, JobFacts* result) {
  AddText(json, "current_instance_type", "instance.type", result);
  AddText(json, "current_host", "sagemaker.current_host", result);
  AddText(json, "current_group_name", "sagemaker.instance_group", result);
  AddText(json, "network_interface_name", "sagemaker.network_interface", result);
  const auto hosts = json.find("hosts");
  if (hosts == json.end() || !hosts->is_array()) return;
  std::string list;
  for (const Json& host : *hosts) {
    if (host.is_string()) list += (list.empty() ? "" : ", ") + host.get<std::string>();
  }
  result->facts["sagemaker.hosts"] = Cut(list);
}

void AddChannels(const Json& json, JobFacts* result) {
  size_t left = kMostEntries;
  for (const auto& [name, channel] : json.items()) {
    if (left-- == 0) return;
    if (name.size() > kMostNameBytes || !channel.is_object()) continue;
    std::string text;
    for (const char* field : {"TrainingInputMode", "S3DistributionType", "ContentType"}) {
      const auto found = channel.find(field);
      if (found != channel.end() && found->is_string()) text += (text.empty() ? "" : ", ") + found->get<std::string>();
    }
    result->facts["sagemaker.channel." + name] = Cut(text);
  }
}

}  // namespace

JobFacts ReadInstanceFacts(const std::string& root) {
  JobFacts result;
  const std::string dmi = root + "/sys/class/dmi/id/";
  const auto add = [&](const std::string& value, const char* key) {
    if (std::ranges::find(kNothing, value) == std::end(kNothing)) result.facts[key] = Cut(value);
  };
  const std::string vendor = ReadLine(dmi + "sys_vendor");
  add(vendor, "instance.vendor");
  add(ReadLine(dmi + "product_name"), "instance.type");
  if (vendor == "Amazon EC2") add(ReadLine(dmi + "board_asset_tag"), "instance.id");
  return result;
}

JobFacts ReadTrainingFacts(const std::string& root) {
  JobFacts result;
  const std::string folder = root + "/opt/ml/input/config/";
  const std::string hyperparameters = folder + "hyperparameters.json";
  if (const auto json = ReadJson(hyperparameters, &result.problems)) AddHyperparameters(*json, hyperparameters, &result);
  if (const auto json = ReadJson(folder + "resourceconfig.json", &result.problems)) AddResources(*json, &result);
  if (const auto json = ReadJson(folder + "inputdataconfig.json", &result.problems)) AddChannels(*json, &result);
  return result;
}

bool SharesFiles(ProcessKey process, const std::string& proc) {
  std::error_code error;
  const auto own = std::filesystem::read_symlink(proc + "/self/ns/mnt", error);
  if (error) return false;
  const auto others = std::filesystem::read_symlink(fmt::format("{}/{}/ns/mnt", proc, process.pid.value), error);
  return !error && own == others;
}

}  // namespace stepscope
