// A libnvidia-ml.so.1 for tests: see README.md for its scenario file.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

// nvmlReturn_t
enum Status : int {
  k_success = 0,
  k_uninitialized = 1,
  k_invalid_argument = 2,
  k_not_supported = 3,
  k_no_permission = 4,
  k_insufficient_size = 7,
  k_driver_not_loaded = 9,
  k_function_not_found = 13,
  k_gpu_is_lost = 15,
  k_library_mismatch = 18,
  k_unknown = 999,
};

constexpr unsigned long long k_not_available = ~0ULL;

using Fields = std::map<std::string, std::string>;

struct Device {
  Fields fields;
  unsigned index = 0;
};

struct Process {
  unsigned gpu = 0, pid = 0;
  unsigned long long memory = k_not_available;
};

struct Scenario {
  bool initialised = false;
  std::string driver = "580.65.06", cuda = "13.0";
  Status init = k_success;
  std::vector<Device> devices;
  std::vector<Process> processes;
  std::set<std::string> without;
};

Scenario s_scenario;

// Words of a line; a value in double quotes may hold blanks.
std::vector<std::string> words(const std::string& line) {
  std::vector<std::string> result;
  std::string word;
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == ' ' || c == '\t')) {
      if (!word.empty()) result.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  if (!word.empty()) result.push_back(word);
  return result;
}

Fields fields_of(const std::vector<std::string>& line) {
  Fields fields;
  for (const auto& word : line)
    if (const auto equals = word.find('='); equals != std::string::npos)
      fields[word.substr(0, equals)] = word.substr(equals + 1);
  return fields;
}

std::string value(const Fields& fields, const char* key, const std::string& fallback) {
  const auto found = fields.find(key);
  return found == fields.end() ? fallback : found->second;
}

unsigned long long number(const Fields& fields, const char* key, unsigned long long fallback) {
  const auto found = fields.find(key);
  return found == fields.end() ? fallback : std::strtoull(found->second.c_str(), nullptr, 10);
}

Status status_named(const std::string& name) {
  if (name == "library_mismatch") return k_library_mismatch;
  if (name == "driver_not_loaded") return k_driver_not_loaded;
  if (name == "no_permission") return k_no_permission;
  return k_unknown;
}

void take(Scenario& scenario, const std::vector<std::string>& line) {
  const Fields fields = fields_of(line);
  const std::string first = line.size() > 1 ? line[1] : "";
  if (line[0] == "driver") scenario.driver = first;
  if (line[0] == "cuda") scenario.cuda = first;
  if (line[0] == "fail") scenario.init = status_named(first);
  if (line[0] == "without") scenario.without.insert(first);
  if (line[0] == "gpu") scenario.devices.push_back({fields, static_cast<unsigned>(scenario.devices.size())});
  if (line[0] == "process")
    scenario.processes.push_back({static_cast<unsigned>(number(fields, "gpu", 0)),
                                  static_cast<unsigned>(number(fields, "pid", 0)),
                                  number(fields, "memory", k_not_available)});
}

Scenario read_scenario() {
  Scenario scenario;
  const char* name = std::getenv("STARTRAIL_FAKE_NVML");
  std::ifstream file(name != nullptr ? name : "");
  if (name == nullptr || !file) {
    scenario.init = k_driver_not_loaded;
    return scenario;
  }
  for (std::string line; std::getline(file, line);)
    if (const auto parts = words(line.substr(0, line.find('#'))); !parts.empty()) take(scenario, parts);
  return scenario;
}

Status put(const std::string& text, char* buffer, unsigned length) {
  if (text.size() + 1 > length) return k_insufficient_size;
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return k_success;
}

template <class Info>
Status list_processes(const char* function, const Device* device, unsigned* count, Info* infos) {
  if (s_scenario.without.contains(function)) return k_function_not_found;
  std::vector<Process> found;
  for (const auto& process : s_scenario.processes)
    if (process.gpu == device->index) found.push_back(process);
  const unsigned capacity = *count;
  *count = static_cast<unsigned>(found.size());
  if (found.size() > capacity) return k_insufficient_size;
  for (std::size_t i = 0; i < found.size(); ++i) {
    infos[i] = {};
    infos[i].pid = found[i].pid;
    infos[i].memory = found[i].memory;
  }
  return k_success;
}

struct OldProcessInfo {
  unsigned pid;
  unsigned long long memory;
};
struct ProcessInfo {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
struct PciInfo {
  char legacy_bus_id[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct MemoryInfo {
  unsigned long long total, free, used;
};

}  // namespace

extern "C" {

Status nvmlInit_v2() {
  s_scenario = read_scenario();
  s_scenario.initialised = s_scenario.init == k_success;
  return s_scenario.init;
}

Status nvmlShutdown() {
  const bool was = s_scenario.initialised;
  s_scenario.initialised = false;
  return was ? k_success : k_uninitialized;
}

const char* nvmlErrorString(Status status) {
  switch (status) {
    case k_success: return "Success";
    case k_uninitialized: return "Uninitialized";
    case k_driver_not_loaded: return "Driver Not Loaded";
    case k_library_mismatch: return "Driver/library version mismatch";
    case k_no_permission: return "Insufficient Permissions";
    case k_gpu_is_lost: return "GPU is lost";
    default: return "Unknown Error";
  }
}

Status nvmlSystemGetDriverVersion(char* version, unsigned length) {
  return put(s_scenario.driver, version, length);
}

Status nvmlSystemGetCudaDriverVersion_v2(int* version) {
  int major = 0;
  int minor = 0;
  if (std::sscanf(s_scenario.cuda.c_str(), "%d.%d", &major, &minor) != 2) return k_unknown;
  *version = major * 1000 + minor * 10;
  return k_success;
}

Status nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(s_scenario.devices.size());
  return s_scenario.initialised ? k_success : k_uninitialized;
}

Status nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** device) {
  if (index >= s_scenario.devices.size()) return k_invalid_argument;
  if (number(s_scenario.devices[index].fields, "lost", 0) == 1) return k_gpu_is_lost;
  *device = &s_scenario.devices[index];
  return k_success;
}

Status nvmlDeviceGetName(Device* device, char* name, unsigned length) {
  return put(value(device->fields, "name", "NVIDIA Fake GPU"), name, length);
}

Status nvmlDeviceGetUUID(Device* device, char* uuid, unsigned length) {
  return put(value(device->fields, "uuid", "GPU-fake-" + std::to_string(device->index)), uuid, length);
}

Status nvmlDeviceGetPciInfo_v3(Device* device, PciInfo* pci) {
  *pci = {};
  const std::string address = value(device->fields, "pci", "0000:0" + std::to_string(device->index + 1) + ":00.0");
  if (std::sscanf(address.c_str(), "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3) return k_unknown;
  std::snprintf(pci->bus_id, sizeof pci->bus_id, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xFFU,
                pci->device & 0x1FU);
  return k_success;
}

Status nvmlDeviceGetMemoryInfo(Device* device, MemoryInfo* memory) {
  memory->total = number(device->fields, "memory", 16ULL << 30U);
  memory->used = 0;
  for (const auto& process : s_scenario.processes)
    if (process.gpu == device->index && process.memory != k_not_available) memory->used += process.memory;
  memory->free = memory->total - std::min(memory->used, memory->total);
  return k_success;
}

Status nvmlDeviceGetCudaComputeCapability(Device* device, int* major, int* minor) {
  return std::sscanf(value(device->fields, "cc", "8.0").c_str(), "%d.%d", major, minor) == 2 ? k_success : k_unknown;
}

Status nvmlDeviceGetMinorNumber(Device* device, unsigned* minor) {
  *minor = static_cast<unsigned>(number(device->fields, "minor", device->index));
  return k_success;
}

Status nvmlDeviceGetMigMode(Device* device, unsigned* current, unsigned* pending) {
  if (!device->fields.contains("mig")) return k_not_supported;
  *current = *pending = static_cast<unsigned>(number(device->fields, "mig", 0));
  return k_success;
}

Status nvmlDeviceGetComputeRunningProcesses(Device* device, unsigned* count, OldProcessInfo* infos) {
  return list_processes("nvmlDeviceGetComputeRunningProcesses", device, count, infos);
}
Status nvmlDeviceGetComputeRunningProcesses_v2(Device* device, unsigned* count, ProcessInfo* infos) {
  return list_processes("nvmlDeviceGetComputeRunningProcesses_v2", device, count, infos);
}
Status nvmlDeviceGetComputeRunningProcesses_v3(Device* device, unsigned* count, ProcessInfo* infos) {
  return list_processes("nvmlDeviceGetComputeRunningProcesses_v3", device, count, infos);
}

}  // extern "C"
