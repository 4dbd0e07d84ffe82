# SPDX-License-Identifier: Apache-2.0
# Warnings are errors for our own code; generated and third-party code is compiled with stepscope_no_warnings().
add_compile_options(-Wall -Wextra -Wshadow -Werror -fno-strict-aliasing)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wthread-safety>)
  # libstdc++ 12's std::stable_sort calls a function that its own headers deprecate.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>)
endif()
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# -g1 keeps back traces useful and halves build time and size.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")

function(stepscope_no_warnings target)
  target_compile_options(${target} PRIVATE -w)
endfunction()
