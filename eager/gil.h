// Python's global interpreter lock (GIL), given up while the engine waits or works.
#pragma once

#include <Python.h>
#include <unistd.h>

#include <mutex>

namespace openneuron::eager {

// PyEval_RestoreThread for threads with C++ frames. When the interpreter is ending, Python before 3.14 ends a thread
// that wants the GIL by unwinding its stack, which destructors do not survive; here it sleeps until the process is
// gone, and `held` is unlocked for the others.
inline void TakeGil(PyThreadState* state, std::mutex* held = nullptr) {
  try {
    PyEval_RestoreThread(state);
  } catch (...) {
    if (held != nullptr) held->unlock();
    while (true) pause();
  }
}

class ScopedGilRelease {
 public:
  ScopedGilRelease() : state_(PyEval_SaveThread()) {}
  ~ScopedGilRelease() { TakeGil(state_); }
  ScopedGilRelease(const ScopedGilRelease&) = delete;
  ScopedGilRelease& operator=(const ScopedGilRelease&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace openneuron::eager
