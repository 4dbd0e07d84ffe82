# SPDX-License-Identifier: Apache-2.0
# stepscope_unit_test(NAME sources… LINK targets… [LABEL label]): one gtest binary, each TEST a ctest case
# (sharded by ctest -j) with one label, "unit" unless given: ctest's discovery takes no list of them. Tests with the label live
# measure the machine's own scheduling, so they run alone.
find_package(GTest REQUIRED)
include(GoogleTest)
function(stepscope_unit_test name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  set(alone FALSE)
  if(ARG_LABEL STREQUAL "live")
    set(alone TRUE)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${ARG_LABEL} TIMEOUT 120 RUN_SERIAL ${alone})
endfunction()
