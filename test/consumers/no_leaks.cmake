# weir asks its consumers for C++20 and for nothing else. main.cpp has a line that -Wshadow and
# -Wconversion would complain about, and here a complaint is an error.
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
