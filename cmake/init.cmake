# trail-init: PID 1 of every container. Static, because it runs on the image's files, whatever they are.
add_executable(trail-init ${CMAKE_SOURCE_DIR}/src/init/init.cpp)
target_include_directories(trail-init PRIVATE ${CMAKE_SOURCE_DIR}/src)
# Sanitizers need a dynamic program.
target_compile_options(trail-init PRIVATE -O2 -fno-exceptions -fno-rtti -fno-sanitize=all)
target_link_options(trail-init PRIVATE -static -fno-sanitize=all)

if(STARTRAIL_TESTS AND TARGET startrail_sandbox)
  add_executable(contain_program ${CMAKE_SOURCE_DIR}/tests/unit/sandbox/contain_program.cpp)
  target_link_libraries(contain_program PRIVATE startrail_sandbox)
  add_dependencies(contain_program trail-init)
endif()
if(STARTRAIL_TESTS AND TARGET startrail_image)
  add_executable(test_base ${CMAKE_SOURCE_DIR}/tests/unit/sandbox/test_base_program.cpp)
  target_link_libraries(test_base PRIVATE startrail_image)
endif()
