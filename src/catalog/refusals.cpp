#include "catalog/refusals.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "machine/versions.hpp"

namespace startrail::catalog {
namespace {

bool has_python(const Combination& row, std::string_view minor) {
  return std::ranges::find(row.pythons, minor) != row.pythons.end();
}

bool has_offered_python(const Combination& row, const PythonDemand& demand) {
  const bool any = !is_offered(demand);
  return std::ranges::any_of(offers(), [&](const Offer& offer) {
    return (any || demand.allows(offer.minor)) && has_python(row, offer.minor);
  });
}

std::string framework_flag(const Combination& row) {
  return fmt::format("`trail run --framework {}=={}`", row.framework, row.newest);
}

void hint_newest(Error& error, const Combination* row) {
  if (row != nullptr) error.with_hint(fmt::format("{} is the newest that works here", framework_flag(*row)));
}

// The same release built for another CUDA, where one exists that this machine runs.
void hint_other_build(Error& error, const Combination& row, std::string_view version, const Hardware& hardware) {
  const std::string release(version.substr(0, version.find('+')));
  for (const auto& other : combinations()) {
    if (other.framework != row.framework || other.series != row.series || other.tag.empty() || other.tag == row.tag ||
        clash_of(other, hardware))
      continue;
    error.with_hint(fmt::format("`{}=={}+{}` is the same release built for CUDA {}, which runs here ({})",
                                row.framework, release.empty() ? row.newest : release, other.tag, other.cuda,
                                other.index));
    return;
  }
}

// Other visible GPUs that would do.
void hint_other_gpus(Error& error, const Combination& row, const Hardware& hardware) {
  std::vector<int> good;
  for (const auto& gpu : hardware.gpus)
    if (covers(row, gpu)) good.push_back(gpu.index);
  if (!good.empty())
    error.with_hint(fmt::format("`CUDA_VISIBLE_DEVICES={}` before the command leaves the other GPU{} out",
                                fmt::join(good, ","), hardware.gpus.size() - good.size() > 1 ? "s" : ""));
}

// The oldest release with a wheel for an offered Python: the nearest to a pin that is too old.
const Combination* oldest_with_wheels(std::string_view framework, const Hardware& hardware,
                                      const PythonDemand& demand) {
  const Combination* oldest = nullptr;
  for (const Combination* row : rows_of(framework, ""))
    if (has_offered_python(*row, demand) && !clash_of(*row, hardware)) oldest = row;
  return oldest;
}

}  // namespace

const Combination* newest_that_works(std::string_view framework, const Hardware& hardware, const PythonDemand& demand) {
  for (const Combination* row : rows_of(framework, ""))
    if (!clash_of(*row, hardware) && has_offered_python(*row, demand)) return row;
  return nullptr;
}

Error hardware_refusal(const Combination& row, std::string_view title, std::string_view version,
                       const Hardware& hardware, const PythonDemand& demand, std::string_view read_from) {
  const Clash clash = *clash_of(row, hardware);
  Error error = clash_error(row, title, hardware, clash, read_from);
  const Combination* newest = newest_that_works(row.framework, hardware, demand);
  if (clash.kind == ClashKind::driver) {
    if (newest != nullptr)
      error.with_hint(fmt::format("{} is the newest that works here, or upgrade the driver", framework_flag(*newest)));
    else
      error.with_hint(fmt::format("upgrade the driver to {} or newer", shown_floor(row, *hardware.driver)));
  } else {
    hint_newest(error, newest);
    hint_other_gpus(error, row, hardware);
  }
  hint_other_build(error, row, version, hardware);
  return std::move(error.with_hint("`--cpu` takes the build without CUDA"));
}

Error python_refusal(const Declared& declared, const Rows& working, const Hardware& hardware,
                     const PythonDemand& demand) {
  std::vector<std::string> minors;
  for (const Combination* row : working)
    for (const auto& minor : row->pythons)
      if (std::ranges::find(minors, minor) == minors.end()) minors.push_back(minor);
  std::ranges::sort(minors, machine::older);
  const bool wheels_on_offer =
      std::ranges::any_of(working, [](const Combination* row) { return has_offered_python(*row, any_python()); });
  Error error =
      base::error(ErrorCode::refused,
                  wheels_on_offer ? fmt::format("{} has wheels for Python {}, but the project asks for Python {}",
                                                declared.title(), shown_minors(minors), demand.text)
                                  : fmt::format("{} has wheels for Python {} only; Python {} are on offer",
                                                declared.title(), shown_minors(minors), shown_offers()));
  error.with_context(
      fmt::format("read from {}{}", declared.places(), wheels_on_offer ? fmt::format(" and {}", demand.where) : ""));
  if (wheels_on_offer) {
    for (const auto& offer : offers())
      if (std::ranges::any_of(working, [&](const Combination* row) { return has_python(*row, offer.minor); })) {
        error.with_hint(fmt::format("`trail lock --python {}` takes a Python that has them", offer.minor));
        break;
      }
  }
  if (const Combination* oldest = oldest_with_wheels(declared.framework, hardware, demand);
      oldest != nullptr && !working.empty() && is_newer(oldest->series, working.front()->series))
    error.with_hint(
        fmt::format("{} is the nearest release with wheels for a Python on offer; other pins of its time may "
                    "have to change with it",
                    framework_flag(*oldest)));
  hint_newest(error, newest_that_works(declared.framework, hardware, demand));
  if (!wheels_on_offer) error.with_hint("bases with an older Python (an OCI image) are not supported by this version");
  return error;
}

Error pins_refusal(const Declared& declared, const Hardware& hardware, const PythonDemand& demand) {
  std::vector<std::string> pins;
  for (const auto* list : {&declared.pins, &declared.torchvision})
    for (const Pin& pin : *list) pins.push_back(fmt::format("{} ({})", pin.as_written, pin.where));
  Error error = base::error(ErrorCode::refused,
                            fmt::format("no release of {} satisfies {}", declared.framework, fmt::join(pins, " and ")));
  const Rows rows = rows_of(declared.framework, "");
  error.with_context(
      fmt::format("the catalog has {} {} to {}", declared.framework, rows.back()->series, rows.front()->series));
  hint_newest(error, newest_that_works(declared.framework, hardware, demand));
  return error;
}

Error stub_refusal(const Declared& declared) {
  return base::error(ErrorCode::refused,
                     fmt::format("tensorflow-gpu ended with 2.11; {} is a stub that can't be installed",
                                 declared.exact ? declared.exact->text() : "what came after"))
      .with_context(fmt::format("read from {}", declared.places()))
      .with_hint(
          fmt::format("write `tensorflow{}` instead: it is the same code, and brings its GPU libraries from 2.14 on",
                      declared.pins.empty() ? "" : declared.pins.front().versions.text()));
}

Error cuda_build_refusal(const Declared& declared) {
  return base::error(ErrorCode::refused,
                     fmt::format("the CPU build was asked for, but {} is a build for CUDA", declared.title()))
      .with_context(fmt::format("read from {}", declared.places()))
      .with_hint(fmt::format("write `{}=={}` without \"+{}\", or leave --cpu (trail.toml: `cpu`) away",
                             declared.framework, declared.exact->text().substr(0, declared.exact->text().find('+')),
                             declared.tag()));
}

}  // namespace startrail::catalog
