# SPDX-License-Identifier: Apache-2.0
configure_file(version.h.in ${CMAKE_CURRENT_BINARY_DIR}/daemon/version.h @ONLY)
add_executable(stepscoped main.cc daemon.cc discovery.cc job_observer.cc service_socket.cc sources_from_config.cc)
target_include_directories(stepscoped PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
target_link_libraries(stepscoped PRIVATE stepscope_config stepscope_capabilities stepscope_away stepscope_own stepscope_host stepscope_ingest stepscope_live
                                         stepscope_rpc stepscope_retention stepscope_upload stepscope_web stepscope_pipeline stepscope_storage
                                         CLI11::CLI11 absl::synchronization spdlog::spdlog Threads::Threads)
