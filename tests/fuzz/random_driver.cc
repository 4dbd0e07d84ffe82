// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz entry point without libFuzzer: on the files named or in the folders named, then on changed copies of them and on
// seeded random inputs that look a little like records (small kinds, sizes that are multiples of 8), so that more than the first
// check is reached.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kInputs = 1'000;

void Run(const std::string& input) { LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size()); }

std::string RandomInput(std::mt19937& random) {
  std::string input;
  const size_t pieces = random() % 6;
  for (size_t p = 0; p < pieces; ++p) {
    std::string piece;
    const size_t records = random() % 24;
    for (size_t r = 0; r < records; ++r) {
      const size_t size = random() % 20 == 0 ? random() % 65536 : 8 * (1 + random() % 8);
      std::string record(random() % 30 == 0 ? size / 2 : size, '\0');
      for (char& byte : record) byte = random() % 3 == 0 ? static_cast<char>(random()) : static_cast<char>(random() % 4);
      if (record.size() >= 4) {
        record[0] = static_cast<char>(random() % 17);
        record[1] = 0;
        record[2] = static_cast<char>(size);
        record[3] = static_cast<char>(size >> 8);
      }
      piece += record;
    }
    piece.resize(std::min<size_t>(piece.size(), 65535));
    input += static_cast<char>(random());
    input += static_cast<char>(piece.size());
    input += static_cast<char>(piece.size() >> 8);
    input += piece;
  }
  return input;
}

std::string Changed(std::string input, std::mt19937& random) {
  for (size_t changes = 1 + random() % 4; changes > 0 && !input.empty(); --changes) {
    const size_t at = random() % input.size();
    if (random() % 8 == 0) {
      input.resize(at);
    } else {
      input[at] = static_cast<char>(random() % 2 == 0 ? random() : static_cast<unsigned char>(input[at]) ^ 1u << random() % 8);
    }
  }
  return input;
}

std::vector<std::string> ReadInputs(const std::filesystem::path& path) {
  std::vector<std::string> inputs;
  if (std::filesystem::is_directory(path)) {
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      for (std::string& input : ReadInputs(entry.path())) inputs.push_back(std::move(input));
    }
  } else {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  std::ranges::sort(inputs);
  return inputs;
}

}  // namespace

int main(int argc, char** argv) {
  std::mt19937 random(1);
  int runs = 0;
  for (int i = 1; i < argc; ++i) {
    const std::vector<std::string> inputs = ReadInputs(argv[i]);
    for (const std::string& input : inputs) Run(input);
    runs += static_cast<int>(inputs.size());
    for (int n = 0; n < kInputs && !inputs.empty(); ++n, ++runs) Run(Changed(inputs[random() % inputs.size()], random));
  }
  for (int i = 0; i < kInputs; ++i, ++runs) Run(RandomInput(random));
  std::printf("%d inputs\n", runs);
  return 0;
}
