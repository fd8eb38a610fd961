// One command's options and arguments: declared once, parsed, and shown as its help. The only user of CLI11.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace startrail::cli {

// What a help text says beside the options.
struct Manual {
  std::string_view name;       // "image build"
  std::string_view arguments;  // "[OPTIONS] [DIR]"
  std::string_view summary;    // one sentence
  std::string_view examples;   // lines of two columns, as they should appear; "" for none
  std::string_view notes;      // what else is worth knowing, after the options
};

class CommandLine {
 public:
  explicit CommandLine(const Manual& manual);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // `names` as CLI11 writes them: "-d,--detach". The variables must outlive `parse`.
  void flag(const std::string& names, bool& into, const std::string& help);
  // An option with a value; the last one given counts.
  void value(const std::string& names, std::optional<std::string>& into, const std::string& placeholder,
             const std::string& help);
  // An option that may be repeated, one value each.
  void values(const std::string& names, std::vector<std::string>& into, const std::string& placeholder,
              const std::string& help);
  void argument(const std::string& name, std::optional<std::string>& into);
  void arguments(const std::string& name, std::vector<std::string>& into);
  // Options end at `--` or at the first word that is none of them; the rest is taken as it is.
  void command(std::vector<std::string>& into);

  enum class Parsed { ready, help_wanted };
  // Errors: usage, naming the option and its nearest relative.
  [[nodiscard]] Result<Parsed> parse(std::span<const std::string> words);
  [[nodiscard]] std::string help() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> m_parts;
};

// The candidate nearest to `word` by edit distance, if it is near enough to be meant.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace startrail::cli
