// Asks the CPU.
#include "kernels/isa.h"

#include <cpuid.h>

namespace openneuron::kernels {
namespace {

// Not every compiler's __builtin_cpu_supports knows it.
bool HasF16c() {
  unsigned eax, ebx, ecx, edx;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2") && HasF16c();
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
