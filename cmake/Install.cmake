# SPDX-License-Identifier: Apache-2.0
# Installs the headers, the library with the package that find_package(mok) finds, and the tool.

include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(TARGET mok)
  set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/mok")
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/mok" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
          FILES_MATCHING PATTERN "*.h")
  install(TARGETS mok EXPORT mokTargets INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(EXPORT mokTargets NAMESPACE mok:: DESTINATION "${package_dir}")
  configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/mokConfig.cmake.in"
                                "${PROJECT_BINARY_DIR}/mokConfig.cmake" INSTALL_DESTINATION "${package_dir}")
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/mokConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/mokConfig.cmake" "${PROJECT_BINARY_DIR}/mokConfigVersion.cmake"
          DESTINATION "${package_dir}")
  install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DOCDIR}")
endif()

if(TARGET mok_cli)
  set_target_properties(mok_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS mok_cli)
endif()
