// The text of the chip tables, compiled in.
// chip.h turns it into numbers; nothing else needs it.
#pragma once

namespace openneuron::device {

struct ChipTable {
  const char* name;
  const char* csv;
};

inline constexpr int kChipTableCount = 3;
extern const ChipTable kChipTables[kChipTableCount];

}  // namespace openneuron::device
