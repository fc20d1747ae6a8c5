# SPDX-License-Identifier: Apache-2.0
# Stands for the tests of this folder in a build without CUDA: says how many there are and why none can run.
# cmake -P skipped.cmake

file(GLOB_RECURSE sources "${CMAKE_CURRENT_LIST_DIR}/*_test.cpp")
set(count 0)
foreach(source IN LISTS sources)
  file(STRINGS "${source}" tests REGEX "^TEST(_F|_P)?\\(")
  list(LENGTH tests in_source)
  math(EXPR count "${count} + ${in_source}")
endforeach()
message(STATUS "${count} GPU tests skipped: this build has no CUDA backend. On a machine with a Hopper GPU, "
               "make gpu-test runs them.")
