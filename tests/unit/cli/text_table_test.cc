// SPDX-License-Identifier: Apache-2.0
#include "cli/text_table.h"

#include <gtest/gtest.h>

#include <limits>

namespace stepscope::cli {
namespace {

TEST(QuantityTest, DurationsCarryTheUnitThatReadsBest) {
  EXPECT_EQ(Duration(0), "0 ns");
  EXPECT_EQ(Duration(999), "999 ns");
  EXPECT_EQ(Duration(1'000), "1.0 µs");
  EXPECT_EQ(Duration(4'500), "4.5 µs");
  EXPECT_EQ(Duration(12'300'000), "12.3 ms");
  EXPECT_EQ(Duration(1'234'000'000), "1.234 s");
  EXPECT_EQ(Duration(7'200'000'000'000), "7200.000 s");
}

TEST(QuantityTest, NegativeDurationsKeepTheirSign) {
  EXPECT_EQ(Duration(-7), "-7 ns");
  EXPECT_EQ(Duration(-1'500), "-1.5 µs");
}

TEST(QuantityTest, BytesAreDecimalAndEndAtTerabytes) {
  EXPECT_EQ(Bytes(0), "0 B");
  EXPECT_EQ(Bytes(999), "999 B");
  EXPECT_EQ(Bytes(1'000), "1.0 kB");
  EXPECT_EQ(Bytes(1'200'000), "1.2 MB");
  EXPECT_EQ(Bytes(3'000'000'000), "3.0 GB");
  EXPECT_EQ(Bytes(5'000'000'000'000'000), "5000.0 TB");
}

TEST(QuantityTest, CountsAreGroupedByThousands) {
  EXPECT_EQ(Count(0), "0");
  EXPECT_EQ(Count(999), "999");
  EXPECT_EQ(Count(1'000), "1,000");
  EXPECT_EQ(Count(12'345), "12,345");
  EXPECT_EQ(Count(123'456), "123,456");
  EXPECT_EQ(Count(1'234'567), "1,234,567");
  EXPECT_EQ(Count(std::numeric_limits<int64_t>::max()), "9,223,372,036,854,775,807");
}

TEST(QuantityTest, AnUnknownCountSaysSo) { EXPECT_EQ(Count(-1), "unknown"); }

TEST(QuantityTest, SharesArePercentWithOneDigit) {
  EXPECT_EQ(Percent(0.123), "12.3 %");
  EXPECT_EQ(Percent(1), "100.0 %");
}

TEST(TextTableTest, TextStandsLeftAndNumbersRight) {
  TextTable table({"NAME", ">COUNT"});
  table.Add({"forward", "7"});
  table.Add({"b", "12,345"});
  EXPECT_EQ(table.Render(),
            "  NAME      COUNT\n"
            "  forward       7\n"
            "  b        12,345\n");
}

TEST(TextTableTest, ACharacterOfSeveralBytesTakesOneColumn) {
  TextTable table({">TIME", "NAME"});
  table.Add({"4.5 µs", "größer"});
  table.Add({"12 ns", "x"});
  EXPECT_EQ(table.Render(),
            "    TIME  NAME\n"
            "  4.5 µs  größer\n"
            "   12 ns  x\n");
}

TEST(TextTableTest, NoLineEndsInSpaces) {
  TextTable table({"A", "NOTE"});
  table.Add({"1", ""});
  table.Add({"2", "long note"});
  EXPECT_EQ(table.Render(), "  A  NOTE\n  1\n  2  long note\n");
}

TEST(TextTableTest, MissingCellsAreBlank) {
  TextTable table({"A", ">B", ">C"});
  table.Add({"1"});
  table.Add({"2", "3", "4"});
  EXPECT_EQ(table.Render(), "  A  B  C\n  1\n  2  3  4\n");
}

TEST(TextTableTest, NamesAreShortenedByCharactersAndKeepNoControlCharacters) {
  EXPECT_EQ(Shortened("abcdef", 6), "abcdef");
  EXPECT_EQ(Shortened("abcdefg", 6), "abcde…");
  EXPECT_EQ(Shortened("äöüäöüä", 6), "äöüäö…");
  EXPECT_EQ(Printable("a\x1b[31mb\n"), "a?[31mb?");
  EXPECT_EQ(Printable("\xc2\x9b"
                      "31mb\x7f"),
            "?31mb?")
      << "the one-character form of ESC [";
  EXPECT_EQ(Printable("\xc2\xb5s, \xc3\x9b, \xc2"), "\xc2\xb5s, \xc3\x9b, \xc2");
}

TEST(TextTableTest, WithoutRowsThereAreOnlyTitles) { EXPECT_EQ(TextTable({"A", ">B"}).Render(), "  A  B\n"); }

}  // namespace
}  // namespace stepscope::cli
