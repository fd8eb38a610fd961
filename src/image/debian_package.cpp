#include "image/debian_package.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/files.hpp"
#include "base/process.hpp"
#include "image/base_system.hpp"

namespace startrail::image {
namespace {

// mmdebstrap(1): no package is installed; apt knows the suite when the hooks run, and the second hook runs as the
// caller, whatever ids the first one has.
std::vector<std::string> fetch_command(const std::string& suite, const std::string& package, const std::string& mode,
                                       const fs::path& archive) {
  const std::string fetch = fmt::format(
      "cd \"$1\" && APT_CONFIG=\"$MMDEBSTRAP_APT_CONFIG\" apt-get --quiet download {0} && "
      "dpkg-deb --fsys-tarfile {0}_*.deb > package.tar",
      package);
  std::vector<std::string> words;
  if (mode == "root") words = {"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"};
  words.insert(
      words.end(),
      {"mmdebstrap", "--mode=" + mode, "--variant=custom", "--format=null", "--components=main,contrib,non-free",
       "--aptopt=Acquire::Languages \"none\"", "--aptopt=Acquire::Retries \"3\"", "--customize-hook=" + fetch,
       "--customize-hook=download package.tar " + base::shell_quote(archive.string()), suite, "-"});
  return words;
}

bool is_package_name(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '+';
  });
}

}  // namespace

Result<void> unpack_debian_package(const std::string& suite, const std::string& package, const fs::path& target,
                                   Reporter& reporter) {
  if (!is_package_name(package) || !is_package_name(suite))
    return base::fail(ErrorCode::internal, fmt::format("`{}` is not the name of a Debian package", package));
  reporter.step(fmt::format("fetching {} of Debian {}", package, suite));
  const fs::path archive = fs::path(target).concat(".tar");
  const fs::path log = fs::path(target).concat(".log");
  base::Command command{.argv = fetch_command(suite, package, TRY(mmdebstrap_mode()), archive)};
  command.environment = mmdebstrap_environment();
  command.directory = "/";
  const auto result = TRY(base::run_process(command));
  if (!result.succeeded()) {
    const std::string messages = result.errors + result.output;
    [[maybe_unused]] const auto kept = base::write_file_atomic(log, messages);
    return base::fail(mmdebstrap_error(messages, base_recipe(suite, {}), log)
                          .with_context(fmt::format("while fetching {} of Debian {}", package, suite)));
  }
  TRY(base::make_directories(target));
  TRY(unpack_base(archive, target));
  return base::remove_tree(archive);
}

}  // namespace startrail::image
