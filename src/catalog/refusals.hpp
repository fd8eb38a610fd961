// What is said when a framework can't work here, with the ways out.
#pragma once

#include <string>
#include <string_view>

#include "catalog/catalog.hpp"
#include "catalog/declared.hpp"
#include "catalog/hardware.hpp"
#include "catalog/pythons.hpp"

namespace startrail::catalog {

// The newest release of the framework on the default index that this hardware runs and that has wheels for an
// offered Python, if possible one that the demand allows; nullptr when there is none.
[[nodiscard]] const Combination* newest_that_works(std::string_view framework, const Hardware& hardware,
                                                   const PythonDemand& demand);

// A clash with the driver or a GPU. `version` is the release that was asked for, "" for a range.
[[nodiscard]] Error hardware_refusal(const Combination& row, std::string_view title, std::string_view version,
                                     const Hardware& hardware, const PythonDemand& demand, std::string_view read_from);

// No Python on offer has wheels for what is pinned.
[[nodiscard]] Error python_refusal(const Declared& declared, const Rows& working, const Hardware& hardware,
                                   const PythonDemand& demand);

// No release satisfies all pins; a pair of torch and torchvision or torchaudio that don't go together is named.
[[nodiscard]] Error pins_refusal(const Declared& declared, const Hardware& hardware, const PythonDemand& demand);

// Every row that the pins allow, `row` first among them, is built for numpy 1, and the project pins numpy 2.
[[nodiscard]] Error numpy_refusal(const Declared& declared, const Combination& row, const Hardware& hardware,
                                  const PythonDemand& demand);

// tensorflow-gpu 2.12 and newer exist only to say that they can't be installed.
[[nodiscard]] Error stub_refusal(const Declared& declared);

// --cpu together with a pinned CUDA build.
[[nodiscard]] Error cuda_build_refusal(const Declared& declared);

}  // namespace startrail::catalog
