# SPDX-License-Identifier: Apache-2.0
# stepscope_unit_test(NAME sources… LINK targets…): one gtest binary, each TEST a ctest case (sharded by ctest -j).
find_package(GTest REQUIRED)
include(GoogleTest)
function(stepscope_unit_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "unit;${ARG_LABELS}" TIMEOUT 120)
endfunction()
