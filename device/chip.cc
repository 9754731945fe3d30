// From the text of a chip table to a Chip.
#include "device/chip.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "device/chip_tables.h"

namespace openneuron::device {
namespace {

constexpr absl::string_view kHeader = "quantity,scope,value,unit,source,confidence,notes";
constexpr absl::string_view kConfidences[] = {"A", "B", "C", "D", "I", "assumed"};

// Every quantity a table must state, with the unit it must be stated in.
enum Quantity {
  kCores,
  kCoresPerLogicalCore,
  kHbmSize,
  kHbmBandwidth,
  kHbmBandwidthAchieved,
  kPeakBf16,
  kPeakFp32,
  kSbufSize,
  kVectorClock,
  kVectorWidth16Bit,
  kVectorWidthFp32,
  kScalarClock,
  kScalarWidth16Bit,
  kScalarWidthFp32,
  kGpsimdClock,
  kGpsimdWidth,
  kEagerHostDispatch,
  kFusedLaunch,
  kDeviceProgramStart,
  kExecQueueDepth,
  kProgramLoad,
  kProgramFirstRun,
  kCompileBase,
  kCompilePerOp,
  kHostLink,
  kQuantityCount,
};
struct QuantityInfo {
  absl::string_view name;
  absl::string_view scope;
  absl::string_view unit;
};
constexpr QuantityInfo kQuantities[] = {
    {"cores", "chip", "count"},
    {"cores_per_logical_core", "chip", "count"},
    {"hbm_size", "chip", "GiB"},
    {"hbm_bandwidth", "chip", "GB/s"},
    {"hbm_bandwidth_achieved", "logical core", "GB/s"},
    {"peak_bf16", "core", "TFLOPS"},
    {"peak_fp32", "core", "TFLOPS"},
    {"sbuf_size", "core", "MiB"},
    {"vector_clock", "engine", "GHz"},
    {"vector_width_16bit", "engine", "elements/cycle"},
    {"vector_width_fp32", "engine", "elements/cycle"},
    {"scalar_clock", "engine", "GHz"},
    {"scalar_width_16bit", "engine", "elements/cycle"},
    {"scalar_width_fp32", "engine", "elements/cycle"},
    {"gpsimd_clock", "engine", "GHz"},
    {"gpsimd_width", "engine", "elements/cycle"},
    {"eager_host_dispatch", "op", "us"},
    {"fused_launch", "program", "us"},
    {"device_program_start", "program", "us"},
    {"exec_queue_depth", "core", "requests"},
    {"program_load", "program", "us"},
    {"program_first_run", "program", "us"},
    {"compile_base", "graph", "ms"},
    {"compile_per_op", "graph", "ms"},
    {"host_link", "link", "GB/s"},
};
static_assert(std::size(kQuantities) == kQuantityCount);

absl::StatusOr<ChipFact> ParseFact(absl::string_view line) {
  const std::vector<std::string> cells = absl::StrSplit(line, ',');
  if (cells.size() != 7) return absl::InvalidArgumentError(absl::StrCat("expected 7 cells, found ", cells.size()));
  ChipFact fact{cells[0], cells[1], 0, cells[3], cells[4], cells[5], cells[6]};
  if (!absl::SimpleAtod(cells[2], &fact.value) || !std::isfinite(fact.value) || fact.value <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("\"", cells[2], "\" is not a positive number"));
  }
  if (fact.source.empty()) return absl::InvalidArgumentError("no source");
  if (std::find(std::begin(kConfidences), std::end(kConfidences), fact.confidence) == std::end(kConfidences)) {
    return absl::InvalidArgumentError(
        absl::StrCat("confidence \"", fact.confidence, "\" is none of ", absl::StrJoin(kConfidences, ", ")));
  }
  return fact;
}

// Index of the fact's quantity; refuses unknown ones and those in another unit or scope.
absl::StatusOr<int> FindQuantity(const ChipFact& fact) {
  for (int i = 0; i < kQuantityCount; ++i) {
    const QuantityInfo& info = kQuantities[i];
    if (fact.quantity != info.name) continue;
    if (fact.unit == info.unit && fact.scope == info.scope) return i;
    return absl::InvalidArgumentError(absl::StrCat("must be in ", info.unit, " per ", info.scope, ", is in \"",
                                                   fact.unit, "\" per \"", fact.scope, "\""));
  }
  return absl::InvalidArgumentError("unknown quantity");
}

Chip FromQuantities(absl::string_view name, std::vector<ChipFact> facts, absl::Span<const double> value) {
  constexpr double kMiB = 1024.0 * 1024;
  constexpr double kNsPerUs = 1e3;
  constexpr double kNsPerMs = 1e6;
  constexpr double kFlopsPerNsPerTflops = 1e3;
  Chip chip;
  chip.name.assign(name.data(), name.size());
  chip.facts = std::move(facts);
  chip.cores = static_cast<int>(value[kCores]);
  chip.cores_per_logical_core = static_cast<int>(value[kCoresPerLogicalCore]);
  chip.logical_cores = chip.cores / chip.cores_per_logical_core;
  const double cores = chip.cores_per_logical_core;

  chip.hbm_bytes = static_cast<int64_t>(value[kHbmSize] * 1024 * kMiB) / chip.logical_cores;
  chip.sbuf_bytes = static_cast<int64_t>(value[kSbufSize] * kMiB * cores);
  chip.hbm_bytes_per_ns = value[kHbmBandwidth] / chip.logical_cores;
  chip.hbm_achieved_bytes_per_ns = value[kHbmBandwidthAchieved];
  chip.host_link_bytes_per_ns = value[kHostLink];

  chip.tensor_flops_per_ns_16bit = value[kPeakBf16] * kFlopsPerNsPerTflops * cores;
  chip.tensor_flops_per_ns_fp32 = value[kPeakFp32] * kFlopsPerNsPerTflops * cores;
  chip.vector_elements_per_ns_16bit = value[kVectorClock] * value[kVectorWidth16Bit] * cores;
  chip.vector_elements_per_ns_fp32 = value[kVectorClock] * value[kVectorWidthFp32] * cores;
  chip.scalar_elements_per_ns_16bit = value[kScalarClock] * value[kScalarWidth16Bit] * cores;
  chip.scalar_elements_per_ns_fp32 = value[kScalarClock] * value[kScalarWidthFp32] * cores;
  chip.gpsimd_elements_per_ns = value[kGpsimdClock] * value[kGpsimdWidth] * cores;

  chip.eager_host_dispatch_ns = value[kEagerHostDispatch] * kNsPerUs;
  chip.fused_launch_ns = value[kFusedLaunch] * kNsPerUs;
  chip.device_program_start_ns = value[kDeviceProgramStart] * kNsPerUs;
  chip.exec_queue_depth = static_cast<int>(value[kExecQueueDepth]);
  chip.program_load_ns = value[kProgramLoad] * kNsPerUs;
  chip.program_first_run_ns = value[kProgramFirstRun] * kNsPerUs;
  chip.compile_base_ns = value[kCompileBase] * kNsPerMs;
  chip.compile_per_op_ns = value[kCompilePerOp] * kNsPerMs;
  return chip;
}

}  // namespace

absl::StatusOr<Chip> LoadChip(std::string_view name) {
  for (const ChipTable& table : kChipTables) {
    if (table.name == name) return ParseChip(name, table.csv);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("unknown chip \"", std::string(name), "\"; known are ",
                   absl::StrJoin(kChipTables, ", ",
                                 [](std::string* out, const ChipTable& table) { absl::StrAppend(out, table.name); })));
}

absl::StatusOr<Chip> ParseChip(std::string_view chip_name, std::string_view csv) {
  const absl::string_view name(chip_name.data(), chip_name.size());
  const std::vector<absl::string_view> lines = absl::StrSplit(absl::string_view(csv.data(), csv.size()), '\n');
  if (lines[0] != kHeader) {
    return absl::InvalidArgumentError(absl::StrCat("chip table ", name, ": the first line must be ", kHeader));
  }
  std::vector<ChipFact> facts;
  double value[kQuantityCount] = {};  // 0: not stated
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty()) continue;
    const auto refuse = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat("chip table ", name, ", line ", i + 1, " (",
                                                     lines[i].substr(0, lines[i].find(',')), "): ", why));
    };
    absl::StatusOr<ChipFact> fact = ParseFact(lines[i]);
    if (!fact.ok()) return refuse(fact.status().message());
    absl::StatusOr<int> quantity = FindQuantity(*fact);
    if (!quantity.ok()) return refuse(quantity.status().message());
    if (value[*quantity] != 0) return refuse("stated twice");
    value[*quantity] = fact->value;
    facts.push_back(*std::move(fact));
  }
  for (int i = 0; i < kQuantityCount; ++i) {
    if (value[i] == 0) {
      return absl::InvalidArgumentError(absl::StrCat("chip table ", name, " does not state ", kQuantities[i].name));
    }
  }
  for (Quantity count : {kCores, kCoresPerLogicalCore, kExecQueueDepth}) {
    if (value[count] != std::floor(value[count]) || value[count] > 1e6) {
      return absl::InvalidArgumentError(
          absl::StrCat("chip table ", name, ": ", kQuantities[count].name, " must be a whole number"));
    }
  }
  if (std::fmod(value[kCores], value[kCoresPerLogicalCore]) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("chip table ", name, ": cores must be a multiple of ", kQuantities[kCoresPerLogicalCore].name));
  }
  return FromQuantities(name, std::move(facts), value);
}

}  // namespace openneuron::device
