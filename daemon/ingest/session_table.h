// SPDX-License-Identifier: Apache-2.0
// SessionTable: the sessions that are not over, by id and by nonce of their connection, how many of them are dying: their process
// is dead, their last records are not stored yet; and how many others each user has.
//
// Thread rule: any.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "daemon/ingest/session.h"

namespace stepscope {

using SessionPtr = std::shared_ptr<Session>;

class SessionTable {
 public:
  /// Where the records of a session go, and whose they are.
  struct Origin {
    RunId run;
    uint32_t uid;
  };

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
    if (entry.session == nullptr) ++living_[session->peer().uid];
    nonces_.erase(entry.nonce);
    entry.session = session;
    entry.nonce = nonce;
    nonces_[nonce] = session;
  }
  /// Its process is dead: it stays until the last of its records is stored.
  void MarkDying(const SessionPtr& session) {
    const std::lock_guard lock(mu_);
    const auto found = sessions_.find(session->identity().session);
    if (found == sessions_.end() || found->second.session != session || found->second.dying) return;
    found->second.dying = true;
    ++dying_;
    OneLess(session->peer().uid);
  }
  void Remove(const SessionPtr& session) {
    const std::lock_guard lock(mu_);
    const auto found = sessions_.find(session->identity().session);
    if (found == sessions_.end()) return;
    nonces_.erase(found->second.nonce);
    if (found->second.dying) --dying_;
    if (!found->second.dying) OneLess(found->second.session->peer().uid);
    if (past_.emplace(found->first, OriginIn(*session)).second) past_order_.push_back(found->first);
    sessions_.erase(found);
    while (past_order_.size() > kMostPast) {
      past_.erase(past_order_.front());
      past_order_.pop_front();
    }
  }
  /// Also of a session that is over: its children may have died before it, and be looked at after it.
  std::optional<Origin> OriginOf(const std::string& id) const {
    const std::lock_guard lock(mu_);
    if (const auto found = sessions_.find(id); found != sessions_.end()) return OriginIn(*found->second.session);
    const auto past = past_.find(id);
    return past == past_.end() ? std::nullopt : std::optional(past->second);
  }
  std::vector<SessionPtr> All() const {
    const std::lock_guard lock(mu_);
    std::vector<SessionPtr> all;
    all.reserve(sessions_.size());
    for (const auto& [id, entry] : sessions_) all.push_back(entry.session);
    return all;
  }
  /// Other sessions of the same process.
  std::vector<SessionPtr> Siblings(const SessionPtr& session) const {
    const std::lock_guard lock(mu_);
    std::vector<SessionPtr> siblings;
    for (const auto& [id, entry] : sessions_) {
      if (entry.session != session && entry.session->peer().key == session->peer().key) siblings.push_back(entry.session);
    }
    return siblings;
  }
  size_t size() const {
    const std::lock_guard lock(mu_);
    return sessions_.size();
  }
  size_t dying() const {
    const std::lock_guard lock(mu_);
    return dying_;
  }
  size_t living() const {
    const std::lock_guard lock(mu_);
    return sessions_.size() - dying_;
  }
  size_t LivingOf(uint32_t uid) const {
    const std::lock_guard lock(mu_);
    const auto found = living_.find(uid);
    return found == living_.end() ? 0 : found->second;
  }

 private:
  static constexpr size_t kMostPast = 16384;
  static Origin OriginIn(const Session& session) { return {session.identity().run, session.peer().uid}; }
  struct Entry {
    SessionPtr session;
    std::string nonce;
    bool dying = false;
  };
  void OneLess(uint32_t uid) {
    const auto user = living_.find(uid);
    if (--user->second == 0) living_.erase(user);
  }
  mutable std::mutex mu_;
  size_t dying_ = 0;
  std::map<std::string, Entry> sessions_;
  std::map<std::string, SessionPtr> nonces_;
  std::map<uint32_t, size_t> living_;  ///< by user
  std::map<std::string, Origin> past_;
  std::deque<std::string> past_order_;  ///< oldest first
};

}  // namespace stepscope
