#include "app/catalog.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.hpp"
#include "machine/versions.hpp"

namespace startrail::app {
namespace {

Error no_description(std::string_view option, std::string_view text, std::string_view example) {
  return base::error(ErrorCode::usage, fmt::format("{} `{}` is not like {}", option, text, example))
      .with_hint(fmt::format("for example: {} {}", option, example));
}

// "sm_86", "8.6", "sm_120".
std::optional<machine::Gpu> gpu_of(std::string_view text) {
  machine::Gpu gpu;
  std::string digits(text.starts_with("sm_") ? text.substr(3) : text);
  std::erase(digits, '.');
  const bool is_number = std::ranges::all_of(digits, [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!is_number || digits.size() < 2 || digits.size() > 3) return std::nullopt;
  gpu.compute_major = std::stoi(digits.substr(0, digits.size() - 1));
  gpu.compute_minor = digits.back() - '0';
  gpu.name = "GPU";
  return gpu;
}

Result<std::vector<machine::Gpu>> gpus_of(const std::string& text) {
  std::vector<machine::Gpu> gpus;
  if (text == "none") return gpus;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    auto gpu = gpu_of(std::string_view(text).substr(start, end - start));
    if (!gpu) return fail(no_description("--gpu", text, "sm_86,sm_90"));
    gpu->index = static_cast<int>(gpus.size());
    gpus.push_back(std::move(*gpu));
    start = end + 1;
  }
  return gpus;
}

Json refusal_json(const std::optional<Error>& refusal) {
  if (!refusal) return nullptr;
  return Json{{"code", base::name(refusal->code)},
              {"reason", refusal->message},
              {"context", refusal->context},
              {"hints", refusal->hints}};
}

std::string folder_name(const catalog::Named& named, const LockRequest& request) {
  std::string name = named.requirement;
  if (name.ends_with(".*")) name.resize(name.size() - 2);
  name.replace(name.find("=="), 2, "-");
  if (request.choose.python) name += "-python" + *request.choose.python;
  if (request.choose.build == project::Build::cpu) name += "-cpu";
  return name;
}

}  // namespace

Result<std::vector<catalog::Verified>> stored_verifications(const Installation& installation) {
  std::vector<catalog::Verified> all;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(installation.paths.store() / "verified", absent)) {
    if (entry.path().extension() != ".toml") continue;
    auto some = TRY(catalog::parse_verified(TRY(base::read_file(entry.path())), entry.path().string()));
    all.insert(all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  return all;
}

Result<std::vector<catalog::Verified>> verifications_of(const Installation& installation,
                                                        const catalog::Combination& row) {
  auto all = TRY(stored_verifications(installation));
  if (row.provider == catalog::Provider::startrail)
    for (const auto& item : catalog::compiled_in_verifications())
      if (std::ranges::find(all, item.image, &catalog::Verified::image) == all.end()) all.push_back(item);
  std::erase_if(all, [&](const auto& item) { return !catalog::is_about(item, row); });
  return all;
}

Result<std::vector<catalog::Combination>> catalog_rows(const Installation& installation) {
  if (const auto& fault = catalog::fault_of_user_rows()) return fail(*fault);
  auto rows = catalog::combinations();
  catalog::mark_verified(rows, TRY(stored_verifications(installation)));
  return rows;
}

Result<machine::Machine> describe(machine::Machine machine, const DescribedMachine& described) {
  if (described.driver && *described.driver == "none") {
    machine.driver.reset();
    machine.gpus.clear();
  } else if (described.driver) {
    if (machine::version_numbers(*described.driver).empty())
      return fail(no_description("--driver", *described.driver, "535.183.01"));
    machine.driver = machine::Driver{.version = *described.driver, .cuda = {}, .read_from = "--driver"};
    machine.gpus.clear();
  }
  if (!described.gpus) return machine;
  machine.gpus = TRY(gpus_of(*described.gpus));
  if (!machine.driver && !machine.gpus.empty())
    return fail(base::error(ErrorCode::usage, "--gpu says nothing without a driver, and this machine has none")
                    .with_hint(fmt::format("for example: --driver 580.65.06 --gpu {}", *described.gpus)));
  return machine;
}

Result<Chosen> choose_for(const Installation& installation, const machine::Machine& machine, const LockRequest& asked,
                          Reporter& reporter) {
  LockRequest request = asked;
  request.folder = TRY(project_folder(asked.folder));
  const auto needs = TRY(read_project(installation, request, reporter));
  TRY(settle_framework(request, needs));
  Chosen chosen;
  auto choice = catalog::choose(needs, machine, request.choose, &chosen.steps);
  if (choice)
    chosen.choice = std::move(*choice);
  else if (choice.error().code == ErrorCode::refused)
    chosen.refusal = std::move(choice.error());
  else
    return fail(std::move(choice.error()));
  return chosen;
}

Json to_json(const Chosen& chosen) {
  const catalog::Choice none;
  const catalog::Choice& choice = chosen.choice ? *chosen.choice : none;
  Json bounds = Json::array();
  for (const auto& bound : choice.bounds)
    bounds.push_back(Json{{"requirement", bound.requirement}, {"reason", bound.reason}});
  Json pythons = Json::array();
  for (const auto& python : choice.pythons)
    pythons.push_back(Json{{"python", python.minor},
                           {"suite", python.suite},
                           {"remark", python.remark.empty() ? Json(nullptr) : Json(python.remark)}});
  return Json{{"combination", choice.combination ? catalog::to_json(*choice.combination) : Json(nullptr)},
              {"python", choice.pythons.empty() ? Json(nullptr) : Json(choice.pythons.front().minor)},
              {"pythons", std::move(pythons)},
              {"build", chosen.choice ? Json(choice.build == project::Build::cpu ? "cpu" : "gpu") : Json(nullptr)},
              {"bounds", std::move(bounds)},
              {"extra_requirements", choice.extra_requirements},
              {"index_urls", choice.index_urls},
              {"left_out", choice.left_out},
              {"steps", chosen.steps},
              {"refusal", refusal_json(chosen.refusal)}};
}

Result<LockedProject> lock_combination(const Installation& installation, const machine::Machine& machine,
                                       const std::string& name, const LockRequest& asked, Phases& phases,
                                       Reporter& reporter) {
  if (const auto& fault = catalog::fault_of_user_rows()) return fail(*fault);
  const auto named = TRY(catalog::named(name));
  LockRequest request = asked;
  request.folder = installation.paths.root / "combinations" / folder_name(named, asked);
  TRY(base::make_directories(request.folder));
  const fs::path file = request.folder / "requirements.txt";
  const std::string text = named.requirement + "\n";
  // Left alone where it is right already: several calls at once may share the folder.
  if (const auto there = base::read_file(file); !there || *there != text) TRY(base::write_file_atomic(file, text));
  return lock_project(installation, machine, request, phases, reporter);
}

}  // namespace startrail::app
