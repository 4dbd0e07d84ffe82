# SPDX-License-Identifier: Apache-2.0
# Named sanitizer builds: -DSTEPSCOPE_SANITIZE=address (with UB) or thread. The agent library and the eBPF objects never
# carry a sanitizer; their logic is tested through unit-test builds of the same sources.
set(STEPSCOPE_SANITIZE "" CACHE STRING "address | thread | empty")
if(STEPSCOPE_SANITIZE STREQUAL "address")
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_compile_options(-fsanitize=fuzzer-no-link)  # coverage for the fuzz targets
  endif()
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(STEPSCOPE_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
elseif(STEPSCOPE_SANITIZE)
  message(FATAL_ERROR "STEPSCOPE_SANITIZE=${STEPSCOPE_SANITIZE} is unknown; use address or thread")
endif()
if(STEPSCOPE_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1")
endif()
