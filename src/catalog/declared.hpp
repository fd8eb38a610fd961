// Which frameworks a project names, and how tightly.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "catalog/catalog.hpp"
#include "catalog/rows.hpp"
#include "project/requirements.hpp"
#include "project/version.hpp"

namespace startrail::catalog {

// A version set asked of a framework, or of a package that is released with it.
struct Pin {
  std::string package;  // "torch"
  project::SpecifierSet versions;
  std::string as_written;  // "torch==1.4.0"
  std::string where;       // "requirements.txt:1"
};

enum class Flavour {
  plain,
  gpu_package,  // tensorflow-gpu: ends at 2.11, 2.12 is a stub that refuses to install
  cpu_package,  // tensorflow-cpu
};

enum class SourceOf {
  index,
  elsewhere,  // VCS, archive, folder, nightly: its version is not known here
};

struct Declared {
  std::string framework;                  // "torch"
  std::string package;                    // the name that the project uses: "tensorflow-gpu"
  std::vector<Pin> pins;                  // on the framework itself
  std::vector<Pin> companions;            // on torchvision and torchaudio, which go with one series of torch
  std::vector<Pin> numpy;                 // on numpy, whose 2.0 broke what was built before
  std::optional<project::Version> exact;  // "==1.12.1+cu113"
  std::string where;                      // the first place that names it
  Flavour flavour = Flavour::plain;
  SourceOf source = SourceOf::index;
  std::vector<std::string> extras;

  // "cu113" or "cpu" of an exact version with a local part, else "".
  [[nodiscard]] std::string tag() const { return exact ? exact->local() : ""; }
  // For messages: "torch 1.4.0", "torch>=2.11", "torch".
  [[nodiscard]] std::string title() const;
  // Where it was read: the pins' places, else the first place that names it.
  [[nodiscard]] std::string places() const;
  // All pins on the framework itself allow some release of this series.
  [[nodiscard]] bool pins_admit(const Combination& row) const;
  // Those on packages that are released with it do, too.
  [[nodiscard]] bool admits(const Combination& row) const;
  // The first pin on numpy that this series can't live with; nullptr when there is none.
  [[nodiscard]] const Pin* numpy_against(const Combination& row) const;
};

// The series of torchvision or torchaudio that was released with this torch; "" when there is none.
[[nodiscard]] const std::string& series_of(const Combination& row, std::string_view companion);

struct Frameworks {
  std::vector<Declared> declared;
  std::vector<std::string> left_out;  // packages of frameworks in whose place --framework puts another
};

// In the order torch, tensorflow, jax. Requirements whose marker rules Linux on x86_64 out don't count; those
// whose marker depends on the Python name the framework but pin nothing.
// ChooseOptions::framework takes the place of what the project says of it; a framework that the project doesn't name
// takes the place of those that it names. Errors: invalid_input (a specifier that breaks PEP 440: names its place).
[[nodiscard]] Result<Frameworks> find_declared(const project::Requirements& needs, const ChooseOptions& options);

}  // namespace startrail::catalog
