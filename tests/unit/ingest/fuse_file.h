// SPDX-License-Identifier: Apache-2.0
// FuseFile: an open file whose every request this process answers, or lets wait: what a hostile user can send as a ring file.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"

namespace stepscope::testing {

class FuseFile {
 public:
  explicit FuseFile(const std::string& path) : path_(path), device_(open("/dev/fuse", O_RDWR | O_CLOEXEC)) {
    std::ofstream(path_) << "";
    const std::string options = fmt::format("fd={},rootmode=100000,user_id=0,group_id=0", device_.get());
    if (!device_.ok() || mount("fuse_file", path_.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0) return;
    mounted_ = true;
    server_ = std::thread([this] { Serve(); });
    file_.reset(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  }
  ~FuseFile() {
    Release();
    file_.reset();
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
    stopping_ = true;
    if (server_.joinable()) server_.join();
  }
  bool ok() const { return file_.ok(); }
  int fd() const { return file_.get(); }
  /// From now on requests wait.
  void Hold() { holding_ = true; }
  void Release() {
    holding_ = false;
    const std::lock_guard lock(mu_);
    for (const fuse_in_header& request : held_) Answer(request, -EIO, nullptr, 0);
    held_.clear();
  }
  /// Kinds of the requests that wait or waited.
  std::vector<uint32_t> Held() const {
    const std::lock_guard lock(mu_);
    return kinds_;
  }

 private:
  void Serve() {
    std::vector<char> buffer(1 << 20);
    while (!stopping_) {
      pollfd p{device_.get(), POLLIN, 0};
      if (poll(&p, 1, 20) <= 0) continue;
      const ssize_t got = read(device_.get(), buffer.data(), buffer.size());
      if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) {
        if (got < 0 && errno == ENODEV) return;
        continue;
      }
      fuse_in_header request;
      std::memcpy(&request, buffer.data(), sizeof(request));
      Handle(request);
    }
  }
  void Handle(const fuse_in_header& request) {
    switch (request.opcode) {
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET:
      case FUSE_INTERRUPT:
        return;
      case FUSE_INIT: {
        fuse_init_out init{};
        init.major = FUSE_KERNEL_VERSION;
        init.minor = FUSE_KERNEL_MINOR_VERSION;
        init.max_write = 4096;
        return Answer(request, 0, &init, sizeof(init));
      }
      case FUSE_OPEN: {
        fuse_open_out opened{};
        return Answer(request, 0, &opened, sizeof(opened));
      }
      default:
        break;
    }
    if (holding_) {
      const std::lock_guard lock(mu_);
      held_.push_back(request);
      kinds_.push_back(request.opcode);
      return;
    }
    if (request.opcode != FUSE_GETATTR) return Answer(request, request.opcode == FUSE_FLUSH ? 0 : -EIO, nullptr, 0);
    fuse_attr_out attributes{};
    attributes.attr.ino = 1;
    attributes.attr.mode = S_IFREG | 0644;
    attributes.attr.nlink = 1;
    Answer(request, 0, &attributes, sizeof(attributes));
  }
  void Answer(const fuse_in_header& request, int error, const void* body, size_t bytes) {
    fuse_out_header header{};
    header.len = static_cast<uint32_t>(sizeof(header) + bytes);
    header.error = error;
    header.unique = request.unique;
    std::string reply(reinterpret_cast<const char*>(&header), sizeof(header));
    if (bytes > 0) reply.append(static_cast<const char*>(body), bytes);
    (void)!write(device_.get(), reply.data(), reply.size());
  }

  const std::string path_;
  unique_fd device_;
  unique_fd file_;
  bool mounted_ = false;
  std::thread server_;
  std::atomic<bool> holding_ = false;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mu_;
  std::vector<fuse_in_header> held_;
  std::vector<uint32_t> kinds_;
};

}  // namespace stepscope::testing
