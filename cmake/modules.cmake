# One folder under src/ = one static library. The levels of docs/reference/modules.md are checked by `./dev lint`.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CURL REQUIRED)
set(OPENSSL_USE_STATIC_LIBS TRUE) # only SHA-256 is used; the shared library adds 1.4 ms to every start
find_package(OpenSSL REQUIRED)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET libarchive)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(PCRE2 REQUIRED libpcre2-8)
find_library(PCRE2_STATIC libpcre2-8.a HINTS ${PCRE2_LIBRARY_DIRS} REQUIRED) # a shared one would add to every start

# startrail_module(name [LINK_PUBLIC modules...] [LINK_PRIVATE libraries...]); `engine/local` becomes startrail_engine_local.
function(startrail_module folder)
  cmake_parse_arguments(ARG "" "" "LINK_PUBLIC;LINK_PRIVATE" ${ARGN})
  string(REPLACE "/" "_" suffix ${folder})
  set(target startrail_${suffix})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.cpp ${CMAKE_SOURCE_DIR}/src/${folder}/linux/*.cpp
       ${CMAKE_SOURCE_DIR}/src/${folder}/gpu/*.cpp ${CMAKE_SOURCE_DIR}/src/${folder}/oci/*.cpp
       ${CMAKE_SOURCE_DIR}/src/${folder}/registry/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_library(${target} STATIC ${sources})
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/src ${CMAKE_BINARY_DIR}/generated)
  list(TRANSFORM ARG_LINK_PUBLIC PREPEND startrail_)
  target_link_libraries(${target} PUBLIC ${ARG_LINK_PUBLIC} PRIVATE ${ARG_LINK_PRIVATE})
endfunction()

# libcurl and libarchive are loaded when they are needed (src/base/*_on_demand.cpp): only their headers are used here.
startrail_module(base LINK_PRIVATE ${CMAKE_DL_LIBS} OpenSSL::Crypto yaml-cpp Threads::Threads)
if(TARGET startrail_base)
  target_link_libraries(startrail_base PUBLIC fmt::fmt nlohmann_json::nlohmann_json)
endif()
startrail_module(db LINK_PUBLIC base LINK_PRIVATE PkgConfig::SQLITE)
startrail_module(project LINK_PUBLIC base)
startrail_module(machine LINK_PUBLIC base LINK_PRIVATE ${CMAKE_DL_LIBS})
startrail_module(catalog LINK_PUBLIC base project machine)
startrail_module(sandbox LINK_PUBLIC base machine)
startrail_module(volume LINK_PUBLIC base)
startrail_module(lock LINK_PUBLIC catalog sandbox)
startrail_module(diagnose LINK_PUBLIC machine project LINK_PRIVATE ${PCRE2_STATIC})
startrail_module(image LINK_PUBLIC lock LINK_PRIVATE PkgConfig::ISAL OpenSSL::Crypto Threads::Threads)
startrail_module(run LINK_PUBLIC db machine volume sandbox)
startrail_module(supervise LINK_PUBLIC run image LINK_PRIVATE Threads::Threads)
startrail_module(engine/local LINK_PUBLIC run supervise)
startrail_module(app LINK_PUBLIC project catalog diagnose lock image volume run engine_local)

include(cmake/init.cmake)
include(cmake/programs.cmake OPTIONAL)
