// SPDX-License-Identifier: Apache-2.0
// lib/stepscope_sweep.so: ListMultipartUploads and AbortMultipartUpload of one key, signed by curl.
#include <curl/curl.h>
#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "storage/parquet/dataset_module.h"

namespace stepscope {
namespace {

constexpr const char* kEmptyBodyHash = "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

DatasetResult Failure(DatasetCode code, const std::string& text) {
  DatasetResult result;
  result.code = code;
  text.copy(result.text, kDatasetTextBytes - 1);
  return result;
}

/// As SigV4 wants it: all but unreserved characters as %XX; '/' stays in paths.
std::string UrlEncode(std::string_view text, std::string_view keep) {
  std::string encoded;
  for (const char c : text) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || keep.find(c) != std::string_view::npos;
    encoded += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<uint8_t>(c));
  }
  return encoded;
}

size_t Collect(char* data, size_t size, size_t count, void* text) {
  static_cast<std::string*>(text)->append(data, size * count);
  return size * count;
}

struct Answer {
  DatasetResult result;
  std::string body;
};

Answer Ask(const SweepTarget& target, const char* method, const std::string& url) {
  Answer answer;
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), &curl_easy_cleanup);
  const std::string scope = fmt::format("aws:amz:{}:s3", target.keys->region);
  const std::string user = fmt::format("{}:{}", target.keys->access, target.keys->secret);
  curl_slist* list = curl_slist_append(nullptr, kEmptyBodyHash);
  if (target.keys->token[0] != 0)
    list = curl_slist_append(list, fmt::format("x-amz-security-token: {}", target.keys->token).c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list, &curl_slist_free_all);
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_CUSTOMREQUEST, method);
  curl_easy_setopt(curl.get(), CURLOPT_AWS_SIGV4, scope.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_USERPWD, user.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_NOPROXY, "*");
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, target.timeout_seconds);
  curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT, target.timeout_seconds);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &Collect);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &answer.body);
  const CURLcode code = curl_easy_perform(curl.get());
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (code != CURLE_OK) {
    answer.result = Failure(DatasetCode::kUnreachable, curl_easy_strerror(code));
  } else if (status / 100 != 2 && status != 404) {
    answer.result = Failure(status == 403 ? DatasetCode::kDenied : DatasetCode::kFailed,
                            fmt::format("{} {}: HTTP {}: {}", method, target.key, status, answer.body.substr(0, 300)));
  }
  return answer;
}

/// Texts of all <tag> elements. The answer's only free text is the key, whose '<' the server escapes.
std::vector<std::string> Elements(std::string_view xml, std::string_view tag) {
  const std::string open = fmt::format("<{}>", tag), shut = fmt::format("</{}>", tag);
  std::vector<std::string> texts;
  for (size_t at = xml.find(open); at != std::string_view::npos; at = xml.find(open, at)) {
    at += open.size();
    const size_t end = xml.find(shut, at);
    if (end == std::string_view::npos) break;
    texts.emplace_back(xml.substr(at, end - at));
  }
  return texts;
}

DatasetResult Sweep(const SweepTarget& target, int32_t* aborted) {
  const std::string bucket_url = fmt::format("{}/{}", target.server, target.bucket);
  const Answer list = Ask(target, "GET", fmt::format("{}?prefix={}&uploads=", bucket_url, UrlEncode(target.key, "-._~")));
  if (!list.result.ok()) return list.result;
  const std::vector<std::string> keys = Elements(list.body, "Key"), ids = Elements(list.body, "UploadId");
  for (size_t i = 0; i < ids.size() && i < keys.size(); ++i) {
    if (keys[i] != target.key) continue;  // another object's, whose name merely begins like ours
    const std::string url =
        fmt::format("{}/{}?uploadId={}", bucket_url, UrlEncode(target.key, "-._~/"), UrlEncode(ids[i], "-._~"));
    const Answer gone = Ask(target, "DELETE", url);
    if (!gone.result.ok()) return gone.result;
    ++*aborted;
  }
  return {};
}

}  // namespace
}  // namespace stepscope

extern "C" __attribute__((visibility("default"))) stepscope::DatasetResult stepscope_sweep_v1(
    const stepscope::SweepTarget* target, int32_t* aborted) {
  try {
    return stepscope::Sweep(*target, aborted);
  } catch (const std::exception& error) {
    return stepscope::Failure(stepscope::DatasetCode::kFailed, error.what());
  }
}
