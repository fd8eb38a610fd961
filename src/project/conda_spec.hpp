// conda's package specs ("numpy=1.20.2=py37_0") turned into what pip and this program call the same thing.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "project/declaration.hpp"
#include "project/requirements_file.hpp"

namespace startrail::project {

// conda's documentation, "Package match specifications".
struct CondaSpec {
  std::string name;       // lower case, as conda calls it
  std::string specifier;  // PEP 440
  std::string build;      // "py37h2d18471_0"
  std::string dropped;    // a version that PEP 440 can't say: "1.7|1.8"
};
// Errors: invalid_input.
[[nodiscard]] Result<CondaSpec> parse_conda_spec(std::string_view text);

// What a conda package is on the Python side.
enum class CondaRole {
  package,    // `distribution` in the package index
  python,     // the interpreter
  cuda,       // its version is the CUDA version
  installer,  // pip, conda
  cpu_build,  // cpuonly
  system,     // `distribution` is the Debian package that does the same for a program
  library,    // brought by wheels or by the base system: nothing to do
};
struct CondaMeaning {
  CondaRole role = CondaRole::package;
  std::string distribution;
};
[[nodiscard]] CondaMeaning conda_meaning(std::string_view name);

// Names that exist only in environments exported on that system; "" for none.
[[nodiscard]] std::string_view foreign_system(std::string_view name);

// Collects specs into a declaration; `finish` writes the summarising notes.
class CondaCollector {
 public:
  CondaCollector(Declaration& declaration, std::string file) : m_declaration(declaration), m_file(std::move(file)) {}
  [[nodiscard]] Result<void> add(std::string_view text, int line);
  void finish();

 private:
  void add_package(const CondaSpec& spec, const CondaMeaning& meaning, const Origin& origin, std::string_view text);
  void take_cuda(const CondaSpec& spec, const Origin& origin);

  Declaration& m_declaration;
  std::string m_file;
  std::vector<std::string> m_skipped;
  std::vector<Fact<std::string>> m_programs;
  std::string_view m_foreign;
  bool m_full_export = false;
  std::optional<Fact<std::string>> m_cuda_of_build;
};

// `conda list --export` written to a .txt file: every line is name=version=build.
[[nodiscard]] bool is_conda_list(const std::vector<JoinedLine>& lines);
[[nodiscard]] Result<void> add_conda_list(Declaration& declaration, const std::vector<JoinedLine>& lines,
                                          const std::string& file);

}  // namespace startrail::project
