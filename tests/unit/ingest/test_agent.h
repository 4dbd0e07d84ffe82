// SPDX-License-Identifier: Apache-2.0
// TestAgent: the smallest honest agent: a real sealed ring file, a real hello, pushes by gRPC C++ over the same socket.
#pragma once

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/unique_fd.h"
#include "contract/hello.h"
#include "contract/ring.h"
#include "stepscope/v1/agent.grpc.pb.h"

namespace stepscope::testing {

struct HelloAnswer {
  HelloAnswer() { reply.status = UINT32_MAX; }  ///< no status of the contract's: nothing arrived
  stepscope_hello_reply reply{};
  std::vector<stepscope_hello_position> positions;
  bool arrived = false;
  std::string nonce() const { return {reinterpret_cast<const char*>(reply.nonce), sizeof(reply.nonce)}; }
};

inline unique_fd ConnectTo(const std::string& path) {
  unique_fd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) return {};
  return fd;
}

inline bool SendWithFiles(int connection, const std::string& bytes, const std::vector<int>& files) {
  iovec vector{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 64)] = {};
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  if (!files.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(sizeof(int) * files.size());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int) * files.size());
    std::memcpy(CMSG_DATA(rights), files.data(), sizeof(int) * files.size());
  }
  return sendmsg(connection, &header, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

/// Waits at most 20 s for the whole reply; a HelloAnswer that has not arrived when the daemon closed before.
inline HelloAnswer ReadAnswer(int connection) {
  const timeval patience{20, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  HelloAnswer answer;
  if (recv(connection, &answer.reply, sizeof(answer.reply), MSG_WAITALL) != sizeof(answer.reply)) return {};
  answer.positions.resize(answer.reply.position_count);
  const size_t bytes = answer.positions.size() * sizeof(stepscope_hello_position);
  if (bytes > 0 && recv(connection, answer.positions.data(), bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) return {};
  answer.arrived = true;
  return answer;
}

class TestAgent {
 public:
  static constexpr uint32_t kRings = 4;
  static constexpr uint64_t kFileBytes =
      STEPSCOPE_RING_ALIGNMENT + STEPSCOPE_RING_SENDER_BYTES + (kRings - 1) * STEPSCOPE_RING_THREAD_BYTES;

  explicit TestAgent(char id) : session_(16, id), file_(memfd_create("stepscope", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
    if (ftruncate(file_.get(), kFileBytes) != 0) std::abort();
    base_ = static_cast<char*>(mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0));
    fcntl(file_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    stepscope_ring_header& h = header();
    h.magic = STEPSCOPE_RING_MAGIC;
    h.version = STEPSCOPE_RING_VERSION;
    h.header_bytes = STEPSCOPE_RING_HEADER_BYTES;
    std::memcpy(h.session, session_.data(), session_.size());
    h.pid = getpid();
    h.clock_kind = STEPSCOPE_CLOCK_MONOTONIC;
    h.file_bytes = kFileBytes;
    h.ring_slots = kRings;
    h.descriptor_bytes = STEPSCOPE_RING_DESCRIPTOR_BYTES;
  }
  ~TestAgent() { munmap(base_, kFileBytes); }
  TestAgent(const TestAgent&) = delete;

  stepscope_ring_header& header() { return *reinterpret_cast<stepscope_ring_header*>(base_); }
  stepscope_ring_descriptor& ring(uint32_t index) {
    return *reinterpret_cast<stepscope_ring_descriptor*>(base_ + STEPSCOPE_RING_HEADER_BYTES +
                                                         index * STEPSCOPE_RING_DESCRIPTOR_BYTES);
  }
  const std::string& session() const { return session_; }
  int file() const { return file_.get(); }
  void Beat() { __atomic_add_fetch(&header().heartbeat, 1, __ATOMIC_RELEASE); }

  void Open(uint32_t index, int32_t tid) {
    stepscope_ring_descriptor& d = ring(index);
    d.state = STEPSCOPE_RING_ACTIVE;
    d.tid = tid;
    d.data_bytes = index == 0 ? STEPSCOPE_RING_SENDER_BYTES : STEPSCOPE_RING_THREAD_BYTES;
    d.data_offset =
        STEPSCOPE_RING_ALIGNMENT + (index == 0 ? 0 : STEPSCOPE_RING_SENDER_BYTES + (index - 1) * STEPSCOPE_RING_THREAD_BYTES);
    d.opened_ticks = static_cast<uint64_t>(ReadClockNs(CLOCK_MONOTONIC));
  }
  /// Commits whole records.
  void Write(uint32_t index, const std::string& records) {
    stepscope_ring_descriptor& d = ring(index);
    if (d.state == STEPSCOPE_RING_FREE) Open(index, gettid());
    for (size_t i = 0; i < records.size(); ++i) base_[d.data_offset + (d.head + i) % d.data_bytes] = records[i];
    __atomic_store_n(&d.head, d.head + records.size(), __ATOMIC_RELEASE);
  }

  std::string HelloText(const std::string& facts = {}) const {
    stepscope_hello hello{};
    hello.magic = STEPSCOPE_HELLO_MAGIC;
    hello.version = STEPSCOPE_HELLO_VERSION;
    hello.size = sizeof(hello);
    std::memcpy(hello.session, session_.data(), session_.size());
    hello.pid = getpid();
    hello.tid = gettid();
    hello.uid = getuid();
    hello.clock_kind = STEPSCOPE_CLOCK_MONOTONIC;
    hello.ticks = static_cast<uint64_t>(ReadClockNs(CLOCK_MONOTONIC));
    hello.monotonic_ns = hello.ticks;
    hello.realtime_ns = static_cast<uint64_t>(ReadClockNs(CLOCK_REALTIME));
    hello.file_bytes = kFileBytes;
    hello.facts_bytes = static_cast<uint32_t>(facts.size());
    return std::string(reinterpret_cast<const char*>(&hello), sizeof(hello)) + facts;
  }
  /// Connects and says hello, without waiting: what a process does that may die the next moment.
  bool SayHello(const std::string& path, const std::string& facts = {}) {
    connection_ = ConnectTo(path);
    return connection_.ok() && SendWithFiles(connection_.get(), HelloText(facts), {file_.get()});
  }
  HelloAnswer Hello(const std::string& path, const std::string& facts = {}) {
    SayHello(path, facts);  // who is refused at once has its answer before it has spoken
    return ReadAnswer(connection_.get());
  }
  unique_fd TakeConnection() { return std::move(connection_); }

 private:
  std::string session_;
  unique_fd file_;
  char* base_ = nullptr;
  unique_fd connection_;
};

/// The stream of one connection.
class PushClient {
 public:
  PushClient(unique_fd connection, const std::string& nonce)
      : stub_(v1::AgentService::NewStub(grpc::CreateInsecureChannelFromFd("agent", NonBlocking(std::move(connection))))) {
    if (!nonce.empty()) context_.AddMetadata("stepscope-nonce-bin", nonce);
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    stream_ = stub_->Push(&context_);
  }
  ~PushClient() {
    if (!finished_) {
      context_.TryCancel();
      Finish();
    }
  }
  bool Push(uint32_t ring, uint64_t from, const std::string& data, uint32_t generation = 0) {
    v1::PushRequest request;
    request.set_ring(ring);
    request.set_generation(generation);
    request.set_from(from);
    request.set_to(from + data.size());
    request.set_data(data);
    return stream_->Write(request);
  }
  /// Blocks until `ring` is acknowledged up to `position`; false when the stream ends before.
  bool WaitAck(uint32_t ring, uint64_t position) {
    v1::PushReply reply;
    while (stream_->Read(&reply)) {
      ++replies_;
      if (reply.has_config()) push_interval_ms_ = reply.config().push_interval_ms();
      for (const auto& stored : reply.stored()) {
        if (stored.ring() == ring && stored.position() >= position) return true;
      }
    }
    return false;
  }
  int replies() const { return replies_; }
  uint32_t push_interval_ms() const { return push_interval_ms_; }  ///< as last told; 0 = never
  void CloseWrites() { stream_->WritesDone(); }
  grpc::Status Finish() {
    finished_ = true;
    return stream_->Finish();
  }

 private:
  static int NonBlocking(unique_fd fd) {
    fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
    return fd.release();
  }
  std::unique_ptr<v1::AgentService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PushRequest, v1::PushReply>> stream_;
  std::atomic<int> replies_ = 0;
  std::atomic<uint32_t> push_interval_ms_ = 0;
  bool finished_ = false;
};

}  // namespace stepscope::testing
