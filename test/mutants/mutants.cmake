# The tests that must find the mistakes of the lists here: `mutant/<name>`, in a build of the copy that `mutate` has made
# below WEIR_MUTANTS. Each needs its control: the same test without a mistake.

find_package(Python3 3.11 COMPONENTS Interpreter REQUIRED)
add_custom_target(mutants)

# Registers the control `name`, once for any number of mutants that need it.
function(weir_control name)
    get_property(known GLOBAL PROPERTY weir_control_${name})
    if(NOT known)
        set_property(GLOBAL PROPERTY weir_control_${name} ON)
        add_test(NAME ${name} COMMAND ${ARGN})
        set_tests_properties(${name} PROPERTIES LABELS control TIMEOUT 300 FIXTURES_SETUP ${name}
            ENVIRONMENT "${programs}")
    endif()
endfunction()

# The command must fail, by an assertion, a crash or a hang. A broken environment fails the control, too.
function(weir_see name test)
    set(programs WEIR_PROXY=$<TARGET_FILE:weir-proxy> WEIR_REPLAY=$<TARGET_FILE:weir-replay>)
    add_test(NAME mutant/${name} COMMAND timeout 200 ${ARGN})
    weir_control("control/${test}" ${ARGN})
    set_tests_properties(mutant/${name} PROPERTIES LABELS mutant TIMEOUT 300 WILL_FAIL TRUE
        ENVIRONMENT "WEIR_MUTANT=${name};${programs}" FIXTURES_REQUIRED "control/${test}")
endfunction()

# The explorer must find a violation of the invariant within the number of schedules. Most are found within 200; the bound
# leaves room for other schedules. The control runs without a mistake and must find no violation.
function(weir_add_explorer_mutant name explorer policy invariant)
    set(schedules 100000)
    if(ARGC GREATER 4)
        set(schedules ${ARGV4})
    endif()
    set(callers 64)
    if(explorer MATCHES "^explore_(chain|tree)$")
        set(callers 6)
    endif()
    set(expected --expect ${invariant})
    if(invariant STREQUAL "holds")
        set(expected --seed 1000001)
    endif()
    set(command ${explorer} --policy ${policy} --callers ${callers} --minimise 0)
    add_dependencies(mutants ${explorer})
    add_test(NAME mutant/${name} COMMAND ${command} --schedules ${schedules} ${expected})
    weir_control(control/${explorer}/${policy} ${command} --schedules 2000)
    set_tests_properties(mutant/${name} PROPERTIES LABELS mutant TIMEOUT 300
        ENVIRONMENT WEIR_MUTANT=${name} FIXTURES_REQUIRED control/${explorer}/${policy})
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
        string(APPEND path /${ARGV2})
    endif()
    add_dependencies(mutants ${program})
    weir_see(${name} "${path}" $<TARGET_FILE:${program}> ${command})
endfunction()

# A test in Python must fail; names of cases may follow.
function(weir_add_script_mutant name path)
    add_dependencies(mutants weir-proxy weir-replay)
    list(JOIN ARGN / cases)
    weir_see(${name} ${path}/${cases}
        ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/test/${path} ${ARGN})
endfunction()

include(${WEIR_MUTANTS}/tests.cmake)
