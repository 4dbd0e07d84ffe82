// SPDX-License-Identifier: Apache-2.0
// `stepscope upload [JOB] [--wait]`: asks for the upload of what is not uploaded yet and shows how far it is.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "cli/command.h"
#include "cli/connect.h"
#include "cli/text_table.h"

namespace stepscope::cli {
namespace {

struct UploadOptions {
  std::string job = "last";
  bool wait = false;
  bool json = false;
};

bool IsMoving(const v1::UploadState& state) { return state.state() == "pending" || state.state() == "running"; }

int Print(const v1::UploadState& state, bool json) {
  if (json) {
    PrintJson(state);
  } else {
    printf("upload of %s to %s: %s, %u of %u parts, %s\n", state.job().c_str(), state.url().c_str(), state.state().c_str(),
           state.parts_done(), state.parts_total(), Bytes(state.bytes_done()).c_str());
    for (const auto& table : state.tables())
      printf("  %-12s %s rows\n", table.table().c_str(), Count(static_cast<int64_t>(table.rows())).c_str());
  }
  if (state.state() != "failed" && state.state() != "off") return kOk;
  return Fail(absl::UnavailableError(state.reason().empty() ? "no upload is configured; set upload.url" : state.reason()));
}

int Upload(const Globals& globals, const UploadOptions& options) {
  auto connection = Connection::Open(globals);
  if (!connection.ok()) return Fail(connection.status());
  v1::UploadRequest request;
  request.set_job(options.job);
  auto state = Call((*connection)->control(), &v1::ControlService::Stub::Upload, request);
  v1::GetUploadRequest poll;
  poll.set_job(options.job);
  while (state.ok() && options.wait && IsMoving(*state)) {
    if (isatty(STDERR_FILENO) != 0) fprintf(stderr, "\ruploading %.0f %% ", state->percent());
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    state = Call((*connection)->control(), &v1::ControlService::Stub::GetUpload, poll);
  }
  if (!state.ok()) return Fail(state.status());
  return Print(*state, options.json);
}

}  // namespace

void AddUpload(CLI::App& app, const Globals& globals, int* exit_code) {
  auto* command = app.add_subcommand("upload", "Upload a job's rows that are not uploaded yet, now");
  auto options = std::make_shared<UploadOptions>();
  command->add_option("job", options->job, "name, id or last")->capture_default_str();
  command->add_flag("--wait", options->wait, "return when it is done or failed");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([&globals, options, exit_code] { *exit_code = Upload(globals, *options); });
}

}  // namespace stepscope::cli
