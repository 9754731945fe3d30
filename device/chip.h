// What is known about a Trainium chip, as numbers of one logical NeuronCore (= one `neuron` device).
// The facts live in device/chips/*.csv, one a line with unit, source and confidence; they are compiled in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace openneuron::device {

// A line of a chip table. Confidence: "A" stated by AWS, "B" measured by a third party with public code, "C" a target,
// "D" read off a figure, "I" inferred or fitted, "assumed" without a source. Reports must say "modelled" of whatever
// is computed from these.
struct ChipFact {
  std::string quantity;
  std::string scope;  // what the number belongs to: engine, core (physical), logical core, chip, program, ...
  double value;
  std::string unit;
  std::string source;
  std::string confidence;
  std::string notes;
};

// Plain data. Times in ns, rates per ns of one logical core (GB/s = bytes/ns).
struct Chip {
  std::string name;
  std::vector<ChipFact> facts;  // the table, in its order

  int cores = 0;                   // physical, per chip
  int cores_per_logical_core = 0;  // 2 on trn2 and trn3, 1 on trn1
  int logical_cores = 0;           // per chip: how many devices one chip is

  int64_t hbm_bytes = 0;
  int64_t sbuf_bytes = 0;
  double hbm_bytes_per_ns = 0;           // nominal share of the chip's bandwidth
  double hbm_achieved_bytes_per_ns = 0;  // what large elementwise ops reach; the cost model uses this one
  double host_link_bytes_per_ns = 0;

  double tensor_flops_per_ns_16bit = 0;
  double tensor_flops_per_ns_fp32 = 0;
  double vector_elements_per_ns_16bit = 0;
  double vector_elements_per_ns_fp32 = 0;
  double scalar_elements_per_ns_16bit = 0;
  double scalar_elements_per_ns_fp32 = 0;
  double gpsimd_elements_per_ns = 0;

  double eager_host_dispatch_ns = 0;   // host, per op-by-op launch
  double fused_launch_ns = 0;          // host, per launch of a fused or compiled segment
  double device_program_start_ns = 0;  // device, per launch, not overlapped with other programs
  int exec_queue_depth = 0;            // launches in flight before the host blocks
  double program_load_ns = 0;          // once per program
  double program_first_run_ns = 0;     // once per program
  double compile_base_ns = 0;          // once per program, plus
  double compile_per_op_ns = 0;
};

// "trn1", "trn2" or "trn3"; InvalidArgument that lists these for any other name.
absl::StatusOr<Chip> LoadChip(std::string_view name);

// The chip described by a table: a header line `quantity,scope,value,unit,source,confidence,notes`, then one fact per
// line, no quoting. InvalidArgument naming the line for a fact without a number, unit, source or known confidence, with
// another unit than ours, unknown or given twice; naming the quantity for a missing one.
absl::StatusOr<Chip> ParseChip(std::string_view name, std::string_view csv);

}  // namespace openneuron::device
