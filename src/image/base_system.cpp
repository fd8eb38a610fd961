#include "image/base_system.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "image/system_store.hpp"
#include "image/trusted_path.hpp"
#include "image/without_sync.hpp"

namespace startrail::image {
namespace {

struct BasePaths {
  fs::path all, recipe_file, lock, staging, log;
};

BasePaths base_paths(const fs::path& store, const BaseRecipe& recipe) {
  const fs::path all = fs::absolute(store) / "bases";
  return {.all = all,
          .recipe_file = all / ("recipe-" + recipe.digest),
          .lock = all / ("lock-" + recipe.digest),
          .staging = all / ("staging-" + recipe.digest),
          .log = all / fmt::format("mmdebstrap-{}-{}.log", recipe.suite, recipe.digest.substr(0, 12))};
}

// newuidmap(1) maps ranges only for users who have them in /etc/subuid, by name or number.
bool has_subordinate_ids() {
  if (!base::find_program("newuidmap")) return false;
  const std::string ranges = "\n" + base::read_file("/etc/subuid").value_or("");
  const passwd* user = ::getpwuid(::geteuid());
  return (user != nullptr && ranges.find(fmt::format("\n{}:", user->pw_name)) != std::string::npos) ||
         ranges.find(fmt::format("\n{}:", ::geteuid())) != std::string::npos;
}

// mmdebstrap's "I:" lines, in their order, as steps towards the end.
class BuildProgress {
 public:
  BuildProgress(Reporter& reporter, std::string what) : m_reporter(reporter), m_what(std::move(what)) {}
  void line(std::string_view text) {
    if (!text.starts_with("I: ")) return;
    text.remove_prefix(3);
    for (std::size_t i = 0; i < k_steps.size(); ++i) {
      if (text.starts_with(k_steps[i])) show(i, text);
    }
  }
  void finishing(std::string_view text) { show(k_steps.size(), text); }

 private:
  static constexpr std::array<std::string_view, 6> k_steps{
      "running apt-get update",        "downloading packages",          "extracting archives",
      "installing essential packages", "installing remaining packages", "cleaning package lists"};
  void show(std::size_t step, std::string_view text) {
    m_reporter.progress({.what = m_what,
                         .done = step,
                         .total = k_steps.size() + 1,
                         .unit = base::Unit::items,
                         .detail = std::string(text.substr(0, text.find("...")))});
  }
  Reporter& m_reporter;
  std::string m_what;
};

// As root mmdebstrap mounts /proc, /sys and /dev in the tree. In namespaces of its own (unshare(1)) its processes and
// mounts end with it, whatever ends it; otherwise a killed build would leave mounts behind on this machine.
std::vector<std::string> build_command(const BaseRecipe& recipe, const BaseBuild& build) {
  std::vector<std::string> words;
  if (build.mode == "root") words = {"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"};
  for (auto& word : mmdebstrap_arguments(recipe, build)) words.push_back(std::move(word));
  return words;
}

Result<void> run_mmdebstrap(const BaseRecipe& recipe, const BaseBuild& build, const fs::path& log,
                            BuildProgress& progress) {
  const base::Command command{.argv = build_command(recipe, build),
                              .environment = mmdebstrap_environment(),
                              .directory = "/",
                              .input = {},
                              .timeout = std::nullopt,
                              .on_error_line = [&](std::string_view line) { progress.line(line); }};
  // Others' trees are made in a place of mmdebstrap's own, and become an archive there.
  auto result = TRY(build.mode == "root" ? run_without_sync(command) : base::run_process(command));
  const std::string messages = result.errors + result.output;
  [[maybe_unused]] const auto kept = base::write_file_atomic(log, messages);
  if (result.succeeded()) return {};
  if (result.signal != 0)
    return fail(ErrorCode::cancelled, fmt::format("mmdebstrap was ended by {}", base::signal_name(result.signal)));
  return fail(mmdebstrap_error(messages, recipe, log));
}

Result<void> fill(const BaseRecipe& recipe, const BasePaths& paths, BuildProgress& progress) {
  BaseBuild build{
      .mode = TRY(mmdebstrap_mode()), .target = paths.staging / "root", .sources = host_sources("/", recipe.suite)};
  // Root's tree is made in its place. Others' is made with ids that are not theirs, so it travels as an archive.
  const bool in_place = build.mode == "root";
  if (!in_place) build.target = paths.staging / "root.tar";
  TRY(base::make_directories(paths.staging / "root"));
  TRY(run_mmdebstrap(recipe, build, paths.log, progress));
  if (in_place) return {};
  progress.finishing("unpacking");
  TRY(unpack_base(build.target, paths.staging / "root"));
  return base::remove_tree(build.target);
}

Result<void> flush_to_disk(const fs::path& folder) {
  const base::Fd fd = TRY(base::open_file(folder, O_RDONLY | O_DIRECTORY));
  if (::syncfs(fd.get()) == 0) return {};
  return fail(base::errno_error(fmt::format("cannot write {} to the disk", folder.string()), errno));
}

// Digest and write-back take the processor and the disk: side by side.
Result<TreeDigest> digest_and_flush(const fs::path& staging) {
  Result<void> flushed;
  Result<TreeDigest> digest = fail(ErrorCode::internal, "not computed");
  {
    const std::jthread disk([&] { flushed = flush_to_disk(staging); });
    digest = digest_tree(staging / "root");
  }
  if (digest) TRY(std::move(flushed));
  return digest;
}

Json description(const BaseRecipe& recipe, const TreeDigest& digest, const fs::path& root, std::chrono::seconds took) {
  return {{"recipe", recipe.digest},     {"suite", recipe.suite},
          {"packages", recipe.packages}, {"digest", digest.sha256},
          {"size", digest.size.count},   {"created", base::to_text(base::now())},
          {"seconds", took.count()},     {"installed", installed_packages(root)}};
}

std::optional<BaseSystem> load(const fs::path& bases, const std::string& recipe, const std::string& digest) {
  const fs::path folder = bases / digest;
  const auto meta = base::read_json_file(folder / "meta.json");
  if (!meta || base::string_at(*meta, "digest") != digest) return std::nullopt;
  return BaseSystem{.recipe = recipe,
                    .digest = digest,
                    .root = folder / "root",
                    .size = {static_cast<std::uint64_t>(base::integer_at(*meta, "size"))}};
}

std::optional<BaseSystem> load_by_recipe(const fs::path& bases, const std::string& recipe) {
  auto digest = base::read_file(bases / ("recipe-" + recipe));
  if (!digest) return std::nullopt;
  while (digest->ends_with('\n')) digest->pop_back();
  return load(bases, recipe, *digest);
}

// Of the system store beside this one; "" for none.
fs::path system_bases(const fs::path& store) {
  const fs::path system = system_store_beside(store);
  return system.empty() ? system : system / "bases";
}

std::optional<BaseSystem> trusted(std::optional<BaseSystem> base) {
  if (!base || !check_trusted(base->root)) return std::nullopt;
  hold_for_life(base->root.parent_path());
  return base;
}

Result<BaseSystem> make_base(const BaseRecipe& recipe, const BasePaths& paths, Reporter& reporter) {
  const auto started = std::chrono::steady_clock::now();
  const std::string what = fmt::format("making the Debian {} base", recipe.suite);
  reporter.step(what);
  BuildProgress progress(reporter, what);
  TRY(base::remove_tree(paths.staging));  // of a builder that was killed: the lock is ours now
  TRY(base::make_directories(paths.staging, 0755));
  TRY(fill(recipe, paths, progress));
  progress.finishing("checking");
  TRY(normalise_base(paths.staging / "root"));
  const TreeDigest digest = TRY(digest_and_flush(paths.staging));
  const auto took = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - started);
  TRY(base::write_file_atomic(paths.staging / "meta.json",
                              base::to_pretty_text(description(recipe, digest, paths.staging / "root", took)), 0644,
                              base::Durable::yes));
  const fs::path place = paths.all / digest.sha256;
  // The same content from another recipe is there already, or left by a crash between the two last steps.
  if (::rename(paths.staging.c_str(), place.c_str()) != 0) {
    if (!load(paths.all, recipe.digest, digest.sha256))
      return fail(base::errno_error(fmt::format("cannot put the base at {}", place.string()), errno));
    TRY(base::remove_tree(paths.staging));
  }
  TRY(base::write_file_atomic(paths.recipe_file, digest.sha256 + "\n", 0644, base::Durable::yes));
  return BaseSystem{.recipe = recipe.digest, .digest = digest.sha256, .root = place / "root", .size = digest.size};
}

}  // namespace

Result<std::string> mmdebstrap_mode() {
  if (!base::find_program("mmdebstrap"))
    return fail(base::error(ErrorCode::not_found, "mmdebstrap, which makes the base system, is not installed")
                    .with_hint("`sudo apt install mmdebstrap`"));
  if (::geteuid() == 0) return "root";
  if (has_subordinate_ids()) return "unshare";
  if (base::find_program("fakechroot") && base::find_program("fakeroot")) return "fakechroot";
  return fail(
      base::error(ErrorCode::not_found, "an ordinary user needs subordinate ids, or fakechroot, to make a base system")
          .with_context("newuidmap or a line in /etc/subuid is missing, and so is fakechroot or fakeroot")
          .with_hint("`sudo apt install uidmap && sudo usermod --add-subuids 100000-165535 --add-subgids "
                     "100000-165535 $USER`")
          .with_hint("or `sudo apt install fakechroot fakeroot`"));
}

base::Environment mmdebstrap_environment() {
  base::Environment environment{{"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
                                {"LC_ALL", "C.UTF-8"}};
  for (const char* name : {"HOME", "USER", "LOGNAME", "TMPDIR", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY",
                           "HTTPS_PROXY", "NO_PROXY"}) {
    if (auto value = base::environment_variable(name)) environment[name] = std::move(*value);
  }
  return environment;
}

Result<BaseSystem> ensure_base(const fs::path& store, const BaseRecipe& recipe, Reporter& reporter) {
  if (auto found = find_base(store, recipe.digest)) return std::move(*found);
  const auto paths = base_paths(store, recipe);
  TRY(base::make_directories(paths.all));
  const auto lock = TRY(base::FileLock::acquire(paths.lock));
  // Whoever held the lock before may have made it.
  if (auto found = find_base(store, recipe.digest)) return std::move(*found);
  auto made = make_base(recipe, paths, reporter);
  if (!made) [[maybe_unused]]
    const auto removed = base::remove_tree(paths.staging);
  return made;
}

std::optional<BaseSystem> find_base(const fs::path& store, const std::string& recipe_digest) {
  if (auto own = load_by_recipe(fs::absolute(store) / "bases", recipe_digest)) return own;
  const fs::path shared = system_bases(store);
  return shared.empty() ? std::nullopt : trusted(load_by_recipe(shared, recipe_digest));
}

std::optional<BaseSystem> find_base_by_digest(const fs::path& store, const std::string& recipe,
                                              const std::string& digest) {
  if (auto own = load(fs::absolute(store) / "bases", recipe, digest)) return own;
  const fs::path shared = system_bases(store);
  return shared.empty() ? std::nullopt : trusted(load(shared, recipe, digest));
}

}  // namespace startrail::image
