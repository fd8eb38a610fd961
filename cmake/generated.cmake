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

# catalog/*.toml are compiled in as one string each.
file(GLOB catalog_files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/catalog/*.toml)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${catalog_files})
set(embedded "// Written by cmake/generated.cmake from catalog/*.toml.\n#pragma once\n#include <array>\n#include <string_view>\n#include <utility>\nnamespace startrail::catalog {\n")
set(entries "")
foreach(catalog_file ${catalog_files})
  file(READ ${catalog_file} content)
  get_filename_component(stem ${catalog_file} NAME_WE)
  string(APPEND embedded "inline constexpr std::string_view k_${stem}_toml = R\"catalog_(${content})catalog_\";\n")
  string(APPEND entries "    std::pair<std::string_view, std::string_view>{\"catalog/${stem}.toml\", k_${stem}_toml},\n")
endforeach()
list(LENGTH catalog_files catalog_count)
string(APPEND embedded "inline constexpr std::array<std::pair<std::string_view, std::string_view>, ${catalog_count}> k_catalog_files{\n${entries}};\n}  // namespace startrail::catalog\n")
file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/catalog_data.hpp CONTENT "${embedded}" @ONLY)
