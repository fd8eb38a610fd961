#include "machine/gpu/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace startrail::machine {
namespace {

using Handle = struct NvmlDeviceTag*;

struct PciInfo {  // nvmlPciInfo_t
  char legacy_bus_id[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68 && offsetof(PciInfo, bus_id) == 36);

struct MemoryInfo {  // nvmlMemory_t
  unsigned long long total, free, used;
};
static_assert(sizeof(MemoryInfo) == 24);

struct ProcessInfo {  // nvmlProcessInfo_t, as _v2 and _v3 fill it
  unsigned pid;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24);

struct OldProcessInfo {  // nvmlProcessInfo_v1_t
  unsigned pid;
  unsigned long long used_memory;
};
static_assert(sizeof(OldProcessInfo) == 16);

constexpr std::size_t k_text_size = 96;                // the largest of NVML_*_BUFFER_SIZE that is used here
constexpr unsigned long long k_not_available = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE

template <class T, class... Arguments>
std::vector<T> list_processes(NvmlStatus (*function)(Handle, unsigned*, T*), Handle device, NvmlStatus& status) {
  std::vector<T> items;
  unsigned count = 0;
  status = NvmlStatus::function_not_found;
  if (function == nullptr) return items;
  // The list may grow between the two calls.
  for (int attempt = 0; attempt < 5; ++attempt) {
    status = function(device, &count, count == 0 ? nullptr : items.data());
    if (status != NvmlStatus::insufficient_size) break;
    count += 8;
    items.resize(count);
  }
  items.resize(status == NvmlStatus::success ? std::min<std::size_t>(count, items.size()) : 0);
  return items;
}

std::string pci_address(const PciInfo& info) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", info.domain, info.bus, info.device);
}

}  // namespace

struct Nvml::Library {
  void* handle = nullptr;
  NvmlStatus (*init)() = nullptr;
  NvmlStatus (*shutdown)() = nullptr;
  const char* (*error_string)(NvmlStatus) = nullptr;
  NvmlStatus (*system_driver_version)(char*, unsigned) = nullptr;
  NvmlStatus (*system_cuda_version)(int*) = nullptr;
  NvmlStatus (*device_count)(unsigned*) = nullptr;
  NvmlStatus (*device_by_index)(unsigned, Handle*) = nullptr;
  NvmlStatus (*device_name)(Handle, char*, unsigned) = nullptr;
  NvmlStatus (*device_uuid)(Handle, char*, unsigned) = nullptr;
  NvmlStatus (*device_pci)(Handle, PciInfo*) = nullptr;
  NvmlStatus (*device_memory)(Handle, MemoryInfo*) = nullptr;
  NvmlStatus (*device_capability)(Handle, int*, int*) = nullptr;
  NvmlStatus (*device_minor)(Handle, unsigned*) = nullptr;
  NvmlStatus (*device_mig)(Handle, unsigned*, unsigned*) = nullptr;
  NvmlStatus (*processes_v3)(Handle, unsigned*, ProcessInfo*) = nullptr;
  NvmlStatus (*processes_v2)(Handle, unsigned*, ProcessInfo*) = nullptr;
  NvmlStatus (*processes_v1)(Handle, unsigned*, OldProcessInfo*) = nullptr;
  bool initialised = false;

  ~Library() {
    if (initialised && shutdown != nullptr) shutdown();
    if (handle != nullptr) ::dlclose(handle);
  }

  template <class Function>
  void find(Function& function, const char* symbol) {
    function = reinterpret_cast<Function>(::dlsym(handle, symbol));
  }

  void find_all() {
    find(init, "nvmlInit_v2");
    find(shutdown, "nvmlShutdown");
    find(error_string, "nvmlErrorString");
    find(system_driver_version, "nvmlSystemGetDriverVersion");
    find(system_cuda_version, "nvmlSystemGetCudaDriverVersion_v2");
    find(device_count, "nvmlDeviceGetCount_v2");
    find(device_by_index, "nvmlDeviceGetHandleByIndex_v2");
    find(device_name, "nvmlDeviceGetName");
    find(device_uuid, "nvmlDeviceGetUUID");
    find(device_pci, "nvmlDeviceGetPciInfo_v3");
    find(device_memory, "nvmlDeviceGetMemoryInfo");
    find(device_capability, "nvmlDeviceGetCudaComputeCapability");
    find(device_minor, "nvmlDeviceGetMinorNumber");
    find(device_mig, "nvmlDeviceGetMigMode");
    find(processes_v3, "nvmlDeviceGetComputeRunningProcesses_v3");
    find(processes_v2, "nvmlDeviceGetComputeRunningProcesses_v2");
    find(processes_v1, "nvmlDeviceGetComputeRunningProcesses");
  }

  [[nodiscard]] std::string words_for(NvmlStatus status) const {
    const char* text = error_string != nullptr ? error_string(status) : nullptr;
    return text != nullptr ? text : fmt::format("NVML status {}", static_cast<int>(status));
  }

  // Calls a function that fills a text buffer; "" when it isn't there or fails.
  template <class Function, class... Arguments>
  [[nodiscard]] std::string text(Function function, Arguments... arguments) const {
    std::array<char, k_text_size> buffer{};
    if (function == nullptr || function(arguments..., buffer.data(), k_text_size) != NvmlStatus::success) return {};
    buffer.back() = '\0';
    return buffer.data();
  }

  [[nodiscard]] std::vector<Handle> devices() const {
    std::vector<Handle> handles;
    unsigned count = 0;
    if (device_count == nullptr || device_by_index == nullptr || device_count(&count) != NvmlStatus::success) return {};
    for (unsigned index = 0; index < count; ++index) {
      Handle device = nullptr;
      device_by_index(index, &device);
      handles.push_back(device);  // nullptr keeps the place of a GPU that does not answer
    }
    return handles;
  }

  [[nodiscard]] Gpu describe(Handle device, int index) const {
    Gpu gpu;
    gpu.index = index;
    gpu.name = text(device_name, device);
    gpu.uuid = text(device_uuid, device);
    if (device_capability != nullptr) device_capability(device, &gpu.compute_major, &gpu.compute_minor);
    if (MemoryInfo memory{}; device_memory != nullptr && device_memory(device, &memory) == NvmlStatus::success)
      gpu.memory = {memory.total};
    if (PciInfo pci{}; device_pci != nullptr && device_pci(device, &pci) == NvmlStatus::success)
      gpu.pci_address = pci_address(pci);
    unsigned minor = static_cast<unsigned>(index);
    if (device_minor != nullptr) device_minor(device, &minor);
    gpu.minor_number = static_cast<int>(minor);
    unsigned current = 0;
    unsigned pending = 0;
    gpu.mig_enabled =
        device_mig != nullptr && device_mig(device, &current, &pending) == NvmlStatus::success && current == 1;
    return gpu;
  }
};

Nvml::Nvml(std::unique_ptr<Library> library) : m_library(std::move(library)) {}
Nvml::Nvml(Nvml&&) noexcept = default;
Nvml& Nvml::operator=(Nvml&&) noexcept = default;
Nvml::~Nvml() = default;

std::expected<Nvml, NvmlFailure> Nvml::open(const std::string& name) {
  auto library = std::make_unique<Library>();
  library->handle = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library->handle == nullptr) {
    const char* reason = ::dlerror();
    return std::unexpected(NvmlFailure{NvmlStatus::library_not_found, reason != nullptr ? reason : name});
  }
  library->find_all();
  if (library->init == nullptr)
    return std::unexpected(NvmlFailure{NvmlStatus::function_not_found, name + " has no nvmlInit_v2"});
  const NvmlStatus status = library->init();
  if (status != NvmlStatus::success) return std::unexpected(NvmlFailure{status, library->words_for(status)});
  library->initialised = true;
  return Nvml(std::move(library));
}

std::string Nvml::driver_version() const {
  return m_library->text(m_library->system_driver_version);
}

std::string Nvml::cuda_version() const {
  int version = 0;  // 1000 × major + 10 × minor
  if (m_library->system_cuda_version == nullptr || m_library->system_cuda_version(&version) != NvmlStatus::success)
    return {};
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::vector<Gpu> Nvml::gpus(std::vector<std::string>& notes) const {
  std::vector<Gpu> result;
  const auto devices = m_library->devices();
  for (std::size_t index = 0; index < devices.size(); ++index) {
    if (devices[index] == nullptr)
      notes.push_back(fmt::format("GPU {} does not answer (lost, or no permission): left out", index));
    else
      result.push_back(m_library->describe(devices[index], static_cast<int>(index)));
  }
  return result;
}

std::vector<GpuProcess> Nvml::processes() const {
  std::vector<GpuProcess> result;
  const auto devices = m_library->devices();
  for (std::size_t index = 0; index < devices.size(); ++index) {
    if (devices[index] == nullptr) continue;
    const auto add = [&](unsigned pid, unsigned long long memory) {
      result.push_back({.gpu_index = static_cast<int>(index),
                        .pid = static_cast<pid_t>(pid),
                        .memory = {memory == k_not_available ? 0 : memory}});
    };
    NvmlStatus status{};
    auto list = list_processes(m_library->processes_v3, devices[index], status);
    if (status != NvmlStatus::success) list = list_processes(m_library->processes_v2, devices[index], status);
    for (const auto& item : list) add(item.pid, item.used_memory);
    if (status == NvmlStatus::success) continue;
    for (const auto& item : list_processes(m_library->processes_v1, devices[index], status))
      add(item.pid, item.used_memory);
  }
  return result;
}

}  // namespace startrail::machine
