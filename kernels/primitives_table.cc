// Builds the primitive tables and picks the best that the CPU can run.
#include "kernels/primitives.h"

namespace openneuron::kernels {

// One object per ISA and group of types fills its part of the ISA's table.
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

#define FILL(isa)                          \
  void Fill_##isa(PrimitiveTable& table) { \
    FillPrimitives_##isa##_f32(table);     \
    FillPrimitives_##isa##_f64(table);     \
    FillPrimitives_##isa##_i32(table);     \
    FillPrimitives_##isa##_i8(table);      \
    FillPrimitives_##isa##_convert(table); \
  }
ISAS(FILL)
#undef FILL
#undef ISAS

}  // namespace

const PrimitiveTable* PrimitivesFor(Isa isa) {
  static const IsaTables<PrimitiveTable> tables(&Fill_baseline, &Fill_avx2, &Fill_avx512);
  return CanRun(isa) ? &tables[isa] : nullptr;
}

const PrimitiveTable& Primitives() {
  static const PrimitiveTable& best = *PrimitivesFor(BestIsa());
  return best;
}

}  // namespace openneuron::kernels
