#include "app/run_settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include "base/files.hpp"
#include "machine/gpu/cdi.hpp"
#include "volume/volume.hpp"

namespace startrail::app {
namespace {

Error bad(std::string_view option, std::string_view text, std::string_view why, std::string_view example) {
  return base::error(ErrorCode::usage, fmt::format("{} `{}`: {}", option, text, why))
      .with_hint(fmt::format("for example: {} {}", option, example));
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

template <class Number>
std::optional<Number> whole_number(std::string_view text) {
  Number value{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Places that a run's own contract fills; a mount over them would break it.
bool is_reserved(const std::string& target) {
  static constexpr std::array<std::string_view, 9> k_reserved{"/",    "/proc", "/sys", "/dev", "/opt/env",
                                                              "/usr", "/etc",  "/bin", "/lib"};
  return std::ranges::find(k_reserved, target) != k_reserved.end() || target == volume::k_workspace;
}

Result<int> positive(std::string_view option, std::string_view text, std::string_view example) {
  const auto value = whole_number<int>(text);
  if (!value) return fail(bad(option, text, "that is not a whole number", example));
  if (*value <= 0) return fail(bad(option, text, "it must be more than zero", example));
  return *value;
}

std::string gpu_list(const machine::Machine& machine) {
  if (machine.gpus.empty()) return "none";
  std::vector<std::string> names;
  names.reserve(machine.gpus.size());
  for (const auto& gpu : machine.gpus) names.push_back(fmt::format("{}: {}", gpu.index, gpu.name));
  return fmt::format("{}", fmt::join(names, ", "));
}

Error not_enough_gpus(std::string message, const machine::Machine& machine) {
  Error reason = base::error(ErrorCode::refused, std::move(message));
  reason.with_context(fmt::format("this machine's GPUs: {}", gpu_list(machine)));
  if (machine.gpus.empty())
    return std::move(reason).with_hint("leave --gpus out, or say `--gpus none`, to run on the CPU");
  return std::move(reason).with_hint(fmt::format("ask for at most {}, or for all: --gpus all", machine.gpus.size()));
}

std::vector<int> indexes_of(const machine::Machine& machine) {
  std::vector<int> indexes;
  indexes.reserve(machine.gpus.size());
  for (const auto& gpu : machine.gpus) indexes.push_back(gpu.index);
  return indexes;
}

// Those that nobody computes on come first, each group in index order.
std::vector<int> by_idleness(const machine::Machine& machine, const machine::HostPaths& host) {
  const auto processes = machine::gpu_processes(host);
  const auto is_busy = [&](int index) {
    return std::ranges::any_of(processes, [&](const auto& process) { return process.gpu_index == index; });
  };
  std::vector<int> indexes = indexes_of(machine);
  std::ranges::stable_sort(indexes, {}, is_busy);
  return indexes;
}

}  // namespace

Result<sandbox::Mount> parse_mount(std::string_view text) {
  constexpr std::string_view example = "/data/images:/mnt/images:ro";
  const auto parts = split(text, ':');
  if (parts.size() < 2 || parts.size() > 3 || parts[0].empty() || parts[1].empty())
    return fail(bad("--mount", text, "it must be SOURCE:TARGET or SOURCE:TARGET:ro", example));
  sandbox::Mount mount{.source = parts[0], .target = fs::path(parts[1]).lexically_normal().string()};
  if (parts.size() == 3 && parts[2] != "ro" && parts[2] != "rw")
    return fail(bad("--mount", text, fmt::format("`{}` is neither ro nor rw", parts[2]), example));
  if (parts.size() == 3 && parts[2] == "ro") mount.access = sandbox::Access::read_only;
  if (mount.target.front() != '/') return fail(bad("--mount", text, "the target must be an absolute path", example));
  if (mount.target.size() > 1 && mount.target.back() == '/') mount.target.pop_back();
  if (is_reserved(mount.target))
    return fail(bad("--mount", text, fmt::format("{} belongs to the run itself", mount.target), example));
  std::error_code failed;
  mount.source = fs::canonical(mount.source, failed);
  if (failed)
    return fail(base::errno_error(fmt::format("--mount `{}`: cannot use {}", text, parts[0]), failed.value())
                    .with_hint(fmt::format("make it first: mkdir -p {}", base::shell_quote(parts[0]))));
  mount.ownership = sandbox::Ownership::caller;
  return mount;
}

Result<void> add_environment(base::Environment& environment, std::string_view text, const base::Environment& caller) {
  const auto equals = text.find('=');
  const std::string name(text.substr(0, equals));
  if (name.empty()) return fail(bad("--env", text, "there is no name before the `=`", "SEED=1"));
  const std::string_view value = equals == std::string_view::npos ? std::string_view() : text.substr(equals + 1);
  if (const std::string fault = base::variable_fault(name, value); !fault.empty())
    return fail(bad("--env", text, fault, "SEED=1"));
  if (name.starts_with("TRAIL_"))
    return fail(bad("--env", text, "TRAIL_ variables are set by the run itself", "SEED=1"));
  if (equals != std::string_view::npos) {
    environment[name] = std::string(value);
    return {};
  }
  const auto found = caller.find(name);
  if (found != caller.end()) {
    environment[name] = found->second;
    return {};
  }
  return fail(
      base::error(ErrorCode::invalid_input, fmt::format("--env `{}`: it has no value, and none in this shell", name))
          .with_hint(fmt::format("give one (--env {}=VALUE), or export {} first", name, name)));
}

Result<void> add_environment_file(base::Environment& environment, const fs::path& file,
                                  const base::Environment& caller) {
  auto content = base::read_file(file, Bytes{1U << 20U});
  if (!content)
    return fail(
        std::move(content).error().with_context("given with --env-file").with_hint("it holds lines such as SEED=1"));
  const std::string text = std::move(*content);
  int number = 0;
  for (const auto& raw : split(text, '\n')) {
    ++number;
    std::string_view line(raw);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    if (line.find('=') == std::string_view::npos && !caller.contains(std::string(line))) continue;
    auto added = add_environment(environment, line, caller);
    if (!added) added.error().code = ErrorCode::invalid_input;
    if (!added)
      return fail(std::move(added).error().with_context(fmt::format("read from {}:{}", file.string(), number)));
  }
  return {};
}

Result<Bytes> parse_limit(std::string_view option, std::string_view text, Bytes least) {
  const auto value = base::parse_bytes(text);
  if (!value) return fail(bad(option, text, "that is not a size", "16GiB"));
  if (*value < least)
    return fail(bad(option, text, fmt::format("it must be at least {}", base::to_binary_text(least)), "16GiB"));
  return *value;
}

Result<double> parse_cpus(std::string_view text) {
  const auto value = whole_number<double>(text);
  if (!value) return fail(bad("--cpus", text, "that is not a number", "1.5"));
  if (!(*value >= 0.01) || *value > 100000) return fail(bad("--cpus", text, "it must be at least 0.01", "1.5"));
  return *value;
}

Result<int> parse_pids(std::string_view text) {
  return positive("--pids", text, "512");
}

Result<int> parse_grace(std::string_view text) {
  const auto value = base::parse_duration(text);
  if (!value || *value > std::chrono::days(7))
    return fail(bad("--grace", text, "that is not a time up to a week", "30s"));
  return static_cast<int>(value->count());
}

Result<sandbox::Network> parse_network(std::string_view text) {
  if (text == "host") return sandbox::Network::host;
  if (text == "none") return sandbox::Network::none;
  return fail(bad("--network", text, "it is either host or none", "none"));
}

Result<GpuRequest> parse_gpus(std::string_view text) {
  constexpr std::string_view example = "0,1";
  if (text == "all") return GpuRequest{.kind = GpuRequest::Kind::all};
  if (text == "none") return GpuRequest{.kind = GpuRequest::Kind::none};
  const bool is_list = text.starts_with("device=") || text.find(',') != std::string_view::npos;
  if (!is_list) {
    const auto count = whole_number<int>(text);
    if (!count || *count < 0)
      return fail(bad("--gpus", text, "it is all, none, a number, or a list of indexes", example));
    return GpuRequest{.kind = *count == 0 ? GpuRequest::Kind::none : GpuRequest::Kind::count, .count = *count};
  }
  GpuRequest request{.kind = GpuRequest::Kind::list};
  for (const auto& part : split(text.starts_with("device=") ? text.substr(7) : text, ',')) {
    const auto index = whole_number<int>(part);
    if (!index || *index < 0) return fail(bad("--gpus", text, fmt::format("`{}` is no GPU index", part), example));
    if (std::ranges::find(request.indexes, *index) == request.indexes.end()) request.indexes.push_back(*index);
  }
  return request;
}

Result<std::vector<int>> pick_gpus(const GpuRequest& request, const machine::Machine& machine,
                                   const machine::HostPaths& host) {
  std::vector<int> present = indexes_of(machine);
  switch (request.kind) {
    case GpuRequest::Kind::none: return std::vector<int>{};
    case GpuRequest::Kind::all: return present;
    case GpuRequest::Kind::list:
      for (const int index : request.indexes)
        if (std::ranges::find(present, index) == present.end())
          return fail(not_enough_gpus(fmt::format("there is no GPU {} here", index), machine));
      return request.indexes;
    case GpuRequest::Kind::count: break;
  }
  if (static_cast<std::size_t>(request.count) > present.size())
    return fail(not_enough_gpus(fmt::format("{} GPU{} asked for; this machine has {}", request.count,
                                            request.count == 1 ? " was" : "s were", present.size()),
                                machine));
  std::vector<int> chosen = by_idleness(machine, host);
  chosen.resize(static_cast<std::size_t>(request.count));
  std::ranges::sort(chosen);
  return chosen;
}

}  // namespace startrail::app
