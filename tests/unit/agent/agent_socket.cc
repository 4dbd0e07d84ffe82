// SPDX-License-Identifier: Apache-2.0
#include "agent_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <stdexcept>

extern char** environ;

namespace stepscope::agent {
namespace {

bool Readable(int fd, std::chrono::milliseconds wait) {
  pollfd waiting{fd, POLLIN, 0};
  return poll(&waiting, 1, static_cast<int>(wait.count())) == 1;
}

std::map<std::string, std::string> ParseFacts(const char* bytes, size_t count) {
  std::map<std::string, std::string> facts;
  for (size_t at = 0; at < count;) {
    std::string fact(bytes + at);
    at += fact.size() + 1;
    facts[fact.substr(0, fact.find('='))] = fact.substr(fact.find('=') + 1);
  }
  return facts;
}

}  // namespace

AgentSocket::AgentSocket() {
  char folder[] = "/tmp/agent_socket_XXXXXX";
  if (mkdtemp(folder) == nullptr) throw std::runtime_error("mkdtemp");
  folder_ = folder;
  path_ = folder_ + "/agent.sock";
  ListenAgain();
}

AgentSocket::~AgentSocket() {
  StopListening();
  rmdir(folder_.c_str());
}

void AgentSocket::ListenAgain() {
  listener_.reset(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
  if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 || listen(listener_.get(), 64) != 0) {
    throw std::runtime_error("listen on " + path_);
  }
}

void AgentSocket::StopListening() {
  listener_.reset();
  unlink(path_.c_str());
}

std::optional<Greeting> AgentSocket::Accept(std::chrono::milliseconds wait) {
  if (!listener_.ok() || !Readable(listener_.get(), wait)) return std::nullopt;
  Greeting greeting;
  greeting.connection.reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  constexpr std::chrono::seconds kPatience{10};  // the child may be off the CPU between its connect and its hello
  if (!greeting.connection.ok() || !Readable(greeting.connection.get(), kPatience)) return std::nullopt;
  char bytes[STEPSCOPE_HELLO_MAX_BYTES];
  iovec part{bytes, sizeof(bytes)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got = recvmsg(greeting.connection.get(), &message, MSG_CMSG_CLOEXEC);
  if (got < static_cast<ssize_t>(sizeof(stepscope_hello)) || CMSG_FIRSTHDR(&message) == nullptr) return std::nullopt;
  int fd;
  std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
  greeting.ring_file.reset(fd);
  std::memcpy(&greeting.hello, bytes, sizeof(greeting.hello));
  greeting.facts = ParseFacts(bytes + sizeof(stepscope_hello), greeting.hello.facts_bytes);
  return greeting;
}

Child::Child(const std::vector<std::string>& command, const std::map<std::string, std::string>& environment) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    std::string text = *variable;
    if (environment.count(text.substr(0, text.find('='))) == 0) variables.push_back(text);
  }
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<char*> arguments, pointers;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  for (const std::string& variable : variables) pointers.push_back(const_cast<char*>(variable.c_str()));
  arguments.push_back(nullptr);
  pointers.push_back(nullptr);
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  out_.reset(pipe_fds[0]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
  int result = posix_spawn(&pid_, command[0].c_str(), &actions, nullptr, arguments.data(), pointers.data());
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_fds[1]);
  if (result != 0) throw std::runtime_error("posix_spawn " + command[0]);
}

Child::~Child() {
  if (pid_ > 0) {
    Kill();
    Wait();
  }
}

void Child::Kill() { kill(pid_, SIGKILL); }

int Child::Wait() {
  char buffer[4096];
  for (ssize_t got; (got = read(out_.get(), buffer, sizeof(buffer))) > 0;) output_.append(buffer, static_cast<size_t>(got));
  int status = -1;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return status;
}

}  // namespace stepscope::agent
