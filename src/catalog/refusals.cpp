#include "catalog/refusals.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "machine/versions.hpp"

namespace startrail::catalog {
namespace {

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
  if (!wheels_on_offer)
    error.with_hint("or run in an OCI image that has that Python: trail run --image REF -- COMMAND");
  return error;
}

namespace {

std::string told(const Pin& pin) {
  return fmt::format("{} ({})", pin.as_written, pin.where);
}

// "torchvision==0.15.1 (requirements.txt:2) goes with torch 2.0, not with torch==1.11.0 (requirements.txt:1)".
Error pair_refusal(const Declared& declared, const Pin& companion, const Combination& asked,
                   const Combination* fitting) {
  const std::string own = declared.pins.empty() ? declared.title() : told(declared.pins.front());
  Error error = base::error(
      ErrorCode::refused,
      fitting == nullptr ? fmt::format("no torch of the catalog goes with {}, and {} goes with {} {}", told(companion),
                                       own, companion.package, series_of(asked, companion.package))
                         : fmt::format("{} goes with torch {}, not with {}", told(companion), fitting->series, own));
  error.with_context(fmt::format("each release of {} is built for one release of torch", companion.package));
  error.with_hint(fmt::format("write `{}=={}.*` ({}), which goes with torch {}", companion.package,
                              series_of(asked, companion.package), companion.where, asked.series));
  if (fitting != nullptr && !declared.pins.empty())
    error.with_hint(fmt::format("or `torch=={}` ({}), which goes with {}", fitting->newest, declared.pins.front().where,
                                companion.as_written));
  return error;
}

// The first pin on torchvision or torchaudio that no torch that is allowed otherwise goes with.
std::optional<Error> companion_refusal(const Declared& declared) {
  const Rows rows = rows_of(declared.framework, "");
  const auto asked = std::ranges::find_if(rows, [&](const auto* row) { return declared.pins_admit(*row); });
  if (asked == rows.end()) return std::nullopt;
  for (const Pin& companion : declared.companions) {
    const auto goes_with = [&](const Combination* row) {
      const std::string& series = series_of(*row, companion.package);
      return !series.empty() && companion.versions.admits_series(series);
    };
    if (std::ranges::any_of(rows, [&](const auto* row) { return declared.pins_admit(*row) && goes_with(row); }))
      continue;
    if (series_of(**asked, companion.package).empty()) continue;
    const auto fitting = std::ranges::find_if(rows, goes_with);
    return pair_refusal(declared, companion, **asked, fitting == rows.end() ? nullptr : *fitting);
  }
  return std::nullopt;
}

}  // namespace

Error pins_refusal(const Declared& declared, const Hardware& hardware, const PythonDemand& demand) {
  if (auto pair = companion_refusal(declared)) return std::move(*pair);
  std::vector<std::string> pins;
  for (const auto* list : {&declared.pins, &declared.companions})
    for (const Pin& pin : *list) pins.push_back(told(pin));
  Error error = base::error(ErrorCode::refused,
                            fmt::format("no release of {} satisfies {}", declared.framework, fmt::join(pins, " and ")));
  const Rows rows = rows_of(declared.framework, "");
  error.with_context(
      fmt::format("the catalog has {} {} to {}", declared.framework, rows.back()->series, rows.front()->series));
  hint_newest(error, newest_that_works(declared.framework, hardware, demand));
  return error;
}

Error numpy_refusal(const Declared& declared, const Combination& row, const Hardware& hardware,
                    const PythonDemand& demand) {
  const Pin& numpy = *declared.numpy_against(row);
  Error error =
      base::error(ErrorCode::refused, fmt::format("{} is built for numpy 1, but the project asks for {}",
                                                  declared.exact ? declared.title() : title(row), numpy.as_written));
  error.with_context(fmt::format("read from {} and {}", declared.places(), numpy.where));
  error.with_hint(fmt::format("write `numpy<2` instead of {} ({})", numpy.as_written, numpy.where));
  const Combination* oldest = nullptr;
  for (const Combination* other : rows_of(declared.framework, ""))
    if (other->numpy.empty() && has_offered_python(*other, demand) && !clash_of(*other, hardware)) oldest = other;
  if (oldest != nullptr)
    error.with_hint(fmt::format("{} is the oldest here that is built for numpy 2", framework_flag(*oldest)));
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
