// What one kind of file says; the readers make these, `read` puts them together.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "project/folder.hpp"
#include "project/requirements.hpp"

namespace startrail::project {

struct Declaration {
  DeclaredBy declared_by = DeclaredBy::nothing;
  std::string file;  // the main one, for notes
  std::vector<Requirement> packages, constraints;
  std::optional<Fact<std::string>> python, cuda, existing_lock;
  IndexOptions indexes;
  std::vector<Fact<std::string>> system_packages, notes;
  std::vector<SourceFile> sources;

  [[nodiscard]] bool declares_packages() const { return !packages.empty() || existing_lock.has_value(); }
  void note(Origin origin, std::string text) {
    notes.push_back({.value = std::move(text), .origin = std::move(origin)});
  }
};

// Every reader answers "nothing of mine is here" with nullopt, and bad content with an error.
using Reading = Result<std::optional<Declaration>>;

[[nodiscard]] Reading read_pylock(const Folder& folder);
[[nodiscard]] Reading read_uv_lock(const Folder& folder);
[[nodiscard]] Reading read_pyproject(const Folder& folder);
[[nodiscard]] Reading read_requirements(const Folder& folder);
[[nodiscard]] Reading read_conda(const Folder& folder);
[[nodiscard]] Reading read_pipfile(const Folder& folder);
[[nodiscard]] Reading read_setup(const Folder& folder);  // setup.cfg and setup.py
[[nodiscard]] Reading read_requirement_list(const Folder& folder);

// The user's own choice of files (`-r`): what each is, is told from its name.
[[nodiscard]] Result<Declaration> read_named_files(const Folder& folder, const std::vector<std::string>& files);

// The parts of the above that take a file by name.
[[nodiscard]] Result<Declaration> read_pylock_file(const Folder& folder, const std::string& file);
[[nodiscard]] Result<Declaration> read_conda_file(const Folder& folder, const std::string& file);

// A dependency that names Python itself (`python>=3.8`) is a fact about the interpreter, and pip is the installer,
// not something that the code needs. True when `requirement` was one of these and is dealt with.
[[nodiscard]] bool take_interpreter(Declaration& declaration, const Requirement& requirement);

// "3.8", "==3.8.10", ">=3.8": what a PEP 440 set for the interpreter is. A full version means its minor, since
// patch releases of Python are interchangeable and mostly not to be had.
[[nodiscard]] Result<std::string> python_specifier(std::string_view text);

// Of several files of one kind, in the order of preference: the first that declares packages, and those after it.
struct FirstOfKind {
  std::optional<Declaration> taken;
  std::vector<std::string> others;
};
[[nodiscard]] Result<FirstOfKind> first_that_declares(
    const std::vector<std::string>& names, const std::function<Result<Declaration>(const std::string&)>& read);

// "a, b, c and 4 more".
[[nodiscard]] std::string enumerated(const std::vector<std::string>& names, std::size_t limit = 5);

}  // namespace startrail::project
