// Builds the primitive tables and picks the best that the CPU can run.
#include "kernels/primitives.h"

namespace openneuron::kernels {

#define ISAS(X) X(baseline) X(avx2) X(avx512)
#define DECLARE(isa)                                \
  void FillPrimitives_##isa##_f32(PrimitiveTable&); \
  void FillPrimitives_##isa##_f64(PrimitiveTable&); \
  void FillPrimitives_##isa##_i32(PrimitiveTable&); \
  void FillPrimitives_##isa##_i8(PrimitiveTable&);  \
  void FillPrimitives_##isa##_convert(PrimitiveTable&);
ISAS(DECLARE)
#undef DECLARE

namespace {

#define BUILD(isa)                                                       \
  const PrimitiveTable& Table_##isa() {                                  \
    static const PrimitiveTable& table = []() -> const PrimitiveTable& { \
      static PrimitiveTable filled{};                                    \
      FillPrimitives_##isa##_f32(filled);                                \
      FillPrimitives_##isa##_f64(filled);                                \
      FillPrimitives_##isa##_i32(filled);                                \
      FillPrimitives_##isa##_i8(filled);                                 \
      FillPrimitives_##isa##_convert(filled);                            \
      return filled;                                                     \
    }();                                                                 \
    return table;                                                        \
  }
ISAS(BUILD)
#undef BUILD
#undef ISAS

bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
         __builtin_cpu_supports("bmi2");
}

bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
}

}  // namespace

const PrimitiveTable* PrimitivesFor(Isa isa) {
  switch (isa) {
    case Isa::kBaseline:
      return &Table_baseline();
    case Isa::kAvx2:
      return HasAvx2() ? &Table_avx2() : nullptr;
    case Isa::kAvx512:
      return HasAvx512() ? &Table_avx512() : nullptr;
  }
  return nullptr;
}

const PrimitiveTable& Primitives() {
  static const PrimitiveTable* const best = [] {
    if (const PrimitiveTable* table = PrimitivesFor(Isa::kAvx512)) return table;
    if (const PrimitiveTable* table = PrimitivesFor(Isa::kAvx2)) return table;
    return PrimitivesFor(Isa::kBaseline);
  }();
  return *best;
}

}  // namespace openneuron::kernels
