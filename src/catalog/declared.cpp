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
constexpr std::array<std::string_view, 3> k_frameworks{"torch", "tensorflow", "jax"};

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
  return Pin{.versions = std::move(versions),
             .as_written = fmt::format("{}{}", requirement.name, requirement.specifier),
             .where = where};
}

class Collector {
 public:
  explicit Collector(const std::optional<std::string>& overridden) : m_overridden(overridden.value_or("")) {}

  Result<void> take(const project::Requirement& requirement) {
    const project::Truth here = holds_here(requirement.marker);
    if (here == project::Truth::no) return {};
    if (requirement.name == "torchvision" || requirement.name == "torchaudio") return take_companion(requirement, here);
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

  std::vector<Declared> sorted() && {
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
    if (requirement.name == "torchvision" && here == project::Truth::yes && !requirement.specifier.empty() &&
        m_overridden != "torch")
      torch.torchvision.push_back(TRY(pin_from(requirement)));
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

std::optional<std::string> framework_named_by(const std::optional<project::Requirement>& requirement) {
  if (!requirement) return std::nullopt;
  return std::string(std::ranges::find(k_packages, requirement->name, &PackageName::package)->framework);
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
  for (const auto* list : {&pins, &torchvision})
    for (const Pin& pin : *list)
      if (std::ranges::find(places, pin.where) == places.end()) places.push_back(pin.where);
  return places.empty() ? where : fmt::format("{}", fmt::join(places, " and "));
}

bool Declared::admits(const Combination& row) const {
  return std::ranges::all_of(pins, [&](const Pin& pin) { return pin.versions.admits_series(row.series); }) &&
         std::ranges::all_of(torchvision, [&](const Pin& pin) {
           return row.torchvision.empty() || pin.versions.admits_series(row.torchvision);
         });
}

Result<std::vector<Declared>> find_declared(const project::Requirements& needs,
                                            const std::optional<std::string>& framework) {
  std::optional<project::Requirement> override;
  if (framework) {
    override = requirement_from(*framework, {.file = "--framework", .line = 0});
    if (!override)
      return fail(
          base::error(ErrorCode::invalid_input, fmt::format("`{}` names no framework that is known here", *framework))
              .with_hint("write it as `--framework torch==2.10.0`, `tensorflow==…` or `jax==…`"));
  }
  Collector collector(framework_named_by(override));
  for (const auto& requirement : needs.packages) TRY(collector.take(requirement));
  for (const auto& constraint : needs.constraints) TRY(collector.take_constraint(constraint));
  auto declared = std::move(collector).sorted();
  if (!override) return declared;
  Collector only_override(std::nullopt);
  TRY(only_override.take(*override));
  Declared forced = std::move(std::move(only_override).sorted().front());
  const auto found = std::ranges::find(declared, forced.framework, &Declared::framework);
  if (found == declared.end()) {
    declared.insert(declared.begin(), std::move(forced));
  } else {
    forced.extras = found->extras;
    *found = std::move(forced);
  }
  return declared;
}

}  // namespace startrail::catalog
