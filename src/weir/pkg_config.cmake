# Installs a file for pkg-config for each library. Its paths are relative to the file, so a moved prefix works.

set(pc_prefix ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    file(RELATIVE_PATH up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
    string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${up}")
endif()
cmake_path(APPEND pc_includedir "\${prefix}" "${CMAKE_INSTALL_INCLUDEDIR}")
cmake_path(APPEND pc_libdir "\${prefix}" "${CMAKE_INSTALL_LIBDIR}")

# Installs NAME.pc. REQUIRES: modules whose headers or libraries the user's code needs. INSIDE: modules that only the
# library uses. A program that links the static library links these, too; the shared library links them itself.
function(weir_install_pc pc_name)
    cmake_parse_arguments(PARSE_ARGV 1 arg "" "DESCRIPTION" "FLAGS;LIBS;REQUIRES;INSIDE")
    set(pc_description "${arg_DESCRIPTION}")
    set(pc_requires ${arg_REQUIRES})
    set(pc_requires_private)
    if(BUILD_SHARED_LIBS)
        set(pc_requires_private ${arg_INSIDE})
    else()
        list(APPEND pc_requires ${arg_INSIDE})
    endif()
    list(JOIN pc_requires ", " pc_requires)
    list(JOIN pc_requires_private ", " pc_requires_private)
    list(JOIN arg_FLAGS " " pc_flags)
    list(JOIN arg_LIBS " " pc_libs)
    set(pc_file ${CMAKE_CURRENT_BINARY_DIR}/${pc_name}.pc)
    configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/weir.pc.in ${pc_file} @ONLY)
    install(FILES ${pc_file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

# The user's code includes Asio, which needs the library of threads.
weir_install_pc(weir DESCRIPTION "${PROJECT_DESCRIPTION}" REQUIRES fmt
    FLAGS -DWEIR_COMPILED_LIMITERS LIBS -lweir_limiters -lweir ${CMAKE_THREAD_LIBS_INIT})
if(WEIR_MYSQL)
    weir_install_pc(weir-mysql DESCRIPTION "Limiters that share their counts through a MySQL or MariaDB server"
        REQUIRES weir INSIDE openssl LIBS -lweir_mysql)
endif()
if(WEIR_REDIS)
    weir_install_pc(weir-redis DESCRIPTION "Limiters that share their counts through a Redis server"
        REQUIRES weir INSIDE openssl LIBS -lweir_redis)
endif()
if(WEIR_POSTGRESQL)
    weir_install_pc(weir-postgres DESCRIPTION "Limiters that share their counts through a PostgreSQL server"
        REQUIRES weir INSIDE libpq LIBS -lweir_postgres)
endif()
