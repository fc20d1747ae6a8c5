# SPDX-License-Identifier: Apache-2.0
# test_<folder>: one executable for each folder of tests/ that holds .cpp files. Its tests carry the folder as label.

include(GoogleTest)
set(tests "${PROJECT_SOURCE_DIR}/tests")
set(src "${PROJECT_SOURCE_DIR}/src")

function(mok_add_test_folder folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${tests}/${folder}/*.cpp")
  set(test test_${folder})
  add_executable(${test} ${sources})
  target_include_directories(${test} PRIVATE "${PROJECT_SOURCE_DIR}/include" "${src}" "${tests}"
                                             "${PROJECT_SOURCE_DIR}/apps")
  target_link_libraries(${test} PRIVATE GTest::gtest_main fmt::fmt-header-only $<TARGET_NAME_IF_EXISTS:mok>
                                        $<TARGET_NAME_IF_EXISTS:mok_reference> mok_flags)
  if(folder STREQUAL "apps")
    target_link_libraries(${test} PRIVATE mok_tool)
    add_dependencies(${test} mok_cli)
    target_compile_definitions(${test} PRIVATE MOK_TOOL_PATH="$<TARGET_FILE:mok_cli>")
  endif()
  set(properties TIMEOUT 300 LABELS ${folder})
  if(folder STREQUAL "cuda")
    target_link_libraries(${test} PRIVATE CUDA::cudart_static)
    # One at a time: passes of two processes would take turns on the GPU, and their deadlines run on.
    list(APPEND properties RESOURCE_LOCK gpu)
  endif()
  set_target_properties(${test} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  # PRE_TEST: the tests are listed when ctest runs, in ctest's environment; a build never runs what it built.
  gtest_discover_tests(${test} TEST_PREFIX ${folder}. NO_PRETTY_TYPES NO_PRETTY_VALUES
                       DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES ${properties})
endfunction()

# cuda.all: one skipped test in the place of test_cuda, where the library has no CUDA backend.
function(mok_add_skipped_cuda_tests)
  add_test(NAME cuda.all COMMAND "${CMAKE_COMMAND}" -P "${tests}/cuda/skipped.cmake")
  set_tests_properties(cuda.all PROPERTIES SKIP_REGULAR_EXPRESSION "GPU tests skipped" LABELS cuda)
endfunction()

file(GLOB_RECURSE test_sources RELATIVE "${tests}" CONFIGURE_DEPENDS "${tests}/*.cpp")
list(FILTER test_sources INCLUDE REGEX "/")
list(TRANSFORM test_sources REPLACE "/.*" "")
list(REMOVE_DUPLICATES test_sources)
foreach(folder IN LISTS test_sources)
  if(MOK_TEST_FOLDERS AND NOT folder IN_LIST MOK_TEST_FOLDERS)
    continue()
  elseif(folder STREQUAL "apps" AND NOT TARGET mok_cli)
    message(STATUS "test_apps: skipped, the tool is not built here")
  elseif(folder STREQUAL "cuda" AND NOT MOK_CUDA)
    mok_add_skipped_cuda_tests()
  else()
    mok_add_test_folder(${folder})
  endif()
endforeach()

# Compiles tests/**/*.cu, which run nowhere: what program/ and ops/ share with the device must compile for it.
if(MOK_CUDA)
  file(GLOB_RECURSE device_sources CONFIGURE_DEPENDS "${tests}/*.cu")
  if(device_sources)
    add_library(mok_device_compile_check OBJECT ${device_sources})
    target_include_directories(mok_device_compile_check PRIVATE "${PROJECT_SOURCE_DIR}/include" "${src}" "${tests}")
    target_link_libraries(mok_device_compile_check PRIVATE mok_flags)
  else()
    message(STATUS "mok_device_compile_check: nothing to compile, tests/ holds no .cu file yet")
    add_custom_target(mok_device_compile_check)
  endif()
endif()

# build.spills: that the compiler flags which refuse spilled registers do so.
if(MOK_CUDA)
  add_test(NAME build.spills COMMAND "${PROJECT_SOURCE_DIR}/tools/check_spills" "${CMAKE_CUDA_COMPILER}")
  set_tests_properties(build.spills PROPERTIES TIMEOUT 300 LABELS build)
endif()

# The checks of the repository check themselves.
if(NOT MOK_SANITIZE)
  find_package(Python3 3.11 QUIET COMPONENTS Interpreter)
  file(GLOB selftests CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/tests/*_selftest.py")
  foreach(selftest IN LISTS selftests)
    get_filename_component(name "${selftest}" NAME_WE)
    if(Python3_FOUND)
      add_test(NAME lint.${name} COMMAND Python3::Interpreter -B "${selftest}")
      set_tests_properties(lint.${name} PROPERTIES TIMEOUT 300 LABELS lint)
    else()
      message(STATUS "lint.${name}: skipped, there is no Python 3.11 or newer")
    endif()
  endforeach()
endif()

# install.example: installs into a folder of the build tree, then builds and runs examples/cpp against that.
file(GLOB example CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/cpp/minimal.cpp")
if(NOT TARGET mok OR NOT PROJECT_IS_TOP_LEVEL)
  message(STATUS "install.example: skipped, there is no library to install")
elseif(MOK_SANITIZE)
  message(STATUS "install.example: skipped, a library with sanitizers is not for installing")
elseif(NOT example)
  message(STATUS "install.example: skipped, examples/cpp/minimal.cpp is not there yet")
else()
  add_test(
    NAME install.example
    COMMAND
      "${CMAKE_COMMAND}" "-DBUILD_DIR=${PROJECT_BINARY_DIR}" "-DEXAMPLE_DIR=${PROJECT_SOURCE_DIR}/examples/cpp"
      "-DWORK_DIR=${PROJECT_BINARY_DIR}/install-example" "-DGENERATOR=${CMAKE_GENERATOR}"
      "-DCXX_COMPILER=${CMAKE_CXX_COMPILER}" "-DCONFIG=$<CONFIG>" -P "${tests}/install/example.cmake")
  set_tests_properties(install.example PROPERTIES TIMEOUT 300 LABELS install)
endif()
