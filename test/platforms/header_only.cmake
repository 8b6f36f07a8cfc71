# Boost, {fmt} and toml++ as header-only libraries, for a standard library or an architecture for which this machine has
# no binaries of them. Include this file by CMAKE_PROJECT_TOP_LEVEL_INCLUDES.

# Only these headers: a cross compiler must not use other headers of /usr/include.
set(headers ${PROJECT_BINARY_DIR}/header_only)
file(MAKE_DIRECTORY ${headers})
foreach(header IN ITEMS boost/version.hpp fmt/core.h toml++/toml.h)
    cmake_path(GET header PARENT_PATH library)
    find_path(WEIR_${library} ${header} PATHS /usr/include /usr/local/include NO_CMAKE_FIND_ROOT_PATH REQUIRED)
    mark_as_advanced(WEIR_${library})
    file(CREATE_LINK ${WEIR_${library}}/${library} ${headers}/${library} SYMBOLIC)
endforeach()

foreach(target IN ITEMS Boost::headers fmt::fmt tomlplusplus::tomlplusplus)
    add_library(${target} INTERFACE IMPORTED GLOBAL)
    target_include_directories(${target} SYSTEM INTERFACE ${headers})
endforeach()
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
target_compile_definitions(tomlplusplus::tomlplusplus INTERFACE TOML_HEADER_ONLY=1)

# Boost was found, without any of its libraries.
set(CMAKE_DISABLE_FIND_PACKAGE_Boost ON)
set(Boost_FOUND ON)
set(Boost_INCLUDE_DIRS ${headers})
