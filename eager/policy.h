// When to cut: pure functions of the op stream, never of time.
#pragma once

#include <cstdint>

#include "trace/op.h"

namespace openneuron::eager {

struct PolicyParams {
#define PARAM(name, value, meaning) int64_t name = value;
#include "eager/params.def"
#undef PARAM
};
inline constexpr PolicyParams kParams;

// The content rule: asymmetric-extremum chunking. Each op has a hash of itself and the three ops before it; a
// chunk ends when `content_window` ops have passed since its largest hash. Cuts so depend on what is near them and not
// on where the stream began: a loop settles into the same chunks whatever its period. Sizes are left out, so that
// growing shapes do not move the cuts.
class ContentRule {
 public:
  // Takes the next op; true when the chunk ends behind it.
  bool Next(trace::Op op, trace::DType type) {
    recent_ = (recent_ << 16) | ((static_cast<uint64_t>(op) << 4 | static_cast<uint64_t>(type)) + 1);
    uint64_t hash = recent_ * 0x9E3779B97F4A7C15ull;
    hash = (hash ^ hash >> 32) * 0xD6E8FEB86659FD93ull;
    if (hash > extremum_) {
      extremum_ = hash;
      since_ = 0;
      return false;
    }
    return ++since_ >= kParams.content_window;
  }
  // A new chunk of the same stream.
  void BeginChunk() {
    extremum_ = 0;
    since_ = 0;
  }
  // Forgets the stream: after a cut from outside the same ops give the same chunks.
  void Restart() {
    BeginChunk();
    recent_ = 0;
  }

 private:
  uint64_t recent_ = 0;  // the last four ops, 16 bits each
  uint64_t extremum_ = 0;
  int64_t since_ = 0;
};

}  // namespace openneuron::eager
