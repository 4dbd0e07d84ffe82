// SPDX-License-Identifier: Apache-2.0
// SessionTable: the sessions there are, by their id and by the nonce their streams name.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/ingest/session.h"

namespace stepscope {

using SessionPtr = std::shared_ptr<Session>;

/// Thread rule: any thread.
class SessionTable {
 public:
  SessionPtr ById(const std::string& id) const {
    const std::lock_guard lock(mu_);
    const auto found = sessions_.find(id);
    return found == sessions_.end() ? nullptr : found->second.session;
  }
  SessionPtr ByNonce(const std::string& nonce) const {
    const std::lock_guard lock(mu_);
    const auto found = nonces_.find(nonce);
    return found == nonces_.end() ? nullptr : found->second;
  }
  void Put(const SessionPtr& session, const std::string& nonce) {
    const std::lock_guard lock(mu_);
    Entry& entry = sessions_[session->identity().session];
    nonces_.erase(entry.nonce);
    entry = {session, nonce};
    nonces_[nonce] = session;
  }
  void Remove(const SessionPtr& session) {
    const std::lock_guard lock(mu_);
    const auto found = sessions_.find(session->identity().session);
    if (found == sessions_.end()) return;
    nonces_.erase(found->second.nonce);
    sessions_.erase(found);
  }
  std::vector<SessionPtr> All() const {
    const std::lock_guard lock(mu_);
    std::vector<SessionPtr> all;
    all.reserve(sessions_.size());
    for (const auto& [id, entry] : sessions_) all.push_back(entry.session);
    return all;
  }
  size_t size() const {
    const std::lock_guard lock(mu_);
    return sessions_.size();
  }

 private:
  struct Entry {
    SessionPtr session;
    std::string nonce;
  };
  mutable std::mutex mu_;
  std::map<std::string, Entry> sessions_;
  std::map<std::string, SessionPtr> nonces_;
};

}  // namespace stepscope
