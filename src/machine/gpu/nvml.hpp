// The part of NVML's binary interface that this program uses, declared here so that no header and no library of the
// driver is needed to build. Layouts as in nvml.h of CUDA 12.9; the numbers are part of a stable ABI.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/units.hpp"
#include "machine/gpu/cdi.hpp"

namespace startrail::machine {

// nvmlReturn_t
enum class NvmlStatus : int {
  success = 0,
  not_supported = 3,
  no_permission = 4,
  insufficient_size = 7,
  driver_not_loaded = 9,
  library_not_found = 12,
  function_not_found = 13,
  gpu_is_lost = 15,
  library_version_mismatch = 18,
  unknown = 999,
};

struct NvmlFailure {
  NvmlStatus status = NvmlStatus::unknown;
  std::string text;  // the library's own words, or dlopen's
};

// A loaded and initialised library; shut down when destroyed.
class Nvml {
 public:
  [[nodiscard]] static std::expected<Nvml, NvmlFailure> open(const std::string& library);
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;
  ~Nvml();

  [[nodiscard]] std::string driver_version() const;
  [[nodiscard]] std::string cuda_version() const;  // "12.2": newest that the driver can run
  // GPUs that answer; one that is lost is left out and told in `notes`.
  [[nodiscard]] std::vector<Gpu> gpus(std::vector<std::string>& notes) const;
  [[nodiscard]] std::vector<GpuProcess> processes() const;

 private:
  struct Library;
  explicit Nvml(std::unique_ptr<Library> library);
  std::unique_ptr<Library> m_library;
};

}  // namespace startrail::machine
