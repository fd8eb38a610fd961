#include "lock/refusal.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "base/http.hpp"
#include "lock/build_help.hpp"
#include "lock/tags.hpp"
#include "machine/versions.hpp"
#include "project/version.hpp"

namespace startrail::lock {
namespace {

constexpr std::size_t k_most_lines = 8;

void add_lines(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  for (const auto& line : more)
    if (lines.size() < k_most_lines && std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
}

std::string enumerated(const std::vector<std::string>& items, std::string_view last_word) {
  if (items.empty()) return "";
  if (items.size() == 1) return items.front();
  const std::vector<std::string> first(items.begin(), items.end() - 1);
  return fmt::format("{} {} {}", fmt::join(first, ", "), last_word, items.back());
}

std::string with_version(const UvFailure& failure) {
  return failure.version.empty() ? failure.package : failure.package + " " + failure.version;
}

// "cp35m, cp36m, cp37m" → "3.5, 3.6, 3.7"; tags of another kind stay as they are.
std::string pythons_in_tags(const std::string& tags) {
  std::vector<std::string> minors;
  for (std::size_t at = 0; at < tags.size();) {
    const auto end = std::min(tags.find(", ", at), tags.size());
    const std::string tag = tags.substr(at, end - at);
    at = end + 2;
    if (!tag.starts_with("cp3") && !tag.starts_with("cp2")) return tags;
    const auto digits = tag.find_last_of("0123456789") + 1;
    const std::string minor = fmt::format("{}.{}", tag[2], tag.substr(3, digits - 3));
    if (std::ranges::find(minors, minor) == minors.end()) minors.push_back(minor);
  }
  return fmt::format("{}", fmt::join(minors, ", "));
}

std::string told(const project::Requirement& requirement) {
  return requirement.as_written.empty() ? requirement.name + requirement.specifier : requirement.as_written;
}

// The first number of the pin differs from the version's: "==1.15.2" against 2.20.0.
bool another_major(const project::Requirement& requirement, const project::Version& version) {
  const auto digit = requirement.specifier.find_first_of("0123456789");
  if (digit == std::string::npos || version.release().empty()) return false;
  return std::strtoul(requirement.specifier.c_str() + digit, nullptr, 10) != version.release().front();
}

void add_tag_context(Error& error, const UvFailure& failure) {
  if (!failure.tags.empty())
    error.with_context(
        fmt::format("the wheels of {} are for Python {}", with_version(failure), pythons_in_tags(failure.tags)));
}

// Two of the user's own requirements that name one package: "torch>=2.6.0 and torch<2.5".
std::optional<std::string> same_package_twice(const UvFailure& failure) {
  for (std::size_t i = 0; i < failure.required.size(); ++i)
    for (std::size_t j = i + 1; j < failure.required.size(); ++j)
      if (project_of(failure.required[i]) == project_of(failure.required[j]))
        return fmt::format("{} and {} exclude each other", failure.required[i], failure.required[j]);
  return std::nullopt;
}

// One of the user's own requirements against what another of them needs.
struct DirectClash {
  std::string wanted;     // "numpy==1.13.3"
  Dependency dependency;  // "tensorflow==1.15.2", "numpy>=1.16.0,<2.0"
};
std::optional<DirectClash> direct_clash(const UvFailure& failure) {
  for (const auto& wanted : failure.required)
    for (const auto& dependency : failure.dependencies) {
      const bool about_it = project_of(dependency.needed) == project_of(wanted);
      const bool by_another = std::ranges::any_of(failure.required, [&](const std::string& other) {
        return project_of(other) == project_of(dependency.dependent) && other != wanted;
      });
      if (about_it && by_another) return DirectClash{.wanted = wanted, .dependency = dependency};
    }
  return std::nullopt;
}

Error contradiction(const UvFailure& failure, const Request& request) {
  Error error = base::error(ErrorCode::refused, "");
  if (const auto twice = same_package_twice(failure)) {
    error.message = *twice;
  } else if (const auto clash = direct_clash(failure)) {
    error.message = fmt::format("{} needs {}, but {} is asked for", clash->dependency.dependent,
                                clash->dependency.needed, clash->wanted);
  } else if (!failure.required.empty()) {
    error.message =
        fmt::format("no versions of their dependencies satisfy {} together", enumerated(failure.required, "and"));
  } else {
    error.message = "the requirements exclude each other: " + failure.reason;
  }
  for (const auto& wanted : failure.required) {
    add_lines(error.context, request.origins(project_of(wanted)));
    if (const auto reason = request.reason_of_bound(wanted); !reason.empty()) add_lines(error.context, {reason});
  }
  if (!direct_clash(failure))
    for (const auto& dependency : failure.dependencies)
      add_lines(error.context, {fmt::format("{} needs {}", dependency.dependent, dependency.needed)});
  return error;
}

Error unknown_package(const UvFailure& failure, const Request& request) {
  Error error =
      base::error(ErrorCode::refused, fmt::format("no package index has a project named {}", failure.package));
  add_lines(error.context, request.origins(failure.package));
  const std::string meant = meant_instead_of(failure.package);
  if (!meant.empty()) {
    error.with_hint(fmt::format("write {} instead of {}", meant, failure.package));
  } else {
    error.with_hint(
        "check the spelling; a private package needs its index: --extra-index-url in the requirements, or UV_INDEX");
  }
  return error;
}

Error unknown_version(const UvFailure& failure, const Request& request) {
  const auto* requirement = request.find(failure.package);
  const std::string wanted = requirement != nullptr ? failure.package + requirement->specifier : with_version(failure);
  Error error = base::error(ErrorCode::refused, fmt::format("no release of {} satisfies {}", failure.package, wanted));
  add_lines(error.context, request.origins(failure.package));
  return error;
}

bool is_unreachable(const UvFailure& failure) {
  return failure.reason.find("resolve host") != std::string::npos || failure.reason.find("onnect") != std::string::npos;
}

// "git+https://user@host/owner/name.git@main#egg=name" → "https://host/owner/name.git"
std::string repository_address(std::string_view location) {
  if (location.starts_with("git+")) location.remove_prefix(4);
  location = location.substr(0, location.find('#'));
  const auto revision = location.find('@', std::min(location.rfind('/'), location.size()));
  return base::without_credentials(location.substr(0, revision));
}

std::string last_part(const std::string& address) {
  std::string last = address.substr(address.rfind('/') + 1);
  if (last.ends_with(".git")) last.resize(last.size() - 4);
  return project_of(last);
}

Error git_refusal(const UvFailure& failure, const Request& request) {
  Error error = base::error(ErrorCode::network, "");
  const auto involved = repositories(failure, request);
  const std::string address = involved.front().address;
  if (is_unreachable(failure)) {
    std::vector<std::string> addresses;
    for (const auto& repository : involved) addresses.push_back(repository.address);
    error.message =
        fmt::format("{} can't be reached, so {} can't be fetched", failure.host, enumerated(addresses, "and"));
  } else {
    error.message = fmt::format("git can't fetch {}: {}", address.empty() ? "a requirement" : address, failure.reason);
  }
  for (const auto& repository : involved)
    if (!repository.place.empty()) add_lines(error.context, {repository.place});
  error.with_hint("check that this machine reaches it: git ls-remote " + address);
  return error;
}

Error network_refusal(const UvFailure& failure, const Request& request) {
  Error error =
      base::error(ErrorCode::network, failure.host.empty()
                                          ? "a server that is needed for resolving can't be reached: " + failure.reason
                                          : fmt::format("{} can't be reached: {}", failure.host, failure.reason));
  if (!failure.package.empty()) add_lines(error.context, request.origins(failure.package));
  return error
      .with_context("while resolving with " +
                    (failure.address.empty() ? std::string("the package index") : failure.address))
      .with_hint("check the network, https_proxy and the index that uv or pip is configured with");
}

Error build_refusal(const UvFailure& failure, const Request& request, const std::string& python) {
  const std::string what = failure.package.empty() ? "a package" : with_version(failure);
  Error error = base::error(ErrorCode::refused,
                            fmt::format("{} has no wheel for Python {}, and building it from source fails: {}", what,
                                        python, failure.reason));
  add_lines(error.context, request.origins(failure.package));
  if (const std::string meant = meant_instead_of(failure.package); !meant.empty())
    error.with_hint(fmt::format("write {} instead of {}", meant, failure.package));
  if (const std::string advice = advice_for(failure); !advice.empty()) error.with_hint(advice);
  return error;
}

Error python_refusal(const UvFailure& failure, const Request& request, const std::string& python) {
  Error error = base::error(
      ErrorCode::refused, fmt::format("no version of {} that is asked for runs on Python {}", failure.package, python));
  add_lines(error.context, request.origins(failure.package));
  for (const auto& dependency : failure.dependencies)
    add_lines(error.context, {fmt::format("{} needs {}", dependency.dependent, dependency.needed)});
  return error;
}

}  // namespace

Error refusal(const UvFailure& failure, const Request& request, const std::string& python) {
  switch (failure.kind) {
    case FailureKind::contradiction: return contradiction(failure, request);
    case FailureKind::unknown_package: return unknown_package(failure, request);
    case FailureKind::unknown_version: return unknown_version(failure, request);
    case FailureKind::python_version: return python_refusal(failure, request, python);
    case FailureKind::git: return git_refusal(failure, request);
    case FailureKind::network: return network_refusal(failure, request);
    case FailureKind::build_failed: return build_refusal(failure, request, python);
    default: break;
  }
  Error error = base::error(ErrorCode::refused, "the packages can't be resolved: " + failure.reason);
  if (!failure.package.empty()) add_lines(error.context, request.origins(failure.package));
  return error;
}

Error no_python_refusal(const std::vector<Probe>& probes, const Request& request,
                        const std::optional<std::string>& elsewhere) {
  std::vector<std::string> pythons;
  std::vector<std::string> packages;
  for (const auto& probe : probes) pythons.push_back(probe.python.minor);
  std::ranges::sort(pythons, machine::older);
  for (const auto& probe : probes) {
    for (const auto& failure : probe.no_wheels)
      if (std::ranges::find(packages, with_version(failure)) == packages.end())
        packages.push_back(with_version(failure));
  }
  Error error = base::error(
      ErrorCode::refused, pythons.size() == 1 ? fmt::format("{} {} no wheel for Python {}", enumerated(packages, "and"),
                                                            packages.size() == 1 ? "has" : "have", pythons.front())
                                              : fmt::format("no Python that can be had here ({}) has wheels of {}",
                                                            enumerated(pythons, "or"), enumerated(packages, "and")));
  for (const auto& probe : probes)
    for (const auto& failure : probe.no_wheels) {
      add_lines(error.context, request.origins(failure.package));
      if (std::ranges::none_of(error.context, [&](const std::string& line) {
            return line.starts_with("the wheels of " + failure.package);
          }))
        add_tag_context(error, failure);
    }
  if (elsewhere)
    error.with_context(
        fmt::format("all of it together would resolve on Python {}, which no Debian base has", *elsewhere));
  return error;
}

Loosened suspects(const UvFailure& failure, const Request& request) {
  Loosened names;
  const auto add = [&](const std::string& name) {
    const auto* requirement = request.find(name);
    if (requirement != nullptr && !requirement->specifier.empty()) names.emplace(name, Width::any);
  };
  add(failure.package);
  for (const auto& wanted : failure.required) add(project_of(wanted));
  return names;
}

std::optional<std::string> way_out(const Lock& solution, const Loosened& loosened, const Request& request) {
  std::vector<std::string> changes;
  std::string caution;
  for (const auto& [name, width] : loosened) {
    const auto* requirement = request.find(name);
    const auto found = std::ranges::find(solution.packages, name, &LockedPackage::name);
    if (requirement == nullptr || found == solution.packages.end()) continue;
    const auto pinned = project::SpecifierSet::parse(requirement->specifier);
    const auto version = project::Version::parse(found->version);
    // A specifier that already admits what the others lead to isn't one to change.
    if (!version || !pinned || pinned->contains(*version)) continue;
    changes.push_back(fmt::format("{}=={} instead of {} ({})", name, found->version, told(*requirement),
                                  to_text(requirement->origin)));
    if (another_major(*requirement, *version)) caution = "; another major version may need changes in the code";
  }
  if (changes.empty()) return std::nullopt;
  if (changes.size() > k_most_lines) {
    const auto more = changes.size() - k_most_lines;
    changes.resize(k_most_lines);
    return fmt::format("write {} and {} more alike{}", fmt::join(changes, ", "), more, caution);
  }
  return fmt::format("write {}{}{}", enumerated(changes, "and"), changes.size() > 1 ? ", together" : "", caution);
}

std::string untried_way_out(const UvFailure& failure, const Request& request) {
  const auto place = [&](const std::string& wanted) {
    const auto* requirement = request.find(project_of(wanted));
    return requirement == nullptr ? wanted : fmt::format("{} ({})", told(*requirement), to_text(requirement->origin));
  };
  if (failure.kind != FailureKind::contradiction || failure.required.empty()) return "";
  if (const auto clash = direct_clash(failure))
    return fmt::format("write {} instead of {}; other pins of its time may have to change with it",
                       clash->dependency.needed, place(clash->wanted));
  std::vector<std::string> places;
  for (const auto& wanted : failure.required) places.push_back(place(wanted));
  return fmt::format("leave the version of {} open", enumerated(places, "or"));
}

std::vector<Repository> repositories(const UvFailure& failure, const Request& request) {
  std::vector<Repository> found;
  for (const auto& package : request.packages()) {
    const std::string address = repository_address(package.location);
    const bool involved = is_unreachable(failure)
                              ? base::host_of(address) == failure.host
                              : !failure.address.empty() && package.location.find(failure.address) != std::string::npos;
    if (package.kind != project::SourceKind::vcs || !involved) continue;
    found.push_back({.address = address,
                     .project = package.name.empty() ? last_part(address) : package.name,
                     .place = fmt::format("{} is read from {}", base::without_credentials(package.as_written),
                                          to_text(package.origin))});
  }
  if (found.empty()) found.push_back({.address = failure.address, .project = last_part(failure.address), .place = ""});
  return found;
}

std::string meant_instead_of(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 16> k_names{{
      {"sklearn", "scikit-learn"},
      {"cv2", "opencv-python"},
      {"pil", "pillow"},
      {"yaml", "pyyaml"},
      {"skimage", "scikit-image"},
      {"bs4", "beautifulsoup4"},
      {"tensorflow-gpu", "tensorflow"},
      {"pytorch", "torch"},
      {"dateutil", "python-dateutil"},
      {"dotenv", "python-dotenv"},
      {"attr", "attrs"},
      {"git", "gitpython"},
      {"serial", "pyserial"},
      {"crypto", "pycryptodome"},
      {"zmq", "pyzmq"},
      {"tensorboard-x", "tensorboardx"},
  }};
  const auto found = std::ranges::find(k_names, name, &std::pair<std::string_view, std::string_view>::first);
  return found == k_names.end() ? "" : std::string(found->second);
}

}  // namespace startrail::lock
