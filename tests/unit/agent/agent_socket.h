// SPDX-License-Identifier: Apache-2.0
// The daemon's side of the agent socket for tests: a listening socket in a temporary folder, hellos with their ring files, and
// children that talk to it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "contract/hello.h"

namespace stepscope::agent {

struct Greeting {
  unique_fd connection;
  unique_fd ring_file;
  stepscope_hello hello;
  std::map<std::string, std::string> facts;
};

class AgentSocket {
 public:
  AgentSocket();
  ~AgentSocket();
  const std::string& path() const { return path_; }
  // The next hello, or nothing when none comes in time.
  std::optional<Greeting> Accept(std::chrono::milliseconds wait);
  void StopListening();
  void ListenAgain();

 private:
  std::string folder_;
  std::string path_;
  unique_fd listener_;
};

// A child process; its output is a pipe.
class Child {
 public:
  Child(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment);
  ~Child();  // kills
  void Kill();
  // Exit status as waitpid gives it; output holds what it printed.
  int Wait();
  const std::string& output() const { return output_; }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  unique_fd out_;
  std::string output_;
};

}  // namespace stepscope::agent
