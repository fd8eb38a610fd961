# Files written at configure time into build/<preset>/generated/.
# pip's own default index is the product's default: asked of pip here, so that no address is written down in the sources.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
set(STARTRAIL_DEFAULT_INDEX "" CACHE STRING "Package index used when neither uv nor pip is configured; empty: ask pip")
if(NOT STARTRAIL_DEFAULT_INDEX)
  foreach(python ${Python3_EXECUTABLE} /usr/bin/python3)
    execute_process(COMMAND ${python} -c "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
                    OUTPUT_VARIABLE index OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed AND index)
      break()
    endif()
  endforeach()
  if(NOT index)
    message(FATAL_ERROR "pip is not installed for ${Python3_EXECUTABLE}: `./dev setup` installs it, or set STARTRAIL_DEFAULT_INDEX")
  endif()
  set(STARTRAIL_DEFAULT_INDEX "${index}" CACHE STRING "" FORCE)
endif()
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/build_configuration.hpp CONTENT
"// Written by cmake/generated.cmake.
#pragma once
namespace startrail {
inline constexpr const char* k_version = \"${PROJECT_VERSION}\";
inline constexpr const char* k_default_index = \"${STARTRAIL_DEFAULT_INDEX}\";
}  // namespace startrail
")

# Data files that are compiled in, as one string each: `array` holds pairs of a file's name and its text.
function(startrail_embed folder extension header namespace array)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.${extension})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  set(text "// Written by cmake/generated.cmake from ${folder}/*.${extension}.\n#pragma once\n#include <array>\n#include <string_view>\n#include <utility>\nnamespace ${namespace} {\n")
  set(entries "")
  foreach(data_file ${files})
    file(READ ${data_file} content)
    get_filename_component(stem ${data_file} NAME_WE)
    string(APPEND text "inline constexpr std::string_view k_${stem}_${extension} = R\"embedded_(${content})embedded_\";\n")
    string(APPEND entries "    std::pair<std::string_view, std::string_view>{\"${folder}/${stem}.${extension}\", k_${stem}_${extension}},\n")
  endforeach()
  list(LENGTH files count)
  string(APPEND text "inline constexpr std::array<std::pair<std::string_view, std::string_view>, ${count}> ${array}{\n${entries}};\n}  // namespace ${namespace}\n")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/${header} CONTENT "${text}" @ONLY)
endfunction()
startrail_embed(catalog toml catalog_data.hpp startrail::catalog k_catalog_files)
startrail_embed(src/diagnose/rules toml diagnose_rules.hpp startrail::diagnose k_rule_files)
startrail_embed(python/verify py verify_scripts.hpp startrail::image k_verify_scripts)
startrail_embed(catalog/builds toml cuda_build_data.hpp startrail::lock k_build_files)
