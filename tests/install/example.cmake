# SPDX-License-Identifier: Apache-2.0
# Installs BUILD_DIR below WORK_DIR, then configures, builds and runs EXAMPLE_DIR against that installation alone.
# Given: BUILD_DIR EXAMPLE_DIR WORK_DIR GENERATOR CXX_COMPILER CONFIG

# Runs one command and stops with its output where it fails.
function(run_step)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE output ERROR_VARIABLE output RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "'${command}' failed (${result}):\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK_DIR}")
set(prefix "${WORK_DIR}/prefix")
run_step("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}" --config "${CONFIG}")

# The private dependencies are hidden from the example: the package must not ask for them.
run_step("${CMAKE_COMMAND}" -S "${EXAMPLE_DIR}" -B "${WORK_DIR}/build" -G "${GENERATOR}"
         "-DCMAKE_PREFIX_PATH=${prefix}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_BUILD_TYPE=${CONFIG}"
         -DCMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON)
file(STRINGS "${WORK_DIR}/build/CMakeCache.txt" found REGEX "^mok_DIR:")
if(NOT found MATCHES "=${prefix}/")
  message(FATAL_ERROR "the example was built against another installation: ${found}")
endif()
run_step("${CMAKE_COMMAND}" --build "${WORK_DIR}/build" --config "${CONFIG}")

run_step("${WORK_DIR}/build/minimal")
message(STATUS "examples/cpp/minimal printed:\n${output}")

if(EXISTS "${prefix}/bin/mok")
  run_step("${prefix}/bin/mok" --help)
endif()
