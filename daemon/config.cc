// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string_view>
#include <variant>

#include "base/status.h"

// toml++ 3.3 asserts what it takes for granted of its input, also where the file says otherwise, and goes on into undefined
// behaviour where assertions are off: a broken one is an error of the file instead, in every build.
namespace {
constexpr void ExpectOfToml(bool holds) {
  if (!holds) throw std::runtime_error("this is no TOML");
}
}  // namespace
#ifdef NDEBUG
#define STEPSCOPE_HAD_NDEBUG
#undef NDEBUG
#endif
#define TOML_ASSERT(expr) ExpectOfToml(static_cast<bool>(expr))
#include <toml++/toml.h>
#ifdef STEPSCOPE_HAD_NDEBUG
#define NDEBUG
#endif

namespace stepscope {
namespace {

constexpr char kDefaultPath[] = "/etc/stepscope/stepscoped.toml";

using Member = std::variant<std::string Config::*, int64_t Config::*, bool Config::*>;

struct Key {
  std::string_view section;
  std::string_view key;
  Member member;
  std::string_view doc;
  std::span<const int64_t> one_of = {};        ///< of a whole number: the values there are; empty = any
  std::vector<std::string_view> choices = {};  ///< of a string; empty = any
  int64_t least = 0;                           ///< of a whole number
  bool reloads = false;                        ///< a running daemon takes a new value
};

// Periods of samplers: what people know from SageMaker's system monitor.
constexpr int64_t kPeriodsMs[] = {100, 200, 500, 1000, 5000, 60000};

const Key kKeys[] = {
    {"server", "grpc_address", &Config::server_grpc_address,
     "host:port of gRPC (QueryService, ControlService, reflection, health). Loopback only; the next free port is taken if it is "
     "in use. Port 0 = any."},
    {"server", "http_address", &Config::server_http_address, "host:port of /healthz and /metrics. Loopback only."},
    {"server", "control_socket", &Config::server_control_socket, "Unix socket with the same services, mode 0600. Empty = none."},
    {"agent", "socket", &Config::agent_socket, "Unix socket on which agents say hello, mode 0666: credentials decide."},
    {"store", "path", &Config::store_path, "Directory of the RocksDB store and daemon.json."},
    {"store", "min_free_bytes", &Config::store_min_free_bytes,
     "Free bytes of its file system below which nothing is written and sources are held back. 0 = 1 GB or 2 %, whichever is "
     "more, "
     "and never more than a quarter of it."},
    {"retain",
     "max_bytes",
     &Config::retain_max_bytes,
     "Bytes of disk the store may use, at least 64 MiB. Beyond them raw rows are evicted, oldest first, and counted as not kept.",
     {},
     {},
     64 << 20},
    {"retain", "raw_minutes", &Config::retain_raw_minutes,
     "Minutes of which all rows are kept, unless these alone need more than max_bytes."},
    {"retain", "evidence_seconds", &Config::retain_evidence_seconds,
     "Seconds around each finding of which older rows are kept too; so are those of steps that took unusually long."},
    {"retain",
     "normal_step_every",
     &Config::retain_normal_step_every,
     "One ordinary step in so many whose older rows are kept too.",
     {},
     {},
     1},
    {"sched",
     "mode",
     &Config::sched_mode,
     "CPU scheduling of jobs, from the kernel: slices (every turn of every thread), histogram (counts by length only) or off.",
     {},
     {"slices", "histogram", "off"}},
    {"sched", "ring_bytes", &Config::sched_ring_bytes, "Bytes of the kernel ring buffer; a power of two, at least one page."},
    {"sched", "poll_ms", &Config::sched_poll_ms,
     "Milliseconds between two drains of it while a job runs and somebody watches (10 to 50), 250 otherwise."},
    {"counters", "enabled", &Config::counters_enabled, "Count CPU events on every CPU through perf_event_open while a job runs."},
    {"counters", "period_ms", &Config::counters_period_ms,
     "Milliseconds between two readings: 100, 200, 500, 1000, 5000 or 60000.", kPeriodsMs},
    {"counters", "events", &Config::counters_events,
     "Events by their libpfm4 names, separated by commas; a|b|c is the first of them that this machine has."},
    {"host", "enabled", &Config::host_enabled, "Collect CPU times, throttling and pressure of the node while a job runs."},
    {"host", "period_ms", &Config::host_period_ms, "Milliseconds between two readings: 100, 200, 500, 1000, 5000 or 60000.",
     kPeriodsMs},
    {"upload", "url", &Config::upload_url, "s3://bucket/prefix or file:///directory to upload Parquet to. Empty = no upload."},
    {"upload", "endpoint", &Config::upload_endpoint, "S3 endpoint URL for stores other than AWS. Empty = AWS."},
    {"upload", "region", &Config::upload_region, "S3 region. Empty = the AWS default chain decides."},
    {"upload", "sse_c_key_file", &Config::upload_sse_c_key_file,
     "File with a 32 byte SSE-C key. Empty = the bucket's default encryption."},
    {"upload", "part_bytes", &Config::upload_part_bytes, "Bytes of stored blocks after which a part is closed and uploaded."},
    {"upload", "part_seconds", &Config::upload_part_seconds,
     "Seconds after its first row at which a part is closed and uploaded."},
    {"upload", "jitter_ms", &Config::upload_jitter_ms, "Milliseconds within which a part starts at a random moment."},
    {"log", "level", &Config::log_level, "debug, info, warn or error.", {}, {"debug", "info", "warn", "error"}, 0, true},
};

std::string FullName(const Key& key) { return fmt::format("{}.{}", key.section, key.key); }

const Key* FindKey(std::string_view name) {
  const auto it = std::ranges::find_if(kKeys, [&](const Key& key) { return FullName(key) == name; });
  return it == std::end(kKeys) ? nullptr : it;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

absl::Status UnknownKey(std::string_view name, std::string_view where) {
  const Key* nearest = std::ranges::min_element(kKeys, {}, [&](const Key& key) { return EditDistance(name, FullName(key)); });
  return absl::InvalidArgumentError(
      fmt::format("{}: unknown key \"{}\"; did you mean \"{}\"? `stepscoped --print-config` lists all keys", where, name,
                  FullName(*nearest)));
}

absl::Status WrongValue(const Key& key, std::string_view text, std::string_view where, std::string_view wanted) {
  return absl::InvalidArgumentError(fmt::format("{}: {} = \"{}\" is not {}; {}", where, FullName(key), text, wanted, key.doc));
}

absl::Status SetFromText(Config& config, const Key& key, std::string_view text, std::string_view where) {
  if (const auto* member = std::get_if<std::string Config::*>(&key.member)) {
    if (!key.choices.empty() && std::ranges::find(key.choices, text) == key.choices.end())
      return WrongValue(key, text, where, fmt::format("one of {}", fmt::join(key.choices, ", ")));
    config.** member = text;
    return absl::OkStatus();
  }
  if (const auto* member = std::get_if<bool Config::*>(&key.member)) {
    if (text != "true" && text != "false") return WrongValue(key, text, where, "true or false");
    config.** member = text == "true";
    return absl::OkStatus();
  }
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) {
    return WrongValue(key, text, where, "a whole number >= 0");
  }
  if (value < key.least) return WrongValue(key, text, where, fmt::format("a whole number >= {}", key.least));
  if (!key.one_of.empty() && std::ranges::find(key.one_of, value) == key.one_of.end()) {
    return WrongValue(key, text, where, "one of the values it takes");
  }
  config.*std::get<int64_t Config::*>(key.member) = value;
  return absl::OkStatus();
}

absl::Status SetFromToml(Config& config, const Key& key, const toml::node& node, std::string_view where) {
  const auto text = node.value_exact<std::string>();
  const bool wants_text = std::holds_alternative<std::string Config::*>(key.member);
  if (text.has_value() != wants_text)
    return WrongValue(key, text.value_or("…"), where, wants_text ? "a string" : "of the right type");
  if (text) return SetFromText(config, key, *text, where);
  if (const auto flag = node.value_exact<bool>()) return SetFromText(config, key, *flag ? "true" : "false", where);
  if (const auto number = node.value_exact<int64_t>()) return SetFromText(config, key, std::to_string(*number), where);
  return WrongValue(key, "…", where, "of the right type");
}

/// Whether `line` has bytes beyond ASCII outside of quotes and comments: toml++ asserts that only some of them are there. A quote
/// in the middle of a word begins nothing.
bool HasOddKey(std::string_view line) {
  constexpr std::string_view kBeforeQuote = "=[{,.";
  char quote = '\0', before = '=';
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == '\0' && c == '#') return false;
    if (quote == '\0' && static_cast<unsigned char>(c) > 0x7f) return true;
    if (quote == '"' && c == '\\') ++i;
    if (quote == '\0' && (c == '"' || c == '\'') && kBeforeQuote.find(before) != std::string_view::npos) {
      quote = c;
    } else if (quote == c) {
      quote = '\0';
    }
    if (c != ' ' && c != '\t') before = c;
  }
  return false;
}

/// toml++ takes for granted that a name follows the bracket of a table header, whatever is there.
absl::Status CheckLines(std::string_view text, std::string_view path) {
  constexpr std::string_view kBlanks = " \t";
  for (int number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(kBlanks), line.size()));
    if (HasOddKey(line)) {
      return absl::InvalidArgumentError(fmt::format("{}:{}: a character that is not ASCII; quote the value", path, number));
    }
    if (!line.starts_with('[')) continue;
    line.remove_prefix(std::min(line.find_first_not_of("[ \t"), line.size()));
    const auto first = static_cast<unsigned char>(line.empty() ? '\0' : line[0]);
    if (std::isalnum(first) || first == '_' || first == '-' || first == '"' || first == '\'') continue;
    return absl::InvalidArgumentError(fmt::format("{}:{}: a table without a name; write it as [section]", path, number));
  }
  return absl::OkStatus();
}

absl::Status ReadFile(Config& config, const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in.is_open() || std::filesystem::is_directory(path)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: it cannot be read; make it readable or remove it to run with defaults", path));
  }
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  STEPSCOPE_RETURN_IF_ERROR(CheckLines(text, path));
  toml::table file;
  try {
    file = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(fmt::format("{}:{}: {}; fix the line or remove the file to run with defaults", path,
                                                  error.source().begin.line, std::string(error.description())));
  } catch (const std::runtime_error& error) {
    return absl::InvalidArgumentError(fmt::format("{}: {}; fix it or remove the file to run with defaults", path, error.what()));
  }
  for (const auto& [section, node] : file) {
    const toml::table* table = node.as_table();
    if (table == nullptr) return UnknownKey(section.str(), path);
    for (const auto& [name, value] : *table) {
      const std::string full = fmt::format("{}.{}", section.str(), name.str());
      const Key* key = FindKey(full);
      if (key == nullptr) return UnknownKey(full, path);
      STEPSCOPE_RETURN_IF_ERROR(SetFromToml(config, *key, value, path));
    }
  }
  return absl::OkStatus();
}

std::string EnvName(const Key& key) {
  std::string name = fmt::format("STEPSCOPED_{}_{}", key.section, key.key);
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return name;
}

std::string DefaultText(const Key& key) {
  const Config defaults;
  if (const auto* text = std::get_if<std::string Config::*>(&key.member)) return fmt::format("\"{}\"", defaults.**text);
  if (const auto* flag = std::get_if<bool Config::*>(&key.member)) return defaults.**flag ? "true" : "false";
  return std::to_string(defaults.*std::get<int64_t Config::*>(key.member));
}

}  // namespace

absl::StatusOr<Config> LoadConfig(const std::string& path, const GetEnv& get_env, const std::vector<std::string>& overrides) {
  Config config;
  if (!path.empty() && !std::filesystem::exists(path)) {
    return absl::NotFoundError(fmt::format("{}: no such file; `stepscoped --print-config` prints one to start from", path));
  }
  const std::string file = path.empty() ? kDefaultPath : path;
  if (std::filesystem::exists(file)) STEPSCOPE_RETURN_IF_ERROR(ReadFile(config, file));
  for (const Key& key : kKeys) {
    const std::string name = EnvName(key);
    if (const char* value = get_env(name.c_str())) STEPSCOPE_RETURN_IF_ERROR(SetFromText(config, key, value, name));
  }
  for (const std::string& text : overrides) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      return absl::InvalidArgumentError(fmt::format("--set {}: write it as section.key=value", text));
    }
    const Key* key = FindKey(std::string_view(text).substr(0, equals));
    if (key == nullptr) return UnknownKey(text.substr(0, equals), "--set");
    STEPSCOPE_RETURN_IF_ERROR(SetFromText(config, *key, std::string_view(text).substr(equals + 1), "--set"));
  }
  return config;
}

std::vector<ConfigChange> ChangesBetween(const Config& before, const Config& after) {
  std::vector<ConfigChange> changes;
  for (const Key& key : kKeys) {
    const bool same = std::visit([&](auto member) { return before.*member == after.*member; }, key.member);
    if (!same) changes.push_back({FullName(key), key.reloads});
  }
  return changes;
}

std::string ConfigReference() {
  std::string text =
      "# SPDX-License-Identifier: Apache-2.0\n"
      "# Every key of stepscoped with its default. Printed by `stepscoped --print-config`; each key can also be set by the\n"
      "# environment (STEPSCOPED_<SECTION>_<KEY>) or a flag (--set section.key=value).\n";
  std::string_view section;
  for (const Key& key : kKeys) {
    if (key.section != section) text += fmt::format("\n[{}]\n", key.section);
    section = key.section;
    text += fmt::format("# {}\n{} = {}\n", key.doc, key.key, DefaultText(key));
  }
  return text;
}

}  // namespace stepscope
