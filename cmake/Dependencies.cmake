# SPDX-License-Identifier: Apache-2.0
# Makes the targets of the libraries that MoK is built with:
#   Eigen3::Eigen  fmt::fmt-header-only  CLI11::CLI11  nlohmann_json::nlohmann_json  GTest::gtest_main
#   benchmark::benchmark  Threads::Threads
# A header-only library is looked for in MOK_DEPS_DIR first (tools/vendor-headers fills such a folder), then with
# find_package. Whatever is missing is named once, in one sentence, with the packages that bring it.

set(MOK_DEPS_DIR "" CACHE PATH "A folder with the header-only dependencies, for a machine without network")
if(NOT "$ENV{MOK_DEPS_DIR}" STREQUAL "")
  get_filename_component(deps_dir "$ENV{MOK_DEPS_DIR}" ABSOLUTE BASE_DIR "${PROJECT_SOURCE_DIR}")
  set_property(CACHE MOK_DEPS_DIR PROPERTY VALUE "${deps_dir}")
endif()
if(MOK_DEPS_DIR AND NOT IS_DIRECTORY "${MOK_DEPS_DIR}")
  message(FATAL_ERROR "MOK_DEPS_DIR is '${MOK_DEPS_DIR}', which is not a folder.")
endif()

# Makes <target> from <header> below MOK_DEPS_DIR, if it is there.
function(mok_take_from_deps_dir target header)
  if(NOT MOK_DEPS_DIR OR TARGET ${target})
    return()
  endif()
  find_path(root "${header}" NO_CACHE NO_DEFAULT_PATH PATHS "${MOK_DEPS_DIR}"
            PATH_SUFFIXES include eigen3 eigen CLI11/include cli11/include nlohmann/include nlohmann_json/include
                          json/include fmt/include)
  if(root)
    add_library(${target} INTERFACE IMPORTED)
    target_include_directories(${target} INTERFACE "${root}")
  endif()
endfunction()

set(missing_packages "")
macro(mok_require target package apt_package)
  if(NOT TARGET ${target})
    find_package(${package} QUIET)
  endif()
  if(NOT TARGET ${target})
    list(APPEND missing_packages ${apt_package})
  endif()
endmacro()

mok_take_from_deps_dir(Eigen3::Eigen Eigen/Core)
mok_require(Eigen3::Eigen Eigen3 libeigen3-dev)

mok_take_from_deps_dir(fmt::fmt-header-only fmt/format.h)
mok_require(fmt::fmt-header-only fmt libfmt-dev)
if(MOK_DEPS_DIR AND TARGET fmt::fmt-header-only)
  target_compile_definitions(fmt::fmt-header-only INTERFACE FMT_HEADER_ONLY=1)
endif()

if(MOK_BUILD_TOOLS)
  mok_take_from_deps_dir(CLI11::CLI11 CLI/CLI.hpp)
  mok_require(CLI11::CLI11 CLI11 libcli11-dev)
  mok_take_from_deps_dir(nlohmann_json::nlohmann_json nlohmann/json.hpp)
  mok_require(nlohmann_json::nlohmann_json nlohmann_json nlohmann-json3-dev)
endif()

if(MOK_BUILD_TESTS)
  mok_require(GTest::gtest_main GTest libgtest-dev)
endif()

if(MOK_BUILD_BENCH)
  if(MOK_DEPS_DIR AND NOT TARGET benchmark::benchmark)
    find_package(benchmark QUIET)  # Not header-only, so MOK_DEPS_DIR cannot bring it: the benchmarks are left out.
  else()
    mok_require(benchmark::benchmark benchmark libbenchmark-dev)
  endif()
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

if(missing_packages)
  list(JOIN missing_packages " " missing_packages)
  message(FATAL_ERROR "MoK is built with libraries that are not on this machine: "
                      "install them with 'apt install ${missing_packages}'.")
endif()
