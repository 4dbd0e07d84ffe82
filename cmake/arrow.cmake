# SPDX-License-Identifier: Apache-2.0
# Arrow C++ for the Parquet/S3 module: system packages where they exist, else the libraries inside a pyarrow wheel.
# Result: target stepscope_arrow (interface) and, for the wheel, STEPSCOPE_ARROW_LIBRARIES, the files to lay beside the module.
option(STEPSCOPE_ARROW "Build the Parquet/S3 module; without it nothing can be uploaded" ON)
set(STEPSCOPE_PYARROW_PYTHON "" CACHE FILEPATH "Python whose pyarrow gives Arrow C++ where the system has none")
set(STEPSCOPE_ARROW_LIBRARIES)

# Sets pyarrow_paths to "include;libdir;so_version" of the first candidate that imports pyarrow.
function(stepscope_find_pyarrow)
  foreach(python ${STEPSCOPE_PYARROW_PYTHON} ${STEPSCOPE_VENV_PYTHON} ${Python3_EXECUTABLE} $ENV{STEPSCOPE_VENV}/bin/python python3)
    execute_process(
      COMMAND ${python} -c
              "import pyarrow as p; print(p.get_include(), p.get_library_dirs()[0], p.cpp_build_info.so_version, sep=';', end='')"
      OUTPUT_VARIABLE paths RESULT_VARIABLE failed ERROR_QUIET)
    if(NOT failed)
      set(pyarrow_paths "${paths}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

if(STEPSCOPE_ARROW AND NOT TARGET stepscope_arrow)
  find_package(Arrow CONFIG QUIET)
  find_package(Parquet CONFIG QUIET)
  if(TARGET Arrow::arrow_shared AND TARGET Parquet::parquet_shared)
    add_library(stepscope_arrow INTERFACE)
    target_link_libraries(stepscope_arrow INTERFACE Arrow::arrow_shared Parquet::parquet_shared)
    message(STATUS "Arrow ${Arrow_VERSION}: system packages")
  else()
    stepscope_find_pyarrow()
    if(pyarrow_paths)
      list(GET pyarrow_paths 0 include)
      list(GET pyarrow_paths 1 libraries)
      list(GET pyarrow_paths 2 version)
      add_library(stepscope_arrow INTERFACE)
      target_include_directories(stepscope_arrow SYSTEM INTERFACE ${include})
      foreach(name arrow parquet arrow_s3)  # S3 has a library of its own since Arrow 26
        set(file ${libraries}/lib${name}.so.${version})
        if(EXISTS ${file})
          list(APPEND STEPSCOPE_ARROW_LIBRARIES ${file})
          target_link_libraries(stepscope_arrow INTERFACE ${file})
        endif()
      endforeach()
      message(STATUS "Arrow ${version}: pyarrow wheel in ${libraries}")
    else()
      set(severity FATAL_ERROR)
      if(STEPSCOPE_ONLY)
        set(severity WARNING)  # a partial build may do without
      endif()
      message(${severity} "No Arrow C++: neither find_package(Arrow, Parquet) nor a Python with pyarrow. Run script/bootstrap, or set "
                          "-DSTEPSCOPE_PYARROW_PYTHON=/path/to/python, or build without uploads: -DSTEPSCOPE_ARROW=OFF")
    endif()
  endif()
endif()
