# SPDX-License-Identifier: Apache-2.0
# ccache and mold where present: both only change build time.
find_program(STEPSCOPE_CCACHE ccache)
if(STEPSCOPE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${STEPSCOPE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()
find_program(STEPSCOPE_MOLD mold)
if(STEPSCOPE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()
