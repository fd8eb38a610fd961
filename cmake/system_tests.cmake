# tests/system/test_*.py → one ctest entry each, run against the built `trail`.
# Suites share one state folder (bases, wheels), so that nothing is downloaded twice.
file(GLOB system_suites CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/system/test_*.py)
foreach(suite ${system_suites})
  get_filename_component(stem ${suite} NAME_WE)
  string(REPLACE "test_" "" short ${stem})
  set(labels system)
  if(short MATCHES "^(fresh_system|cuda_extension)")
    set(labels system long)
  endif()
  add_test(NAME system.${short} COMMAND ${Python3_EXECUTABLE} ${suite})
  set_tests_properties(system.${short} PROPERTIES LABELS "${labels}" TIMEOUT 3600
                       ENVIRONMENT "TRAIL=${CMAKE_BINARY_DIR}/trail;STARTRAIL_TEST_HOME=${CMAKE_BINARY_DIR}/test-home")
endforeach()
