// The chip tables: every fact has unit, source and confidence; derived numbers; refusals.
#include "device/chip.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "device/chip_tables.h"

namespace openneuron::device {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

std::string Trn2Table() {
  for (const ChipTable& table : kChipTables) {
    if (absl::string_view(table.name) == "trn2") return std::string(table.csv);
  }
  return "";
}

void ExpectContains(absl::string_view text, absl::string_view part) {
  EXPECT_TRUE(absl::StrContains(text, part)) << "text: " << text << "\npart: " << part;
}

TEST(ChipTest, EveryTableParsesAndEveryFactHasUnitSourceAndConfidence) {
  for (const ChipTable& table : kChipTables) {
    absl::StatusOr<Chip> chip = LoadChip(table.name);
    ASSERT_TRUE(chip.ok()) << chip.status();
    EXPECT_EQ(chip->name, table.name);
    EXPECT_GE(chip->facts.size(), 25u);
    for (const ChipFact& fact : chip->facts) {
      EXPECT_FALSE(fact.unit.empty()) << fact.quantity;
      EXPECT_FALSE(fact.scope.empty()) << fact.quantity;
      EXPECT_GE(fact.source.size(), 8u) << fact.quantity;
      EXPECT_TRUE((std::set<std::string>{"A", "B", "C", "D", "I", "assumed"}.count(fact.confidence))) << fact.quantity;
      EXPECT_GT(fact.value, 0) << fact.quantity;
    }
  }
}

TEST(ChipTest, NumbersOfOneLogicalCore) {
  const Chip trn1 = *LoadChip("trn1");
  const Chip trn2 = *LoadChip("trn2");
  const Chip trn3 = *LoadChip("trn3");
  EXPECT_EQ(trn1.logical_cores, 2);
  EXPECT_EQ(trn2.logical_cores, 4);
  EXPECT_EQ(trn3.logical_cores, 4);
  EXPECT_EQ(trn1.hbm_bytes, 16 * kGiB);
  EXPECT_EQ(trn2.hbm_bytes, 24 * kGiB);
  EXPECT_EQ(trn3.hbm_bytes, 36 * kGiB);
  EXPECT_EQ(trn2.sbuf_bytes, 56 << 20);
  EXPECT_DOUBLE_EQ(trn2.hbm_bytes_per_ns, 725);
  EXPECT_DOUBLE_EQ(trn2.tensor_flops_per_ns_16bit, 158e3);
  EXPECT_DOUBLE_EQ(trn2.vector_elements_per_ns_fp32, 2 * 0.96 * 256);
  EXPECT_DOUBLE_EQ(trn2.eager_host_dispatch_ns, 60e3);
  EXPECT_DOUBLE_EQ(trn2.fused_launch_ns, 75e3);
  EXPECT_DOUBLE_EQ(trn2.device_program_start_ns, 40e3);
  EXPECT_EQ(trn2.exec_queue_depth, 8);
  for (const Chip& chip : {trn1, trn2, trn3}) {
    EXPECT_LE(chip.hbm_achieved_bytes_per_ns, chip.hbm_bytes_per_ns) << chip.name;
  }
}

TEST(ChipTest, UnknownNameListsTheKnownOnes) {
  absl::StatusOr<Chip> chip = LoadChip("inf2");
  ASSERT_FALSE(chip.ok());
  EXPECT_EQ(chip.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(chip.status().message(), "unknown chip \"inf2\"; known are trn1, trn2, trn3");
}

TEST(ChipTest, TablesWithHolesAreRefusedWithTheReason) {
  const std::string good = Trn2Table();
  ASSERT_TRUE(ParseChip("x", good).ok());
  const auto refusal = [&](const char* from, const char* to) {
    const std::string bad = absl::StrReplaceAll(good, {{from, to}});
    EXPECT_NE(bad, good) << from;
    absl::StatusOr<Chip> chip = ParseChip("x", bad);
    EXPECT_FALSE(chip.ok()) << from;
    return absl::StrCat(chip.status().message());
  };
  ExpectContains(refusal("vector_clock,engine,0.96,GHz", "vector_clock,engine,fast,GHz"),
                 "(vector_clock): \"fast\" is not a positive number");
  ExpectContains(refusal("vector_clock,engine,0.96,GHz", "vector_clock,engine,0,GHz"), "positive");
  ExpectContains(refusal("vector_clock,engine,0.96,GHz", "vector_clock,engine,960,MHz"),
                 "must be in GHz per engine, is in \"MHz\"");
  ExpectContains(refusal("vector_clock", "vector_speed"), "(vector_speed): unknown quantity");
  ExpectContains(refusal("scalar_clock,engine,1.2", "gpsimd_clock,engine,1.2"), "stated twice");
  ExpectContains(refusal("no public number", ""), "(program_load): no source");
  ExpectContains(refusal(",assumed,", ",maybe,"), "confidence \"maybe\" is none of");
  ExpectContains(refusal("quantity,scope", "quantity;scope"), "the first line must be");
  ExpectContains(refusal("count,", "count,,"), "expected 7 cells, found 8");
  ExpectContains(refusal("exec_queue_depth,core,8,", "exec_queue_depth,core,8.5,"), "whole number");
  const std::string line = good.substr(good.find("host_link"));
  ExpectContains(refusal(line.c_str(), ""), "does not state host_link");
}

}  // namespace
}  // namespace openneuron::device
