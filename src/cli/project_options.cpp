#include "cli/project_options.hpp"

#include <fmt/format.h>

#include <cctype>

#include "base/files.hpp"
#include "project/requirements.hpp"
#include "project/version.hpp"

namespace startrail::cli {
namespace {

Result<std::string> python_minor(const std::string& text) {
  const auto version = project::Version::parse(text);
  if (!version || version->release().size() < 2 || version->release()[0] != 3)
    return fail(base::error(ErrorCode::usage, fmt::format("--python `{}` is no Python 3 version", text))
                    .with_hint("for example: --python 3.11"));
  return fmt::format("3.{}", version->release()[1]);
}

Result<std::string> framework_requirement(const std::string& text) {
  // "pytorch:2.6", as a combination is named everywhere.
  if (text.find(':') != std::string::npos && catalog::is_name(text)) return TRY(catalog::named(text)).requirement;
  const auto end = text.find_first_of("=<>!~ ");
  const bool has_name = end != 0 && !text.empty() && std::isalpha(static_cast<unsigned char>(text.front())) != 0;
  const auto specifier = project::SpecifierSet::parse(end == std::string::npos ? "" : text.substr(end));
  if (!has_name || !specifier)
    return fail(base::error(ErrorCode::usage, fmt::format("--framework `{}` is not NAME==VERSION", text))
                    .with_hint("for example: --framework torch==2.10.0"));
  return text;
}

// As the user's shell means them: relative to where they are, which needn't be the project's folder.
Result<std::string> requirements_file(const std::string& text) {
  std::error_code failed;
  const fs::path file = fs::canonical(text, failed);
  if (failed)
    return fail(base::errno_error(fmt::format("cannot read {}", text), failed.value()).with_context("given with -r"));
  if (fs::is_directory(file))
    return fail(base::error(ErrorCode::invalid_input, fmt::format("{} is a folder, not a requirements file", text))
                    .with_hint(fmt::format("for example: -r {}",
                                           base::shell_quote((fs::path(text) / "requirements.txt").string()))));
  return file.string();
}

}  // namespace

void ProjectOptions::add_to(CommandLine& line) {
  add_choice_to(line);
  line.flag("--upgrade", upgrade, "Choose and resolve anew, forgetting the lock's pins");
  line.values("-r,--requirements", requirement_files, "FILE", "Read these requirements instead of looking around");
}

void ProjectOptions::add_choice_to(CommandLine& line) {
  line.flag("--cpu", cpu, "Take the CPU build of the framework");
  line.value("--python", python, "VERSION", "Take this Python, e.g. 3.11");
  line.value("--framework", framework, "NAME==VER", "Take this framework release, e.g. torch==2.10.0");
}

Result<app::LockRequest> ProjectOptions::request(const std::string& folder) const {
  app::LockRequest request{.folder = folder};
  if (cpu) request.choose.build = project::Build::cpu;
  if (python) request.choose.python = TRY(python_minor(*python));
  if (framework) request.framework = TRY(framework_requirement(*framework));
  if (upgrade) request.upgrade = app::Upgrade::yes;
  for (const auto& file : requirement_files) request.requirement_files.push_back(TRY(requirements_file(file)));
  return request;
}

}  // namespace startrail::cli
