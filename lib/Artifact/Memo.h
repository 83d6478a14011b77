//===- Memo.h - Results that a process computes once ------------*- C++ -*-===//
//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef FUSE_LIB_ARTIFACT_MEMO_H
#define FUSE_LIB_ARTIFACT_MEMO_H

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace fuse {

/// The last results by their keys. The layers of a model differ in scales,
/// which are arguments of kernels, so that most of their kernels are equal.
template <typename T>
class Memo {
public:
  std::optional<T> find(const std::string &key) {
    std::lock_guard<std::mutex> lock(mutex);
    auto it = values.find(key);
    return it == values.end() ? std::nullopt : std::optional<T>(it->second);
  }

  void add(const std::string &key, T value) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!values.emplace(key, std::move(value)).second)
      return;
    order.push_back(key);
    if (order.size() > kMost) {
      values.erase(order.front());
      order.pop_front();
    }
  }

private:
  /// A block has up to some 12 kernels of 0.3 MB each.
  static constexpr size_t kMost = 64;

  std::mutex mutex;
  std::map<std::string, T> values;
  std::deque<std::string> order;
};

} // namespace fuse

#endif // FUSE_LIB_ARTIFACT_MEMO_H
