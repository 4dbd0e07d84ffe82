// SPDX-License-Identifier: Apache-2.0
// Any bytes as the messages of a Push call, into a session with its decoder, its ring file and a pipeline that stores at once:
// rows are sound, positions of a generation never go back, and none is beyond what was pushed. Input: pieces, one message each.
#include <cstdint>
#include <map>
#include <memory>

#include "daemon/ingest/session.h"
#include "stepscope/v1/agent.pb.h"
#include "tests/fuzz/pieces.h"
#include "tests/unit/ingest/fake_pipeline.h"
#include "tests/unit/ingest/test_agent.h"

namespace {

using namespace stepscope;
using fuzz::Check;

struct Node {
  testing::FakeStore store;
  ClockRegistry clocks;
  testing::FakePipeline pipeline{&store, &clocks};
  testing::FakeJobs jobs;
  SystemClock clock;
  InnerTids tids{&clock, [] {}};
};

std::shared_ptr<Session> OpenSession(Node& node) {
  static testing::TestAgent agent('f');
  auto file = RingFile::Open(unique_fd(fcntl(agent.file(), F_DUPFD_CLOEXEC, 0)), agent.session(), testing::TestAgent::kFileBytes);
  Check(file.ok());
  SessionIdentity identity;
  identity.session = agent.session();
  identity.run = {7};
  identity.clock = {1};
  identity.process = {{1}, 1};
  node.clocks.Register({1}, 0, {1.0, 0.0});
  auto session = std::make_shared<Session>(Session::Parts{&node.store, &node.pipeline, &node.clocks, &node.jobs, &node.tids,
                                                          std::make_shared<IngestStats>(), [](auto&) {}},
                                           std::move(identity), PeerProcess{}, 1, *std::move(file));
  Check(session->Load().ok());
  session->Begin();
  return session;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Node node;
  const auto session = OpenSession(node);
  std::map<uint32_t, RingAt> before;
  for (fuzz::Pieces pieces(data, size); !pieces.empty();) {
    const std::string_view piece = pieces.Next();
    v1::PushRequest request;
    if (!request.ParseFromArray(piece.data(), static_cast<int>(piece.size()))) continue;
    const uint64_t to = request.to();
    const uint32_t ring = request.ring(), generation = request.generation();
    const auto taken = session->Push({ring, generation, request.from(), to, std::move(*request.mutable_data())}, nullptr);
    if (!taken.ok() || *taken != Session::Taken::kDelivered) continue;
    const RingPositions stored = session->Stored();
    const auto at = stored.find(ring);
    Check(at != stored.end() && at->second.generation == generation && at->second.position == to);
    const auto last = before.find(ring);
    Check(last == before.end() || last->second.generation < generation || last->second.position < to);
    before[ring] = at->second;
  }
  session->Finish();
  for (const auto& span : node.pipeline.spans) Check(span.start_ns >= 0 && span.dur_ns >= 0);
  return 0;
}
