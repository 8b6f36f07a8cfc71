# weir requires C++20 of its consumers and nothing else. main.cpp has lines that -Wshadow and -Wconversion warn about,
# and here a warning is an error.
target_compile_options(consumer PRIVATE -Werror)

foreach(property IN ITEMS INTERFACE_COMPILE_OPTIONS INTERFACE_COMPILE_DEFINITIONS
                          INTERFACE_LINK_OPTIONS)
    get_target_property(value weir::weir ${property})
    if(value)
        message(FATAL_ERROR "weir::weir has ${property}: ${value}")
    endif()
endforeach()
get_target_property(features weir::weir INTERFACE_COMPILE_FEATURES)
if(NOT features STREQUAL "cxx_std_20")
    message(FATAL_ERROR "weir::weir has INTERFACE_COMPILE_FEATURES: ${features}")
endif()
