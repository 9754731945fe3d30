// Asks the CPU.
#include "kernels/isa.h"

namespace openneuron::kernels {
namespace {

bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
         __builtin_cpu_supports("bmi2");
}

bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
}

}  // namespace

bool CanRun(Isa isa) { return isa == Isa::kBaseline || (isa == Isa::kAvx2 ? HasAvx2() : HasAvx512()); }

Isa BestIsa() {
  static const Isa best = HasAvx512() ? Isa::kAvx512 : HasAvx2() ? Isa::kAvx2 : Isa::kBaseline;
  return best;
}

}  // namespace openneuron::kernels
