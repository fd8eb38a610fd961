#include "cli/command_line.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

namespace startrail::cli {
namespace {

constexpr std::size_t k_help_column = 28;

struct Shown {
  std::string left, right;
};

// Optimal string alignment: a swap of two neighbours, the commonest slip, counts one.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({replaced, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string left_column(const std::string& names, const std::string& placeholder) {
  std::string left = names.starts_with("--") ? "    " + names : names;
  if (const auto comma = left.find(','); comma != std::string::npos) left.insert(comma + 1, " ");
  return placeholder.empty() ? left : left + " " + placeholder;
}

std::size_t common_beginning(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates) {
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (const auto& candidate : candidates) {
    const bool completes = word.size() >= 2 && candidate.starts_with(word);
    const std::size_t distance = completes ? 1 : edit_distance(word, candidate);
    if (distance > best_distance || distance >= candidate.size()) continue;
    // Of equals the one that begins alike: `--gpu` is `--gpus`, not `--cpu`.
    const bool equal = distance == best_distance;
    if (equal && (!best || common_beginning(word, candidate) <= common_beginning(word, *best))) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

struct CommandLine::Parts {
  Manual manual;
  CLI::App app;
  std::vector<Shown> shown;
  std::vector<std::string>* command = nullptr;
  bool help_wanted = false;

  CLI::Option* find(const std::string& name) { return app.get_option_no_throw(name); }

  // How many of `words` are this command's own: up to `--`, or to the first word that is no option or its value.
  std::size_t own_words(std::span<const std::string> words) {
    for (std::size_t i = 0; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (word == "--" || !word.starts_with('-') || word == "-") return i;
      CLI::Option* option = find(word.starts_with("--") ? word : word.substr(0, 2));
      const bool value_is_next = option != nullptr && option->get_items_expected_max() > 0 &&
                                 word.find('=') == std::string::npos && (word.starts_with("--") || word.size() == 2);
      if (value_is_next) ++i;
    }
    return words.size();
  }

  [[nodiscard]] std::vector<std::string> option_names() const {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options())
      for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    return names;
  }

  Error usage(std::string message) const {
    return base::error(ErrorCode::usage, std::move(message))
        .with_hint(fmt::format("see `trail {} --help`", manual.name));
  }

  Error unexpected(const std::string& word) const {
    if (!word.starts_with('-')) return usage(fmt::format("`trail {}` does not take `{}`", manual.name, word));
    Error reason = usage(fmt::format("`trail {}` has no option `{}`", manual.name, word));
    const auto names = option_names();
    if (auto near = nearest(word.substr(0, word.find('=')), names))
      reason.hints.insert(reason.hints.begin(), fmt::format("did you mean `{}`?", *near));
    return reason;
  }
};

CommandLine::CommandLine(const Manual& manual) : m_parts(std::make_unique<Parts>()) {
  m_parts->manual = manual;
  m_parts->app.set_help_flag();  // ours is shown by `help`, and listed last
  m_parts->app.add_flag("-h,--help", m_parts->help_wanted);
}

CommandLine::~CommandLine() = default;

void CommandLine::flag(const std::string& names, bool& into, const std::string& help) {
  m_parts->app.add_flag(names, into);
  m_parts->shown.push_back({left_column(names, ""), help});
}

void CommandLine::value(const std::string& names, std::optional<std::string>& into, const std::string& placeholder,
                        const std::string& help) {
  m_parts->app.add_option_function<std::string>(names, [&into](const std::string& text) { into = text; })->take_last();
  m_parts->shown.push_back({left_column(names, placeholder), help});
}

void CommandLine::values(const std::string& names, std::vector<std::string>& into, const std::string& placeholder,
                         const std::string& help) {
  m_parts->app.add_option(names, into)->expected(1)->take_all()->allow_extra_args(false);
  m_parts->shown.push_back({left_column(names, placeholder), help});
}

void CommandLine::argument(const std::string& name, std::optional<std::string>& into) {
  m_parts->app.add_option_function<std::string>(name, [&into](const std::string& text) { into = text; });
}

void CommandLine::arguments(const std::string& name, std::vector<std::string>& into) {
  m_parts->app.add_option(name, into);
}

void CommandLine::command(std::vector<std::string>& into) {
  m_parts->command = &into;
}

Result<CommandLine::Parsed> CommandLine::parse(std::span<const std::string> words) {
  std::span<const std::string> own = words;
  if (m_parts->command != nullptr) {
    const std::size_t count = m_parts->own_words(words);
    own = words.first(count);
    auto rest = words.subspan(count);
    if (!rest.empty() && rest.front() == "--") rest = rest.subspan(1);
    m_parts->command->assign(rest.begin(), rest.end());
  }
  std::vector<std::string> reversed(own.rbegin(), own.rend());  // as CLI::App::parse takes them
  try {
    m_parts->app.parse(reversed);
  } catch (const CLI::ExtrasError&) {
    if (m_parts->help_wanted) return Parsed::help_wanted;
    const auto extras = m_parts->app.remaining();
    return fail(m_parts->unexpected(extras.empty() ? std::string() : extras.front()));
  } catch (const CLI::ArgumentMismatch& mismatch) {
    if (std::ranges::find(own, "--help") != own.end()) return Parsed::help_wanted;
    const std::string text = mismatch.what();
    return fail(m_parts->usage(
        fmt::format("`trail {}`: {} needs a value", m_parts->manual.name, text.substr(0, text.find(':')))));
  } catch (const CLI::Error& problem) {
    return fail(m_parts->usage(fmt::format("`trail {}`: {}", m_parts->manual.name, problem.what())));
  }
  return m_parts->help_wanted ? Parsed::help_wanted : Parsed::ready;
}

std::string CommandLine::help() const {
  const Manual& manual = m_parts->manual;
  std::string text = fmt::format("{}\n\nUsage: trail {} {}\n", manual.summary, manual.name, manual.arguments);
  if (!manual.examples.empty()) text += fmt::format("\nExamples:\n{}", manual.examples);
  text += "\nOptions:\n";
  auto shown = m_parts->shown;
  shown.push_back({"-h, --help", "Show this help"});
  for (const auto& [left, right] : shown) {
    const std::string gap = left.size() + 4 > k_help_column ? "\n" + std::string(k_help_column, ' ')
                                                            : std::string(k_help_column - 2 - left.size(), ' ');
    text += fmt::format("  {}{}{}\n", left, gap, right);
  }
  if (!manual.notes.empty()) text += fmt::format("\n{}", manual.notes);
  return text;
}

}  // namespace startrail::cli
