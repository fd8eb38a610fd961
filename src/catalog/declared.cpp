#include "catalog/declared.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "project/marker.hpp"

namespace startrail::catalog {
namespace {

struct PackageName {
  std::string_view package, framework;
  Flavour flavour = Flavour::plain;
  SourceOf source = SourceOf::index;
};

constexpr std::array k_packages{
    PackageName{"torch", "torch"},
    PackageName{"pytorch", "torch"},
    PackageName{"tensorflow", "tensorflow"},
    PackageName{"tensorflow-gpu", "tensorflow", Flavour::gpu_package},
    PackageName{"tensorflow-cpu", "tensorflow", Flavour::cpu_package},
    PackageName{"tf-nightly", "tensorflow", Flavour::plain, SourceOf::elsewhere},
    PackageName{"jax", "jax"},
    PackageName{"jaxlib", "jax"},
};
constexpr std::array<std::string_view, 2> k_companions{"torchvision", "torchaudio"};
constexpr std::array<std::string_view, 3> k_frameworks{"torch", "tensorflow", "jax"};

bool is_companion(std::string_view name) {
  return std::ranges::find(k_companions, name) != k_companions.end();
}

project::Truth holds_here(const std::string& marker) {
  static const project::MarkerEnvironment s_environment = [] {
    project::MarkerEnvironment environment = project::linux_environment();
    environment.insert_or_assign("platform_machine", "x86_64");
    return environment;
  }();
  const auto parsed = project::Marker::parse(marker);
  return parsed ? parsed->evaluate(s_environment) : project::Truth::unknown;
}

Result<Pin> pin_from(const project::Requirement& requirement) {
  const std::string where = project::to_text(requirement.origin);
  auto versions = TRY_CONTEXT(project::SpecifierSet::parse(requirement.specifier), fmt::format("read from {}", where));
  return Pin{.package = requirement.name,
             .versions = std::move(versions),
             .as_written = fmt::format("{}{}", requirement.name, requirement.specifier),
             .where = where};
}

class Collector {
 public:
  explicit Collector(const std::optional<std::string>& overridden) : m_overridden(overridden.value_or("")) {}

  Result<void> take(const project::Requirement& requirement) {
    const project::Truth here = holds_here(requirement.marker);
    if (here == project::Truth::no) return {};
    if (is_companion(requirement.name)) return take_companion(requirement, here);
    if (requirement.name == "numpy") return take_numpy(requirement, here);
    const auto package = std::ranges::find(k_packages, requirement.name, &PackageName::package);
    if (package == k_packages.end()) return {};
    Declared& declared = entry(package->framework, requirement);
    if (package->flavour != Flavour::plain) declared.flavour = package->flavour;
    declared.extras.insert(declared.extras.end(), requirement.extras.begin(), requirement.extras.end());
    if (requirement.kind != project::SourceKind::index) declared.source = SourceOf::elsewhere;
    if (package->source == SourceOf::elsewhere) declared.source = SourceOf::elsewhere;
    if (package->framework == m_overridden || here != project::Truth::yes || requirement.specifier.empty()) return {};
    return add_pin(declared, requirement);
  }

  // A constraint bounds what is asked for elsewhere; alone it asks for nothing.
  Result<void> take_constraint(const project::Requirement& requirement) {
    const auto package = std::ranges::find(k_packages, requirement.name, &PackageName::package);
    if (package == k_packages.end() || package->framework == m_overridden || requirement.specifier.empty() ||
        holds_here(requirement.marker) != project::Truth::yes)
      return {};
    const auto found = std::ranges::find(m_all, package->framework, &Declared::framework);
    return found == m_all.end() ? Result<void>{} : add_pin(*found, requirement);
  }

  // For every framework, wherever in the list it stands.
  std::vector<Declared> sorted() && {
    for (auto& declared : m_all) declared.numpy = m_numpy;
    std::ranges::stable_sort(m_all, {}, [](const Declared& declared) {
      return std::ranges::find(k_frameworks, declared.framework) - k_frameworks.begin();
    });
    return std::move(m_all);
  }

 private:
  Declared& entry(std::string_view framework, const project::Requirement& requirement) {
    const auto found = std::ranges::find(m_all, framework, &Declared::framework);
    if (found != m_all.end()) return *found;
    Declared declared;
    declared.framework = framework;
    declared.package = std::ranges::find(k_packages, requirement.name, &PackageName::package) == k_packages.end()
                           ? std::string(framework)
                           : requirement.name;
    declared.where = project::to_text(requirement.origin);
    return m_all.emplace_back(std::move(declared));
  }

  Result<void> take_companion(const project::Requirement& requirement, project::Truth here) {
    Declared& torch = entry("torch", requirement);
    if (here == project::Truth::yes && !requirement.specifier.empty() && m_overridden != "torch")
      torch.companions.push_back(TRY(pin_from(requirement)));
    return {};
  }

  Result<void> take_numpy(const project::Requirement& requirement, project::Truth here) {
    if (here == project::Truth::yes && !requirement.specifier.empty() && requirement.kind == project::SourceKind::index)
      m_numpy.push_back(TRY(pin_from(requirement)));
    return {};
  }

  static Result<void> add_pin(Declared& declared, const project::Requirement& requirement) {
    Pin pin = TRY(pin_from(requirement));
    if (const auto exact = pin.versions.pinned()) declared.exact = exact;
    declared.pins.push_back(std::move(pin));
    return {};
  }

  std::string m_overridden;
  std::vector<Declared> m_all;
  std::vector<Pin> m_numpy;
};

// "torch==2.10.0" as a requirement of its own.
std::optional<project::Requirement> requirement_from(std::string_view text, const project::Origin& origin) {
  const std::size_t end = std::min(text.find_first_of("=<>!~ "), text.size());
  std::string name = project::normalized_name(text.substr(0, end));
  if (name == "pytorch") name = "torch";
  if (std::ranges::find(k_packages, name, &PackageName::package) == k_packages.end()) return std::nullopt;
  project::Requirement requirement;
  requirement.name = std::move(name);
  requirement.specifier = text.substr(end);
  requirement.origin = origin;
  requirement.as_written = text;
  return requirement;
}

}  // namespace

std::string Declared::title() const {
  if (exact) return fmt::format("{} {}", package, exact->text());
  std::vector<std::string> sets;
  for (const Pin& pin : pins) sets.push_back(pin.versions.text());
  return fmt::format("{}{}", package, fmt::join(sets, ","));
}

std::string Declared::places() const {
  std::vector<std::string> places;
  for (const auto* list : {&pins, &companions})
    for (const Pin& pin : *list)
      if (std::ranges::find(places, pin.where) == places.end()) places.push_back(pin.where);
  return places.empty() ? where : fmt::format("{}", fmt::join(places, " and "));
}

const std::string& series_of(const Combination& row, std::string_view companion) {
  return companion == "torchvision" ? row.torchvision : row.torchaudio;
}

bool Declared::pins_admit(const Combination& row) const {
  return std::ranges::all_of(pins, [&](const Pin& pin) { return pin.versions.admits_series(row.series); });
}

bool Declared::admits(const Combination& row) const {
  return pins_admit(row) && std::ranges::all_of(companions, [&](const Pin& pin) {
           const std::string& series = series_of(row, pin.package);
           return series.empty() || pin.versions.admits_series(series);
         });
}

const Pin* Declared::numpy_against(const Combination& row) const {
  if (row.numpy.empty()) return nullptr;
  // What is built for numpy 1 takes any of its releases, as far as a pin can tell.
  const auto found = std::ranges::find_if(numpy, [](const Pin& pin) { return !pin.versions.admits_series("1"); });
  return found == numpy.end() ? nullptr : &*found;
}

namespace {

Result<Declared> declared_by(const ChooseOptions& options) {
  const auto wanted = requirement_from(*options.framework, {.file = options.framework_origin, .line = 0});
  if (!wanted)
    return fail(base::error(ErrorCode::invalid_input,
                            fmt::format("`{}` names no framework that is known here", *options.framework))
                    .with_context(fmt::format("read from {}", options.framework_origin))
                    .with_hint("write it as `--framework torch==2.10.0`, `tensorflow==…` or `jax==…`"));
  Collector collector(std::nullopt);
  TRY(collector.take(*wanted));
  return std::move(std::move(collector).sorted().front());
}

// Every package by which the project would bring this framework.
void leave_out(const Declared& declared, const project::Requirements& needs, std::vector<std::string>& left_out) {
  for (const auto& requirement : needs.packages) {
    const auto package = std::ranges::find(k_packages, requirement.name, &PackageName::package);
    const bool brings = package != k_packages.end() ? package->framework == declared.framework
                                                    : declared.framework == "torch" && is_companion(requirement.name);
    if (brings && std::ranges::find(left_out, requirement.name) == left_out.end()) left_out.push_back(requirement.name);
  }
}

}  // namespace

Result<Frameworks> find_declared(const project::Requirements& needs, const ChooseOptions& options) {
  std::optional<Declared> forced;
  if (options.framework) forced = TRY(declared_by(options));
  Collector collector(forced ? std::optional(forced->framework) : std::nullopt);
  for (const auto& requirement : needs.packages) TRY(collector.take(requirement));
  for (const auto& constraint : needs.constraints) TRY(collector.take_constraint(constraint));
  Frameworks frameworks{.declared = std::move(collector).sorted(), .left_out = {}};
  if (!forced) return frameworks;
  const auto found = std::ranges::find(frameworks.declared, forced->framework, &Declared::framework);
  if (found != frameworks.declared.end()) {
    forced->extras = found->extras;
    forced->numpy = found->numpy;
    *found = std::move(*forced);
    return frameworks;
  }
  for (const auto& other : frameworks.declared) leave_out(other, needs, frameworks.left_out);
  frameworks.declared = {std::move(*forced)};
  return frameworks;
}

}  // namespace startrail::catalog
