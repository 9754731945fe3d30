// The torch headers that most files of eager/ use, compiled once.
// Not included by hand: CMake puts it in front of every file; each file still includes what it uses.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
