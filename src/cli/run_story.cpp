#include "cli/run_story.hpp"

#include <fmt/format.h>

#include "base/process.hpp"
#include "base/units.hpp"

namespace startrail::cli {
namespace {

using base::member;
using base::string_at;

constexpr std::size_t k_short_digest = 12;

class Story {
 public:
  void tell(std::string_view label, const std::string& text) {
    if (!text.empty()) m_text += fmt::format("{:<12}{}\n", label, text);
  }
  [[nodiscard]] const std::string& text() const { return m_text; }

 private:
  std::string m_text;
};

std::string short_digest(std::string digest) {
  if (digest.starts_with("sha256:")) digest.erase(0, 7);
  return digest.substr(0, k_short_digest);
}

std::string words_of(const Json& items, std::string_view separator) {
  std::string text;
  for (const auto& item : items)
    text += (text.empty() ? "" : std::string(separator)) +
            (item.is_string() ? item.get<std::string>() : base::to_compact_text(item));
  return text;
}

std::string state_text(const Json& status) {
  std::string text = string_at(status, "state");
  const std::string cause = string_at(status, "cause");
  if (!cause.empty()) text += ": " + cause;
  if (const Json& code = member(status, "exit_code"); code.is_number() && !cause.starts_with("exit code"))
    text += fmt::format(" (exit code {})", code.get<int>());
  return text;
}

std::string times_text(const Json& status, base::Time now) {
  const auto started = base::parse_time(string_at(status, "started"));
  if (!started) return "";
  const auto ended = base::parse_time(string_at(status, "ended"));
  const auto took = base::to_text(std::chrono::nanoseconds(ended.value_or(now) - *started));
  return fmt::format("{}, {} ({})", string_at(status, "started"), ended ? "took " + took : "for " + took,
                     base::ago(*started, now));
}

std::string image_text(const Json& spec, const Json& image) {
  const std::string id = string_at(spec, "image");
  if (id.empty()) return "none (the machine's own programs)";
  std::string text = short_digest(id);
  if (const auto framework = string_at(image, "framework"); !framework.empty())
    text += fmt::format(", {} {}", framework, string_at(image, "framework_version"));
  if (const auto python = string_at(image, "python"); !python.empty()) text += ", Python " + python;
  if (const auto cuda = string_at(image, "cuda"); !cuda.empty()) text += ", CUDA " + cuda;
  if (string_at(image, "build") == "cpu") text += ", CPU build";
  return text;
}

std::string git_text(const Json& git) {
  const auto commit = string_at(git, "commit");
  if (commit.empty()) return "";
  std::string text = commit.substr(0, k_short_digest);
  if (const auto branch = string_at(git, "branch"); !branch.empty()) text += " on " + branch;
  return base::boolean_at(git, "dirty") ? text + ", with changes that are not committed" : text;
}

std::string snapshot_text(const Json& snapshot) {
  if (!snapshot.is_object()) return "none";
  std::string text = short_digest(string_at(snapshot, "id"));
  if (const Json& files = member(snapshot, "files"); files.is_number())
    text += fmt::format(", {} files", files.get<std::size_t>());
  if (const Json& size = member(snapshot, "size"); size.is_number())
    text += fmt::format(", {}", base::to_text(Bytes{size.get<std::uint64_t>()}));
  if (const auto omitted = words_of(member(snapshot, "omitted"), "; "); !omitted.empty())
    text += "; left out: " + omitted;
  return text;
}

std::string members_text(const Json& object) {
  std::string text;
  if (!object.is_object()) return text;
  for (const auto& [key, value] : object.items())
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key,
                        value.is_string() ? value.get<std::string>() : base::to_compact_text(value));
  return text;
}

std::string limits_text(const Json& spec, const Json& record) {
  const Json& limits = member(spec, "limits");
  std::string text;
  const auto add = [&](const std::string& limit) { text += (text.empty() ? "" : ", ") + limit; };
  if (const Json& memory = member(limits, "memory"); memory.is_number())
    add("memory " + base::to_binary_text(Bytes{memory.get<std::uint64_t>()}));
  if (const Json& cpus = member(limits, "cpus"); cpus.is_number()) add(fmt::format("{} CPUs", cpus.get<double>()));
  if (const Json& pids = member(limits, "pids"); pids.is_number()) add(fmt::format("{} processes", pids.get<int>()));
  if (text.empty()) text = "none";
  const Json& by = member(record, "limits_by");
  return by.is_string() && text != "none" ? fmt::format("{} ({})", text, by.get<std::string>()) : text;
}

std::string machine_text(const Json& machine) {
  std::string text = string_at(machine, "hostname");
  if (const Json& cpus = member(machine, "cpus"); cpus.is_number()) text += fmt::format(", {} CPUs", cpus.get<int>());
  if (const Json& memory = member(machine, "memory"); memory.is_number())
    text += fmt::format(", {}", base::to_binary_text(Bytes{memory.get<std::uint64_t>()}));
  if (const auto driver = string_at(member(machine, "driver"), "version"); !driver.empty())
    text += ", driver " + driver;
  for (const auto& gpu : member(machine, "gpus")) text += ", " + string_at(gpu, "name");
  return text;
}

std::string isolation_text(const Json& spec, const Json& container) {
  std::string text = string_at(spec, "isolation");
  if (const auto runtime = string_at(container, "runtime"); !runtime.empty())
    text += ", " + runtime + " " + string_at(container, "runtime_version");
  if (const auto how = string_at(container, "how"); !how.empty()) text += ", " + how;
  if (string_at(spec, "network") == "none") text += ", no network";
  return text;
}

}  // namespace

std::string story_of(const Json& whole, base::Time now) {
  const Json& spec = member(whole, "spec");
  const Json& record = member(whole, "record");
  const Json& status = member(whole, "status");
  Story story;
  story.tell("run", string_at(whole, "id"));
  story.tell("state", state_text(status));
  for (const auto& remark : base::strings_at(status, "remarks")) story.tell("", remark);
  for (const auto& finding : member(status, "findings"))
    story.tell("finding", fmt::format("{} ({}, {})", string_at(finding, "summary"), string_at(finding, "class"),
                                      string_at(finding, "certainty")));
  story.tell("command", base::shell_join(base::strings_at(spec, "command")));
  story.tell("folder", string_at(spec, "workspace"));
  story.tell("rerun of", string_at(spec, "rerun_of"));
  story.tell("started", times_text(status, now));
  story.tell("image", image_text(spec, member(record, "image")));
  story.tell("lock", short_digest(string_at(spec, "lock_digest")));
  story.tell("code", snapshot_text(member(whole, "snapshot")));
  story.tell("git", git_text(member(record, "git")));
  story.tell("environment", members_text(member(spec, "environment")));
  story.tell("seeds", members_text(member(record, "seeds")));
  story.tell("isolation", isolation_text(spec, member(whole, "container")));
  story.tell("limits", limits_text(spec, record));
  if (const Json& peak = member(status, "peak_memory"); peak.is_number())
    story.tell("peak memory", base::to_binary_text(Bytes{peak.get<std::uint64_t>()}));
  story.tell("machine", machine_text(member(record, "machine")));
  story.tell("by", string_at(record, "user"));
  for (const auto& note : base::strings_at(record, "notes")) story.tell("note", note);
  for (const auto& note : base::strings_at(member(whole, "container"), "notes")) story.tell("note", note);
  story.tell("log", string_at(member(whole, "log"), "file"));
  story.tell("outputs", string_at(whole, "outputs"));
  story.tell("checkpoints", string_at(whole, "checkpoints"));
  return story.text();
}

}  // namespace startrail::cli
