# A port that builds the sources of this repository: `vcpkg install weir --overlay-ports=src/package/vcpkg`.

get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS
    FEATURES
        mysql WEIR_MYSQL
        postgres WEIR_POSTGRESQL
        redis WEIR_REDIS
        programs WEIR_BUILD_PROXY
)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS ${FEATURE_OPTIONS})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/weir)
vcpkg_fixup_pkgconfig()
vcpkg_copy_pdbs()

if("programs" IN_LIST FEATURES)
    vcpkg_copy_tools(TOOL_NAMES weir-proxy weir-replay AUTO_CLEAN)
    # The unit of systemd, for packages of distributions.
    file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/lib/systemd" "${CURRENT_PACKAGES_DIR}/debug/lib/systemd")
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
