#include "image/instance_layer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <sstream>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "image/base_system.hpp"

namespace startrail::image {
namespace {

// To be raised when what is made from the same packages changes.
constexpr int k_version = 2;

constexpr const char* k_packages = "openssh-server openssh-client rsync";
struct Suite {
  std::string_view name, pip_package;
};
constexpr std::array k_suites{Suite{"bullseye", "python-pip-whl"}, Suite{"bookworm", "python3-pip-whl"},
                              Suite{"trixie", "python3-pip-whl"}};

// The first layer that has the file decides. No link is followed: it could lead out of the layer.
std::string read_from_layers(const Image& image, const char* name) {
  constexpr Bytes k_most{64ULL << 20U};
  std::error_code ignored;
  for (const fs::path& layer : image.layers)
    if (fs::is_regular_file(fs::symlink_status(layer / name, ignored)))
      return base::read_file(layer / name, k_most).value_or("");
  return {};
}

bool has_ssh_server(const Image& image) {
  std::error_code ignored;
  for (const fs::path& layer : image.layers)
    if (fs::exists(fs::symlink_status(layer / k_ssh_server, ignored))) return true;
  return false;
}

// os-release(5): NAME=value, the value perhaps in quotes.
std::string field_of(const std::string& release, const std::string& name) {
  std::istringstream lines(release);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + "=")) continue;
    std::string value = line.substr(name.size() + 1);
    std::erase(value, '"');
    return value;
  }
  return {};
}

Result<Suite> suite_of(const Image& image) {
  const std::string release = read_from_layers(image, "usr/lib/os-release");
  const std::string codename = field_of(release, "VERSION_CODENAME");
  if (field_of(release, "ID") == "debian")
    for (const Suite& suite : k_suites)
      if (suite.name == codename) return suite;
  const std::string what = field_of(release, "PRETTY_NAME");
  return fail(base::error(ErrorCode::unsupported, "the image has no SSH server, and none is known for its system")
                  .with_context(fmt::format("it is {}", what.empty() ? "an unknown one" : what))
                  .with_hint("put openssh-server into the image"));
}

struct LayerPaths {
  fs::path place, staging, lock, log;
};

LayerPaths layer_paths(const fs::path& store, const std::string& key) {
  const fs::path all = fs::absolute(store) / "bases";
  return {.place = all / ("instance-" + key),
          .staging = all / ("staging-instance-" + key),
          .lock = all / ("lock-instance-" + key),
          .log = all / fmt::format("mmdebstrap-instance-{}.log", key.substr(0, 12))};
}

// mmdebstrap(1): no package is installed. With the base's own list of packages apt downloads just what it lacks, and
// checks Debian's signatures. The links are those of a base, where lib is usr/lib.
std::vector<std::string> fetch_command(const Suite& suite, const std::string& mode, const fs::path& status,
                                       const fs::path& archive) {
  const std::string install = fmt::format(
      "APT_CONFIG=\"$MMDEBSTRAP_APT_CONFIG\" apt-get --quiet --yes --no-install-recommends --download-only install {} "
      "{}",
      k_packages, suite.pip_package);
  const std::string unpack =
      "cd \"$1\" && mkdir -p files/usr/bin files/usr/sbin files/usr/lib files/usr/lib64 && "
      "for name in bin sbin lib lib64; do ln -s usr/$name files/$name; done && "
      "for package in var/cache/apt/archives/*.deb; do dpkg-deb --fsys-tarfile \"$package\" | "
      "tar -x -C files --keep-directory-symlink --exclude='./usr/share/man' --exclude='./usr/share/locale' "
      "--exclude='./usr/share/doc/*/*.gz' || exit 1; done && tar -c -f files.tar -C files .";
  std::vector<std::string> words;
  if (mode == "root") words = {"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"};
  words.insert(words.end(), {"mmdebstrap", "--mode=" + mode, "--variant=custom", "--format=null",
                             "--aptopt=Acquire::Languages \"none\"", "--aptopt=Acquire::Retries \"3\"",
                             "--customize-hook=upload " + base::shell_quote(status.string()) + " /var/lib/dpkg/status",
                             "--customize-hook=" + install, "--customize-hook=" + unpack,
                             "--customize-hook=download files.tar " + base::shell_quote(archive.string()),
                             std::string(suite.name), "-"});
  for (const fs::path& source : host_sources("/", suite.name)) words.push_back(source.string());
  return words;
}

// Debian's pip is one zip file without a place in any environment. This package hands Python over to it; an image's own
// pip lies above it, and so wins.
constexpr const char* k_pip_package = R"(import glob
import sys
import zipimport

_wheels = sorted(glob.glob("/usr/share/python-wheels/*.whl"))
_pip = next(wheel for wheel in _wheels if "/pip-" in wheel)
sys.path.extend(wheel for wheel in _wheels if wheel not in sys.path)
__path__ = [_pip + "/pip"]
__file__ = _pip + "/pip/__init__.py"
exec(compile(zipimport.zipimporter(_pip).get_data(__file__), __file__, "exec"))
)";

constexpr const char* k_pip_program = R"(#!/opt/env/bin/python
import sys

from pip._internal.cli.main import main

sys.exit(main())
)";

// Nobody is root inside, so nothing could be installed; who tries is told what does it.
constexpr const char* k_apt_program = R"sh(#!/bin/sh
echo "system packages are the image's: put them into \`system-packages\` of trail.toml, then, outside:" >&2
echo "  trail down $(uname -n) && trail up --renew $(uname -n)" >&2
exit 100
)sh";

Result<void> add_apt(const fs::path& root, const std::string& python) {
  if (python.empty()) return {};
  const fs::path programs = root / "opt/env/bin";
  TRY(base::make_directories(programs));
  for (const char* name : {"apt", "apt-get"}) TRY(base::write_file_atomic(programs / name, k_apt_program, 0555));
  return {};
}

Result<void> add_pip(const fs::path& root, const std::string& python) {
  if (python.empty()) return {};
  const fs::path environment = root / "opt/env";
  const fs::path package = environment / fmt::format("lib/python{}/site-packages/pip", python);
  TRY(base::make_directories(package));
  TRY(base::make_directories(environment / "bin"));
  TRY(base::write_file_atomic(package / "__init__.py", k_pip_package, 0444));
  for (const std::string& name : {std::string("pip"), std::string("pip3"), "pip" + python})
    TRY(base::write_file_atomic(environment / "bin" / name, k_pip_program, 0555));
  return {};
}

Result<void> fill(const Suite& suite, const std::string& status, const LayerPaths& paths) {
  const fs::path archive = paths.staging / "files.tar";
  const fs::path status_file = paths.staging / "status";
  TRY(base::write_file_atomic(status_file, status));
  const std::string mode = TRY(mmdebstrap_mode());
  const auto result = TRY(base::run_process({.argv = fetch_command(suite, mode, status_file, archive),
                                             .environment = mmdebstrap_environment(),
                                             .directory = "/"}));
  if (!result.succeeded()) {
    const std::string messages = result.errors + result.output;
    [[maybe_unused]] const auto kept = base::write_file_atomic(paths.log, messages);
    return fail(mmdebstrap_error(messages, base_recipe(std::string(suite.name), {}), paths.log)
                    .with_context("while fetching an SSH server for instances"));
  }
  const fs::path root = paths.staging / "root";
  TRY(base::make_directories(root));
  TRY(unpack_base(archive, root));
  TRY(base::remove_tree(archive));
  return base::remove_tree(status_file);
}

Result<void> finish(const Suite& suite, const Image& image, const LayerPaths& paths) {
  const fs::path root = paths.staging / "root";
  TRY(add_pip(root, image.python));
  TRY(add_apt(root, image.python));
  const TreeDigest digest = TRY(digest_tree(root));
  const Json meta = {
      {"suite", suite.name},       {"packages", std::string(k_packages) + " " + std::string(suite.pip_package)},
      {"python", image.python},    {"digest", digest.sha256},
      {"size", digest.size.count}, {"created", base::to_text(base::now())}};
  TRY(base::write_file_atomic(paths.staging / "meta.json", base::to_pretty_text(meta), 0644, base::Durable::yes));
  const base::Fd folder = TRY(base::open_file(paths.staging, O_RDONLY | O_DIRECTORY));
  ::syncfs(folder.get());  // best effort: a layer that a power cut damaged is made again when it is removed
  if (::rename(paths.staging.c_str(), paths.place.c_str()) == 0) return {};
  return fail(base::errno_error(fmt::format("cannot put an instance's layer at {}", paths.place.string()), errno));
}

bool is_whole(const LayerPaths& paths) {
  std::error_code ignored;
  return fs::exists(paths.place / "meta.json", ignored);
}

}  // namespace

Result<fs::path> ensure_instance_layer(const fs::path& store, const Image& image, Reporter& reporter) {
  if (has_ssh_server(image)) return fs::path();
  const Suite suite = TRY(suite_of(image));
  const std::string status = read_from_layers(image, "var/lib/dpkg/status");
  const std::string key =
      base::sha256_hex(fmt::format("{}\n{}\n{}\n{}\n{}", k_version, suite.name, k_packages, image.python, status));
  const LayerPaths paths = layer_paths(store, key);
  if (is_whole(paths)) return paths.place / "root";
  TRY(base::make_directories(paths.place.parent_path()));
  const auto lock = TRY(base::FileLock::acquire(paths.lock));
  if (is_whole(paths)) return paths.place / "root";  // whoever held the lock before made it
  reporter.step(fmt::format("fetching an SSH server of Debian {} for instances", suite.name));
  TRY(base::remove_tree(paths.staging));
  TRY(base::make_directories(paths.staging));
  auto made = fill(suite, status, paths);
  if (made) made = finish(suite, image, paths);
  [[maybe_unused]] const auto removed = base::remove_tree(paths.staging);
  if (!made) return fail(std::move(made).error());
  return paths.place / "root";
}

}  // namespace startrail::image
