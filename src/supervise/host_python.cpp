#include "supervise/host_python.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "base/files.hpp"
#include "base/process.hpp"

namespace startrail::supervise {
namespace {

constexpr const char* k_environment = "opt/env";  // where images keep theirs (DESIGN: `/opt/env` on the base's Python)

std::optional<fs::path> layer_with(const image::Image& image, const fs::path& inside) {
  std::error_code ignored;
  for (const auto& layer : image.layers)
    if (fs::exists(fs::symlink_status(layer / inside, ignored))) return layer;
  return std::nullopt;
}

Result<void> link_to(const fs::path& target, const fs::path& link) {
  TRY(base::make_directories(link.parent_path()));
  if (::symlink(target.c_str(), link.c_str()) == 0 || errno == EEXIST) return {};
  return fail(base::errno_error(fmt::format("cannot create {}", link.string()), errno));
}

Result<void> write_script(const fs::path& file, const std::string& line) {
  return base::write_file_atomic(file, "#!/bin/sh\nexec " + line + " \"$@\"\n", 0755);
}

std::optional<fs::path> dynamic_loader(const fs::path& base_root) {
  // The System V ABI's names; a base's symlinks are absolute, so they're looked up by hand.
  for (const char* name :
       {"lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
        "lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1"})
    if (std::error_code ignored; fs::is_regular_file(base_root / name, ignored)) return base_root / name;
  return std::nullopt;
}

std::string library_path(const fs::path& base_root) {
  std::string path;
  for (const char* folder : {"lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu",
                             "usr/lib/aarch64-linux-gnu", "lib", "usr/lib"})
    if (std::error_code ignored; fs::is_directory(base_root / folder, ignored))
      path += (path.empty() ? "" : ":") + (base_root / folder).string();
  return path;
}

Error no_interpreter(const std::string& version) {
  return base::error(ErrorCode::unsupported,
                     fmt::format("there is no Python {} here to run without isolation", version))
      .with_hint(fmt::format("install one: `sudo apt install python{}`", version))
      .with_hint("or run isolated, which brings its own");
}

// ld.so(8): a program may be started as the loader's argument; --argv0 (glibc 2.33) keeps the name, by which Python
// finds pyvenv.cfg (PEP 405).
Result<fs::path> make_base_interpreter(const image::Image& image, const fs::path& python, const std::string& name) {
  const auto base_root = layer_with(image, fs::path("usr/bin") / name);
  const auto loader = base_root ? dynamic_loader(*base_root) : std::nullopt;
  if (!loader) return fail(no_interpreter(image.python));
  const fs::path program = *base_root / "usr/bin" / name;
  TRY(write_script(python, base::shell_join({loader->string(), "--library-path", library_path(*base_root), "--argv0",
                                             python.string(), program.string()})));
  return program;
}

bool is_native_program(const fs::path& file) {
  const auto fd = base::open_file(file, O_RDONLY);
  std::array<char, 4> magic{};
  return fd && ::access(file.c_str(), X_OK) == 0 && ::read(fd->get(), magic.data(), magic.size()) == 4 &&
         std::string_view(magic.data(), magic.size()) ==
             "\x7f"
             "ELF";
}

// A script of that name (a version chooser's) would find pyvenv.cfg nowhere.
std::optional<fs::path> interpreter_of_host(const std::string& name, std::string_view search) {
  for (std::string_view rest = search; !rest.empty();) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (const fs::path candidate = fs::path(rest.substr(0, end)) / name; is_native_program(candidate)) return candidate;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return std::nullopt;
}

Result<void> make_interpreter(const image::Image& image, const fs::path& root, const std::string& search) {
  const std::string name = "python" + image.python;
  const fs::path python = root / "bin" / name;
  fs::path program;
  if (const auto of_host = interpreter_of_host(name, search)) {
    program = *of_host;
    TRY(link_to(program, python));
  } else {
    program = TRY(make_base_interpreter(image, python, name));
  }
  for (const char* alias : {"python", "python3"}) TRY(link_to(name, root / "bin" / alias));
  return base::write_file_atomic(root / "pyvenv.cfg",
                                 fmt::format("home = {}\ninclude-system-site-packages = false\nversion = {}\n",
                                             program.parent_path().string(), image.python));
}

bool runs_on_python(const fs::path& script) {
  const auto content = base::read_file(script, Bytes{1U << 20U});
  if (!content || !content->starts_with("#!")) return false;
  const std::string_view first = std::string_view(*content).substr(0, content->find('\n'));
  return first.find("python") != std::string_view::npos;
}

// Console scripts name the interpreter at its place inside; here they're given to ours.
Result<void> make_program(const fs::path& original, const fs::path& root) {
  const fs::path program = root / "bin" / original.filename();
  if (!runs_on_python(original)) return link_to(original, program);
  return write_script(program, base::shell_join({(root / "bin/python").string(), original.string()}));
}

}  // namespace

Result<HostPython> make_host_python(const image::Image& image, const fs::path& root, const std::string& search) {
  const fs::path packages = fs::path("lib") / ("python" + image.python) / "site-packages";
  const auto layer = layer_with(image, k_environment / packages);
  if (!layer) return fail(ErrorCode::not_found, fmt::format("the image {} has no Python environment", image.id));
  TRY(base::make_directories(root / "bin"));
  TRY(make_interpreter(image, root, search));
  TRY(link_to(*layer / k_environment / packages, root / packages));
  std::error_code failed;
  for (auto entry = fs::directory_iterator(*layer / k_environment / "bin", failed);
       !failed && entry != fs::directory_iterator(); entry.increment(failed))
    if (!entry->path().filename().string().starts_with("python")) TRY(make_program(entry->path(), root));
  return HostPython{.root = root, .programs = root / "bin"};
}

}  // namespace startrail::supervise
