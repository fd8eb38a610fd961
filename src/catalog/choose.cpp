#include <fmt/format.h>

#include <algorithm>

#include "catalog/bounds.hpp"
#include "catalog/catalog.hpp"
#include "catalog/declared.hpp"
#include "catalog/hardware.hpp"
#include "catalog/pythons.hpp"
#include "catalog/refusals.hpp"
#include "catalog/rows.hpp"
#include "machine/versions.hpp"

namespace startrail::catalog {
namespace {

constexpr std::string_view k_last_tensorflow_gpu = "2.11";
constexpr std::string_view k_torch_index = "https://download.pytorch.org/whl/";

// A framework that the project names, with the rows that its pins and this machine leave.
struct Candidate {
  Declared declared;
  Rows working;            // newest first; empty when `unchecked`
  bool unchecked = false;  // from elsewhere, or newer than the catalog
};

bool has_wheels(const Candidate& candidate, std::string_view minor) {
  return candidate.unchecked ||
         std::ranges::any_of(candidate.working, [&](const Combination* row) { return has_python(*row, minor); });
}

// Neither wheels beside it nor an extra bring the pinned release its GPU libraries: it runs on the CPU.
bool extra_is_missing(const Declared& declared, const Combination& row) {
  if (!row.gpu_wheels.empty()) return false;
  if (row.cpu_index.empty() && row.gpu_extra.empty()) return true;
  return !row.gpu_extra_since.empty() && declared.exact && machine::older(declared.exact->text(), row.gpu_extra_since);
}

// Another release of torch takes another torchvision along.
Error with_companions(Error error, const Declared& declared) {
  for (const Pin& pin : declared.companions)
    error.with_hint(fmt::format("{} ({}) must change along with torch", pin.as_written, pin.where));
  return error;
}

class Chooser {
 public:
  Chooser(const project::Requirements& needs, const machine::Machine& machine, const ChooseOptions& options)
      : m_needs(needs), m_machine(machine), m_options(options) {}

  Result<Choice> choose() {
    if (const auto& fault = fault_of_user_rows()) return fail(*fault);
    auto frameworks = TRY(find_declared(m_needs, m_options));
    auto& declared = frameworks.declared;
    m_choice.left_out = std::move(frameworks.left_out);
    if (!m_choice.left_out.empty())
      say(fmt::format("{} takes the place of {}", *m_options.framework, fmt::join(m_choice.left_out, ", ")));
    TRY(settle_build(declared));
    m_demand = TRY(python_demand(m_needs, m_options));
    if (m_choice.build == project::Build::gpu) m_hardware = hardware_of(m_machine);
    say_hardware();
    for (auto& item : declared) m_candidates.push_back(TRY(candidate_for(std::move(item))));
    TRY(settle_pythons());
    settle_bounds();
    settle_extras();
    settle_indexes();
    say_result();
    return std::move(m_choice);
  }

  [[nodiscard]] const std::vector<std::string>& steps() const { return m_choice.steps; }

 private:
  void say(std::string text) { m_choice.steps.push_back(std::move(text)); }

  Result<void> settle_build(const std::vector<Declared>& declared) {
    m_choice.build = m_options.build.value_or(m_needs.settings.build.value_or(project::Build::gpu));
    for (const auto& item : declared) {
      if (item.tag().starts_with("cu") && m_choice.build == project::Build::cpu) return fail(cuda_build_refusal(item));
      if (item.tag() != "cpu" || m_choice.build == project::Build::cpu) continue;
      m_choice.build = project::Build::cpu;
      say(fmt::format("{} ({}) pins the CPU build: the CPU build is taken", item.title(), item.places()));
    }
    return {};
  }

  void say_hardware() {
    if (m_choice.build == project::Build::cpu) return say("the CPU build: driver and GPUs don't matter");
    if (!m_hardware.driver) return say("no NVIDIA driver here: the default GPU build, which also runs on CPUs");
    std::vector<std::string> gpus;
    for (const auto& gpu : m_hardware.gpus) gpus.push_back(fmt::format("{} ({})", gpu.name, gpu.architecture()));
    say(fmt::format("driver {} ({}){}{}", m_hardware.driver->version, m_hardware.driver->read_from,
                    gpus.empty() ? "" : ", ", fmt::join(gpus, ", ")));
  }

  Result<Candidate> candidate_for(Declared declared) {
    if (declared.source == SourceOf::elsewhere) {
      say(fmt::format("{} ({}) comes from elsewhere than an index: taken as it is, unchecked", declared.framework,
                      declared.where));
      return Candidate{.declared = std::move(declared), .working = {}, .unchecked = true};
    }
    const std::string tag = declared.tag() == "cpu" ? "" : declared.tag();
    Rows admitted;
    for (const Combination* row : rows_of(declared.framework, tag))
      if (declared.admits(*row)) admitted.push_back(row);
    if (declared.flavour == Flavour::gpu_package) {
      std::erase_if(admitted, [](const Combination* row) { return is_newer(row->series, k_last_tensorflow_gpu); });
      if (admitted.empty()) return fail(stub_refusal(declared));
    }
    if (admitted.empty()) return without_rows(std::move(declared), tag);
    if (std::ranges::all_of(admitted, [&](const auto* row) { return declared.numpy_against(*row) != nullptr; }))
      return fail(numpy_refusal(declared, *admitted.front(), m_hardware, m_demand));
    std::erase_if(admitted, [&](const auto* row) { return declared.numpy_against(*row) != nullptr; });
    Rows working;
    for (const Combination* row : admitted)
      if (!clash(declared, *row)) working.push_back(row);
    if (working.empty()) {
      const std::string version = declared.exact ? declared.exact->text() : "";
      return fail(with_companions(
          hardware_refusal(*admitted.front(), declared.title(), version, m_hardware, m_demand, declared.places()),
          declared));
    }
    if (!has_usable_python(working)) {
      // Where other releases would have the Python, it is the driver or the GPU that stands in the way.
      const auto other = std::ranges::find_if(admitted.rbegin(), admitted.rend(),
                                              [&](const Combination* row) { return has_usable_python({row}); });
      Error reason = other == admitted.rend()
                         ? python_refusal(declared, working, m_hardware, m_demand)
                         : hardware_refusal(**other, declared.title(), "", m_hardware, m_demand, declared.places());
      return fail(with_companions(std::move(reason), declared));
    }
    return Candidate{.declared = std::move(declared), .working = std::move(working), .unchecked = false};
  }

  [[nodiscard]] bool clash(const Declared& declared, const Combination& row) const {
    if (declared.flavour == Flavour::cpu_package || extra_is_missing(declared, row)) return false;
    return clash_of(row, m_hardware).has_value();
  }

  [[nodiscard]] bool has_usable_python(const Rows& rows) const {
    return std::ranges::any_of(offers(), [&](const Offer& offer) { return usable(rows, offer.minor); });
  }

  [[nodiscard]] bool usable(const Rows& rows, std::string_view minor) const {
    return (!is_offered(m_demand) || m_demand.allows(minor)) &&
           std::ranges::any_of(rows, [&](const Combination* row) { return has_python(*row, minor); });
  }

  // Newer than the catalog, or a build that it doesn't know: not refused, as it may well work.
  Result<Candidate> without_rows(Declared declared, const std::string& tag) {
    const Rows plain = rows_of(declared.framework, "");
    const bool known_series = std::ranges::any_of(plain, [&](const Combination* row) { return declared.admits(*row); });
    const bool newer = declared.exact ? machine::older(plain.front()->newest, declared.exact->text())
                                      : declared.pins.size() == 1 && declared.companions.empty() &&
                                            declared.pins[0].versions.admits_series("99.0");
    if (!newer && !(known_series && !tag.empty())) return fail(pins_refusal(declared, m_hardware, m_demand));
    say(fmt::format("{} ({}) is not in the catalog, which ends at {}: taken as it is, unchecked", declared.title(),
                    declared.places(), plain.front()->newest));
    return Candidate{.declared = std::move(declared), .working = {}, .unchecked = true};
  }

  Result<void> settle_pythons() {
    m_choice.pythons = python_candidates(m_demand, [&](std::string_view minor) {
      return std::ranges::all_of(m_candidates, [&](const Candidate& item) { return has_wheels(item, minor); });
    });
    if (m_choice.pythons.empty()) return fail(no_common_python());
    if (m_candidates.empty() || m_candidates.front().unchecked) return {};
    const Rows& rows = m_candidates.front().working;
    // A Python that is only near what is asked for decides the release; otherwise the release decides the Python.
    const auto suits = [&](const Combination* row) {
      if (!is_offered(m_demand)) return has_python(*row, m_choice.pythons.front().minor);
      return std::ranges::any_of(m_choice.pythons, [&](const auto& python) { return has_python(*row, python.minor); });
    };
    const Combination* const row = *std::ranges::find_if(rows, suits);
    m_choice.combination = *row;
    if (is_offered(m_demand))
      std::ranges::stable_partition(m_choice.pythons, [&](const auto& item) { return has_python(*row, item.minor); });
    for (auto& python : m_choice.pythons)
      if (!has_python(*row, python.minor)) add_remark(python, rows);
    return {};
  }

  void add_remark(PythonChoice& python, const Rows& rows) const {
    const auto newest = std::ranges::find_if(rows, [&](const auto* row) { return has_python(*row, python.minor); });
    if (newest == rows.end()) return;
    python.remark += fmt::format("{}{} is the newest with wheels for Python {}", python.remark.empty() ? "" : "; ",
                                 title(**newest), python.minor);
  }

  [[nodiscard]] Error no_common_python() const {
    std::vector<std::string> parts;
    std::vector<std::string> places;
    for (const auto& item : m_candidates) {
      std::vector<std::string> minors;
      for (const auto& offer : offers())
        if (has_wheels(item, offer.minor)) minors.emplace_back(offer.minor);
      parts.push_back(fmt::format("{} for {}", item.declared.title(), fmt::join(minors, ", ")));
      places.push_back(item.declared.places());
    }
    return base::error(ErrorCode::refused,
                       fmt::format("no Python on offer has wheels for all frameworks: {}", fmt::join(parts, "; ")))
        .with_context(fmt::format("read from {}", fmt::join(places, " and ")))
        .with_hint("loosen one of these pins");
  }

  void settle_bounds() {
    for (const std::string_view framework : {"torch", "tensorflow", "jax"}) {
      const auto found = std::ranges::find_if(
          m_candidates, [&](const Candidate& item) { return item.declared.framework == framework; });
      // A pinned build of another index, or a release beyond the catalog, must not meet a bound made for the others.
      if (found != m_candidates.end() && (found->unchecked || !found->declared.tag().empty())) continue;
      const bool exempt = found != m_candidates.end() && found->declared.flavour == Flavour::cpu_package;
      for (auto& bound : bounds_for(framework, exempt ? Hardware{} : m_hardware))
        m_choice.bounds.push_back(std::move(bound));
    }
    for (const auto& item : m_candidates)
      if (item.declared.flavour == Flavour::gpu_package)
        m_choice.bounds.push_back(
            {.requirement = "tensorflow-gpu<2.12", .reason = "tensorflow-gpu 2.12 is a stub that can't be installed"});
    for (const auto& bound : m_choice.bounds) say(fmt::format("{}: {}", bound.requirement, bound.reason));
  }

  void settle_extras() {
    for (const auto& item : m_candidates) {
      if (item.unchecked || m_choice.build == project::Build::cpu) continue;
      settle_gpu_libraries(item);
    }
  }

  void settle_gpu_libraries(const Candidate& item) {
    const Combination* row = row_for_first_python(item);
    if (row == nullptr || !row->cpu_index.empty()) return;
    const Declared& declared = item.declared;
    if (declared.flavour == Flavour::cpu_package)
      return say(fmt::format("tensorflow-cpu ({}) is the build without CUDA: it runs on the CPU", declared.where));
    if (!row->gpu_wheels.empty()) return add_gpu_wheels(*row);
    if (extra_is_missing(declared, *row))
      return say(
          fmt::format("{} brings no GPU libraries of its own (it needs CUDA {}{} from the system, which the base "
                      "has not): it runs on the CPU",
                      declared.exact ? declared.title() : title(*row), row->cuda,
                      row->cudnn.empty() ? "" : fmt::format(" and cuDNN {}", row->cudnn)));
    if (std::ranges::find(declared.extras, row->gpu_extra) != declared.extras.end()) return;
    m_choice.extra_requirements.push_back(fmt::format("{}[{}]", declared.framework, row->gpu_extra));
    say(fmt::format("{}[{}]: the extra that brings the GPU libraries", declared.framework, row->gpu_extra));
  }

  void add_gpu_wheels(const Combination& row) {
    // Wheels of two CUDAs put files of the same names into the same folders (nvidia/cudnn/lib/libcudnn.so.8).
    if (m_candidates.size() > 1)
      return say(
          fmt::format("{}: the wheels of its CUDA {} would clash with those of the other framework: it runs on the CPU",
                      title(row), row.cuda));
    m_choice.extra_requirements.insert(m_choice.extra_requirements.end(), row.gpu_wheels.begin(), row.gpu_wheels.end());
    say(
        fmt::format("{} loads CUDA {} and cuDNN {} from the system: {} wheels bring CUDA's libraries, and the image's "
                    "environment says where they are (unchecked on a GPU)",
                    title(row), row.cuda, row.cudnn, row.gpu_wheels.size()));
  }

  [[nodiscard]] const Combination* row_for_first_python(const Candidate& item) const {
    const auto row = std::ranges::find_if(
        item.working, [&](const auto* candidate) { return has_python(*candidate, m_choice.pythons.front().minor); });
    return row == item.working.end() ? nullptr : *row;
  }

  void add_index(const std::string& url, const std::string& why) {
    const auto same = [&](const auto& fact) { return fact.value.starts_with(url); };
    const auto& indexes = m_needs.indexes;
    if (std::ranges::any_of(indexes.extra_index_urls, same) || (indexes.index_url && same(*indexes.index_url)) ||
        std::ranges::find(m_choice.index_urls, url) != m_choice.index_urls.end())
      return;
    m_choice.index_urls.push_back(url);
    say(fmt::format("{}: {}", url, why));
  }

  static std::string index_of(const Candidate& item, const std::string& tag) {
    return item.working.empty() ? fmt::format("{}{}", k_torch_index, tag) : item.working.front()->index;
  }

  void settle_indexes() {
    for (const auto& item : m_candidates) {
      if (item.declared.framework != "torch") continue;
      const std::string tag = item.declared.tag();
      if (!tag.empty() && tag != "cpu") add_index(index_of(item, tag), fmt::format("has {}", item.declared.title()));
    }
    if (m_choice.combination && m_choice.build == project::Build::gpu && !m_choice.combination->index.empty())
      add_index(m_choice.combination->index, fmt::format("has {}", title(*m_choice.combination)));
    // Also when torch comes in as somebody else's requirement; not for a project of TensorFlow or JAX alone, which must
    // not depend on whether that index can be reached.
    const auto is_torch = [](const Candidate& item) { return item.declared.framework == "torch"; };
    if (m_choice.build == project::Build::cpu && (m_candidates.empty() || std::ranges::any_of(m_candidates, is_torch)))
      add_index(rows_of("torch", "").front()->cpu_index, "has the CPU builds of torch");
  }

  void say_result() {
    if (m_needs.cuda)
      say(fmt::format("CUDA {} ({}) is not installed: wheels bring their own{}", m_needs.cuda->value,
                      project::to_text(m_needs.cuda->origin),
                      m_choice.combination && m_choice.build == project::Build::gpu
                          ? fmt::format(", {} has CUDA {}", title(*m_choice.combination), m_choice.combination->cuda)
                          : ""));
    if (m_choice.build == project::Build::cpu && m_choice.combination) without_cuda(*m_choice.combination);
    for (const auto& python : m_choice.pythons)
      say(fmt::format("Python {} ({}){}{}", python.minor, python.suite, python.remark.empty() ? "" : ": ",
                      python.remark));
    if (m_choice.combination)
      say(fmt::format("{}{}", title(*m_choice.combination),
                      m_choice.combination->cuda.empty() ? ", CPU build"
                                                         : fmt::format(" with CUDA {}", m_choice.combination->cuda)));
  }

  static void without_cuda(Combination& row) {
    row.cuda = row.cudnn = row.nccl = row.driver_floor = row.gpu_extra = "";
    row.architectures.clear();
    row.gpu_wheels.clear();
    row.environment.clear();
    row.ptx = false;
    row.index = row.cpu_index;
  }

  const project::Requirements& m_needs;
  const machine::Machine& m_machine;
  const ChooseOptions& m_options;
  PythonDemand m_demand;
  Hardware m_hardware;
  std::vector<Candidate> m_candidates;
  Choice m_choice;
};

}  // namespace

Result<Choice> choose(const project::Requirements& needs, const machine::Machine& machine, const ChooseOptions& options,
                      std::vector<std::string>* told) {
  Chooser chooser(needs, machine, options);
  auto choice = chooser.choose();
  if (told != nullptr) *told = choice ? choice->steps : chooser.steps();
  return choice;
}

Result<void> check(const Combination& row, std::string_view version, const machine::Machine& machine,
                   std::string_view read_from) {
  if (version.ends_with("+cpu")) return {};
  const Hardware hardware = hardware_of(machine);
  if (!clash_of(row, hardware)) return {};
  return fail(
      hardware_refusal(row, fmt::format("{} {}", row.framework, version), version, hardware, any_python(), read_from));
}

}  // namespace startrail::catalog
