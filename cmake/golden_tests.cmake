# What trail prints, word for word: tests/golden/cases.
if(TARGET trail)
  add_test(NAME golden COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/golden/run_golden.py $<TARGET_FILE:trail>)
  set_tests_properties(golden PROPERTIES LABELS golden TIMEOUT 300)
endif()
