#include "sandbox/container_fixture.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "base/files.hpp"
#include "base/json.hpp"
#include "machine/machine.hpp"
#include "sandbox/container_request.hpp"
#include "sandbox/control_group.hpp"
#include "sandbox/identity.hpp"

namespace startrail::sandbox::testing {
namespace {

const machine::Machine& this_machine() {
  static const auto machine = machine::survey({}, test_home(), machine::Depth::quick);
  return machine;
}

std::string trimmed(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_root() {
  return ::geteuid() == 0;
}

std::vector<std::string> as_ordinary_user(std::vector<std::string> command) {
  const std::string id = std::to_string(k_ordinary_uid);
  command.insert(command.begin(), {"setpriv", "--reuid=" + id, "--regid=" + id, "--clear-groups"});
  return command;
}

Result<base::ProcessResult> run_command(std::vector<std::string> argv) {
  return base::run_process({.argv = std::move(argv),
                            .environment = std::nullopt,
                            .directory = "/",
                            .input = {},
                            .timeout = std::nullopt,
                            .on_error_line = {}});
}

bool ordinary_user_can_read(const fs::path& path) {
  const auto result = run_command(as_ordinary_user({"test", "-r", path.string()}));
  return result && result->succeeded();
}

}  // namespace

fs::path test_home() {
  if (const auto given = base::environment_variable("STARTRAIL_TEST_HOME")) return *given;
  return fs::path(STARTRAIL_BUILD_DIR) / "test-home";
}

fs::path program(const char* name) {
  return fs::path(STARTRAIL_BUILD_DIR) / name;
}

Result<fs::path> test_base() {
  static const auto made = []() -> Result<fs::path> {
    const fs::path maker = program("test_base");
    if (!fs::exists(maker)) return fail(ErrorCode::not_found, "the target test_base is not built");
    const auto result = TRY(run_command({maker.string(), (test_home() / "store").string()}));
    if (!result.succeeded()) return fail(ErrorCode::internal, trimmed(result.errors));
    return fs::path(trimmed(result.output));
  }();
  return made;
}

std::string Way::name() const {
  return (mode == Mode::root ? "root_" : "rootless_") + runtime;
}

std::vector<Way> all_ways() {
  return {{Mode::root, "crun"}, {Mode::root, "runc"}, {Mode::rootless, "crun"}, {Mode::rootless, "runc"}};
}

Support support_for(const Way& way) {
  const auto& cgroups = this_machine().cgroups;
  return {.mode = way.mode,
          .runtime = base::find_program(way.runtime).value_or(""),
          .runtime_name = way.runtime,
          .runtime_version = "of the test",
          .cgroup_limits = way.mode == Mode::root && cgroups.writable,
          .limits_by = {}};
}

std::optional<std::string> obstacle(const Way& way) {
  if (!base::find_program(way.runtime)) return fmt::format("{} is not installed", way.runtime);
  if (way.mode == Mode::root && !is_root()) return "only root can start containers as root";
  const auto root = test_base();
  if (!root) return fmt::format("no base to run on: {}", to_text(root.error()));
  if (way.mode == Mode::root) return std::nullopt;
  if (!this_machine().user_namespaces.allowed)
    return fmt::format("ordinary users get no user namespaces here: {}", this_machine().user_namespaces.why_not);
  if (is_root() && !ordinary_user_can_read(*root)) return fmt::format("an ordinary user can't read {}", root->string());
  return std::nullopt;
}

void announce_skip(const std::string& reason) {
  std::fprintf(stderr, "skipped: %s\n", reason.c_str());
}

void ContainerTest::SetUp() {
  if (const auto reason = obstacle(GetParam())) {
    announce_skip(*reason);
    GTEST_SKIP() << *reason;
  }
  m_support = support_for(GetParam());
  m_folder = *base::make_temporary_directory(fs::temp_directory_path(), "startrail-sandbox");
  m_workspace = m_folder / "workspace";
  ASSERT_TRUE(base::make_directories(m_workspace));
  if (rootless() && is_root()) {
    for (const auto& folder : {m_folder, m_workspace})
      ASSERT_EQ(::chown(folder.c_str(), k_ordinary_uid, k_ordinary_uid), 0);
  }
}

void ContainerTest::TearDown() {
  if (!m_folder.empty()) {
    EXPECT_TRUE(base::remove_tree(m_folder));
  }
}

unsigned ContainerTest::inner_uid() const {
  return rootless() ? owner() : run_uid(m_latest_id);
}

unsigned ContainerTest::owner() const {
  return rootless() && is_root() ? k_ordinary_uid : ::geteuid();
}

ContainerSpec ContainerTest::spec(std::vector<std::string> argv) const {
  static int count = 0;
  m_latest_id = fmt::format("unit-{}-{}", ::getpid(), ++count);
  return {.id = m_latest_id,
          .layers = {*test_base()},
          .scratch = m_folder / fmt::format("scratch-{}", count),
          .argv = std::move(argv),
          .environment = {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}},
          .directory = "/workspace",
          .mounts = {{.source = m_workspace,
                      .target = "/workspace",
                      .access = Access::read_write,
                      .ownership = Ownership::caller}},
          .owner_reference = m_workspace};
}

std::vector<std::string> ContainerTest::command_for(const ContainerSpec& spec) {
  const fs::path request = spec.scratch / "request.json";
  EXPECT_TRUE(base::make_directories(spec.scratch));
  const Json json = {{"support", to_json(m_support)}, {"spec", to_json(spec)}};
  EXPECT_TRUE(base::write_file_atomic(request, base::to_compact_text(json)));
  std::vector<std::string> command{program("contain_program").string(), "contain", request.string()};
  if (!rootless() || !is_root()) return command;
  EXPECT_EQ(::chown(spec.scratch.c_str(), k_ordinary_uid, k_ordinary_uid), 0);
  return as_ordinary_user(std::move(command));
}

Outcome ContainerTest::run(const ContainerSpec& spec, std::optional<std::chrono::milliseconds> timeout) {
  const auto result = base::run_process({.argv = command_for(spec),
                                         .environment = std::nullopt,
                                         .directory = "/",
                                         .input = {},
                                         .timeout = timeout,
                                         .on_error_line = {}});
  EXPECT_TRUE(result) << to_text(result.error());
  const auto answer = base::read_json_file(spec.scratch / "request.json.answer");
  EXPECT_TRUE(answer) << result->errors;
  Outcome outcome{.output = trimmed(result->output), .errors = result->errors};
  if (!answer) return outcome;
  EXPECT_FALSE(answer->contains("error")) << answer->dump(2);
  outcome.exit_code = static_cast<int>(base::integer_at(*answer, "exit_code"));
  outcome.signal = static_cast<int>(base::integer_at(*answer, "signal"));
  outcome.out_of_memory = base::boolean_at(*answer, "out_of_memory");
  EXPECT_FALSE(ControlGroup::find(spec.id)) << "a control group was left behind";
  return outcome;
}

}  // namespace startrail::sandbox::testing
