// SPDX-License-Identifier: Apache-2.0
// Writes the golden blocks of this release: block_writer DIR. Run it once for a new format version and commit what it wrote;
// committed golden files are never rewritten, or the promise that they are readable would mean nothing.
#include <fmt/format.h>

#include <fstream>
#include <iostream>

#include "tests/golden/golden_blocks.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: block_writer DIR\n";
    return 2;
  }
  for (const stepscope::GoldenBlock& golden : stepscope::GoldenBlocks()) {
    const auto bytes = stepscope::EncodeBlock(golden.batch, golden.notes);
    if (!bytes.ok()) {
      std::cerr << golden.name << ": " << bytes.status() << "\n";
      return 1;
    }
    std::string hex;
    size_t column = 0;
    for (char byte : *bytes) {
      hex += fmt::format("{:02x}{}", static_cast<uint8_t>(byte), ++column % 32 == 0 ? "\n" : "");
    }
    std::ofstream(fmt::format("{}/{}.hex", argv[1], golden.name)) << hex << (column % 32 == 0 ? "" : "\n");
  }
}
