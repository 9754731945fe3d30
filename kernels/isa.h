// The instruction sets that inner loops are compiled for, and which of them this machine runs.
// Included by the ISA-specific objects, so it includes nothing that defines an inline function; they use no template.
#pragma once

namespace openneuron::kernels {

enum class Isa { kBaseline, kAvx2, kAvx512 };
inline constexpr int kIsas = 3;

bool CanRun(Isa isa);
// The last of those that can run.
Isa BestIsa();

// A table of loops for each ISA. What this machine cannot run stays empty: the fillers are compiled for their ISA, too.
template <class Table>
struct IsaTables {
  using Filler = void (*)(Table& table);

  IsaTables(Filler baseline, Filler avx2, Filler avx512) {
    const Filler fillers[kIsas] = {baseline, avx2, avx512};
    for (int i = 0; i < kIsas; ++i) {
      if (CanRun(static_cast<Isa>(i))) fillers[i](tables[i]);
    }
  }
  const Table& operator[](Isa isa) const { return tables[static_cast<int>(isa)]; }

  Table tables[kIsas]{};
};

}  // namespace openneuron::kernels
