#include <fmt/format.h>

#include "base/json.hpp"
#include "machine/machine.hpp"

namespace startrail::machine {
namespace {

const char* mode_name(CgroupMode mode) {
  switch (mode) {
    case CgroupMode::none: return "none";
    case CgroupMode::v1: return "v1";
    case CgroupMode::hybrid: return "hybrid";
    case CgroupMode::v2: return "v2";
  }
  return "none";
}

// Empty texts are facts that could not be read: null, so that readers see them.
Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json driver_json(const std::optional<Driver>& driver) {
  if (!driver) return nullptr;
  return {{"version", driver->version}, {"cuda", text_or_null(driver->cuda)}, {"read_from", driver->read_from}};
}

Json gpu_json(const Gpu& gpu) {
  return {{"index", gpu.index},
          {"uuid", text_or_null(gpu.uuid)},
          {"name", gpu.name},
          {"architecture", gpu.architecture()},
          {"compute_capability", gpu.compute_capability()},
          {"memory", gpu.memory.count},
          {"pci_address", text_or_null(gpu.pci_address)},
          {"minor_number", gpu.minor_number},
          {"mig_enabled", gpu.mig_enabled},
          {"visible", gpu.visible}};
}

Json runtime_json(const Runtime& runtime) {
  return {{"name", runtime.name},
          {"program", runtime.program.string()},
          {"version", text_or_null(runtime.version)},
          {"usable", runtime.usable},
          {"why_not", text_or_null(runtime.why_not)}};
}

template <class T>
Json array_of(const std::vector<T>& items, Json (*one)(const T&)) {
  Json array = Json::array();
  for (const auto& item : items) array.push_back(one(item));
  return array;
}

}  // namespace

std::string Gpu::architecture() const {
  return fmt::format("sm_{}{}", compute_major, compute_minor);
}

std::string Gpu::compute_capability() const {
  return fmt::format("{}.{}", compute_major, compute_minor);
}

Json to_json(const Machine& machine) {
  Json json;
  json["hostname"] = machine.hostname;
  json["kernel"] = machine.kernel;
  json["architecture"] = machine.architecture;
  json["os"] = {{"id", text_or_null(machine.os_id)},
                {"version", text_or_null(machine.os_version)},
                {"name", text_or_null(machine.os_name)}};
  json["glibc"] = machine.glibc;
  json["cpus"] = machine.cpus;
  json["memory"] = machine.memory.count;
  json["memory_available"] = machine.memory_available.count;
  json["disk_free"] = machine.disk_free.count;
  json["driver"] = driver_json(machine.driver);
  json["gpus"] = array_of(machine.gpus, gpu_json);
  json["runtimes"] = array_of(machine.runtimes, runtime_json);
  json["cgroups"] = {{"mode", mode_name(machine.cgroups.mode)},
                     {"writable", machine.cgroups.writable},
                     {"controllers", machine.cgroups.controllers},
                     {"own", text_or_null(machine.cgroups.own.string())}};
  json["user_namespaces"] = {{"allowed", machine.user_namespaces.allowed},
                             {"why_not", text_or_null(machine.user_namespaces.why_not)},
                             {"how_to", text_or_null(machine.user_namespaces.how_to)}};
  json["notes"] = machine.notes;
  return json;
}

}  // namespace startrail::machine
