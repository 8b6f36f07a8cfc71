# The tests that must see the mistakes of the lists here: `mutant/<name>`, in a build of the copy that `mutate` has made
# below WEIR_MUTANTS. Each needs its control, which is the same test with no mistake chosen.

find_package(Python3 3.11 COMPONENTS Interpreter REQUIRED)
add_custom_target(mutants)

# The command that follows is registered as the test of the mutant, and once as its control. It must fail by what a
# test of its kind says of an assertion, so that a crash or a broken environment does not count.
function(weir_see name failure target)
    add_dependencies(mutants ${target})
    set(programs WEIR_PROXY=$<TARGET_FILE:weir-proxy> WEIR_REPLAY=$<TARGET_FILE:weir-replay>)
    add_test(NAME mutant/${name} COMMAND ${ARGN})
    weir_control("${ARGN}" control)
    set_tests_properties(mutant/${name} PROPERTIES LABELS mutant TIMEOUT 300
        ENVIRONMENT "WEIR_MUTANT=${name};${programs}" FIXTURES_REQUIRED "${control}")
    if(failure)
        set_tests_properties(mutant/${name} PROPERTIES PASS_REGULAR_EXPRESSION "${failure}"
            FAIL_REGULAR_EXPRESSION "memory access violation;Segmentation fault;signal: ")
    endif()
endfunction()

# The control of this command, registered at its first use: the name of it is the fixture.
function(weir_control command result)
    string(SHA1 id "${command}")
    get_property(name GLOBAL PROPERTY weir_control_${id})
    if(NOT name)
        get_property(number GLOBAL PROPERTY weir_controls)
        math(EXPR number "0${number} + 1")
        set_property(GLOBAL PROPERTY weir_controls ${number})
        set(name control/${number})
        set_property(GLOBAL PROPERTY weir_control_${id} ${name})
        add_test(NAME ${name} COMMAND ${command})
        set_tests_properties(${name} PROPERTIES LABELS control TIMEOUT 300 FIXTURES_SETUP ${name}
            ENVIRONMENT "${programs}")
    endif()
    set(${result} ${name} PARENT_SCOPE)
endfunction()

# The explorer must find it: a violation of the invariant within so many schedules. Most are found within 200; the bound
# leaves room for other schedules. Its control is that nothing is violated in fewer.
function(weir_add_explorer_mutant name explorer policy invariant)
    set(schedules 100000)
    if(ARGC GREATER 4)
        set(schedules ${ARGV4})
    endif()
    set(callers 64)
    if(explorer STREQUAL "explore_chain")
        set(callers 6)
    endif()
    set(command ${explorer} --policy ${policy} --callers ${callers} --minimise 0)
    add_dependencies(mutants ${explorer})
    if(invariant STREQUAL "holds")
        add_test(NAME mutant/${name} COMMAND ${command} --seed 1000001 --schedules ${schedules})
    else()
        add_test(NAME mutant/${name} COMMAND ${command} --schedules ${schedules} --expect ${invariant})
    endif()
    weir_control("${command};--schedules;2000" control)
    set_tests_properties(mutant/${name} PROPERTIES LABELS mutant TIMEOUT 300
        ENVIRONMENT WEIR_MUTANT=${name} FIXTURES_REQUIRED "${control}")
endfunction()

# A unit test must fail; a filter of Boost.Test may follow.
function(weir_add_unit_mutant name path)
    get_property(command GLOBAL PROPERTY weir_command_${path})
    if(NOT command)
        message(FATAL_ERROR "${name}: there is no test ${path}")
    endif()
    list(POP_FRONT command program)
    if(ARGC GREATER 2)
        list(PREPEND command --run_test=${ARGV2})
    endif()
    weir_see(${name} "failures? (is|are) detected" ${program} ${program} ${command})
endfunction()

# A test in Python must fail; names of cases may follow.
function(weir_add_script_mutant name path)
    weir_see(${name} "FAILED .failures=" weir-proxy
        ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/test/${path} ${ARGN})
    add_dependencies(mutants weir-replay)
endfunction()

include(${WEIR_MUTANTS}/tests.cmake)
