# The preset `static`: the programs contain all of their libraries. Debian has no static {fmt} and toml++, so these are
# compiled from their headers.

set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
set(OPENSSL_USE_STATIC_LIBS ON)
set(WEIR_POSTGRESQL OFF CACHE BOOL "")  # a static libpq needs libraries that only the server's packages have
include(${CMAKE_CURRENT_LIST_DIR}/../../../test/platforms/header_only.cmake)
