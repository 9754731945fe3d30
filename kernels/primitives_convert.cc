// The contiguous conversions of one ISA; compiled once for each, with OPENNEURON_FILL naming the function
// that enters them into a table.
#include "kernels/convert.h"
#include "kernels/primitives.h"

namespace openneuron::kernels {
namespace {

template <class From>
void FillConversionsFrom(Conversion (&row)[10]) {
#define TO(index, type) row[index] = ConvertRun<type, From>;
  OPENNEURON_DTYPES(TO)
#undef TO
}

}  // namespace

void OPENNEURON_FILL(PrimitiveTable& table) {
#define FROM(index, type) FillConversionsFrom<type>(table.convert[index]);
  OPENNEURON_DTYPES(FROM)
#undef FROM
}

}  // namespace openneuron::kernels
