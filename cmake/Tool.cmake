# SPDX-License-Identifier: Apache-2.0
# mok_cli: the command-line tool, build/<preset>/mok.  mok_tool: everything of it but main(), for the tests.

set(apps "${PROJECT_SOURCE_DIR}/apps")
file(GLOB_RECURSE tool_sources CONFIGURE_DEPENDS "${apps}/mok/*.cpp")
set(tool_main "${apps}/mok/main.cpp")

if(tool_main IN_LIST tool_sources)
  list(REMOVE_ITEM tool_sources "${tool_main}")
  # include/ comes first: where a header of the tool has the name of a public one, <mok/...> means the public one.
  add_library(mok_tool_interface INTERFACE)
  target_include_directories(mok_tool_interface INTERFACE "${PROJECT_SOURCE_DIR}/include" "${apps}")
  target_compile_definitions(mok_tool_interface INTERFACE MOK_VERSION="${PROJECT_VERSION}")
  target_link_libraries(
    mok_tool_interface
    INTERFACE CLI11::CLI11 nlohmann_json::nlohmann_json fmt::fmt-header-only Eigen3::Eigen
              $<TARGET_NAME_IF_EXISTS:mok> $<TARGET_NAME_IF_EXISTS:mok_reference>)
  if(tool_sources)
    add_library(mok_tool STATIC ${tool_sources})
    target_link_libraries(mok_tool PUBLIC mok_tool_interface PRIVATE mok_flags)
    if(MOK_CUDA)
      # The tensors of a layer on a GPU are the tool's own.
      target_compile_definitions(mok_tool PRIVATE MOK_HAS_CUDA=1)
      target_link_libraries(mok_tool PRIVATE CUDA::cudart_static)
    endif()
  else()
    add_library(mok_tool INTERFACE)
    target_link_libraries(mok_tool INTERFACE mok_tool_interface)
  endif()

  add_executable(mok_cli "${tool_main}")
  target_link_libraries(mok_cli PRIVATE mok_tool mok_flags)
  set_target_properties(mok_cli PROPERTIES OUTPUT_NAME mok RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
else()
  message(STATUS "mok_cli: skipped, apps/mok/main.cpp is not there yet")
endif()
