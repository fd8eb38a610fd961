# Fakes and programs that tests load or start; included by tests.cmake, so only when tests are on.
# build/<preset>/fakes/libnvidia-ml.so.1 plays GPUs from a scenario file: tests/fakes/nvml/README.md.
add_library(fake_nvml MODULE ${CMAKE_SOURCE_DIR}/tests/fakes/nvml/fake_nvml.cpp)
set_target_properties(fake_nvml PROPERTIES OUTPUT_NAME nvidia-ml SUFFIX ".so.1"
                      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fakes)
foreach(test unit_machine unit_supervise)
  if(TARGET ${test})
    add_dependencies(${test} fake_nvml)
  endif()
endforeach()
