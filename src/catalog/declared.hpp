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
  std::vector<Pin> torchvision;           // on torchvision, which goes with one series of torch
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
  // All pins allow some release of this series.
  [[nodiscard]] bool admits(const Combination& row) const;
};

// In the order torch, tensorflow, jax. Requirements whose marker rules Linux on x86_64 out don't count; those
// whose marker depends on the Python name the framework but pin nothing.
// `framework` is ChooseOptions::framework. Errors: invalid_input (a specifier that breaks PEP 440: names its place).
[[nodiscard]] Result<std::vector<Declared>> find_declared(const project::Requirements& needs,
                                                          const std::optional<std::string>& framework);

}  // namespace startrail::catalog
