# Installs what hosts in C and C++ need, by `cmake --install`: the library, its headers, the command alcove-run, and what
# find_package(alcove) and pkg-config read.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# What a person types: model and inputs in, outputs out.
add_executable(alcove_run command/main.cpp command/npy.cpp)
target_include_directories(alcove_run PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_options(alcove_run PRIVATE -O2)
target_link_libraries(alcove_run PRIVATE alcove)
set_target_properties(alcove_run PROPERTIES OUTPUT_NAME alcove-run INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

install(TARGETS alcove EXPORT alcove LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS alcove_run RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES include/alcove.h include/alcove.hpp DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(ALCOVE_PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/alcove)
install(EXPORT alcove NAMESPACE alcove:: FILE alcove-config.cmake DESTINATION ${ALCOVE_PACKAGE})
write_basic_package_version_file(alcove-config-version.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/alcove-config-version.cmake DESTINATION ${ALCOVE_PACKAGE})
configure_file(alcove.pc.in alcove.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/alcove.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
