// choices.txt, line by line.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "base/files.hpp"
#include "catalog/rows.hpp"
#include "situation.hpp"

namespace startrail::catalog {
namespace {

using testing::HasSubstr;

struct Case {
  int line = 0;
  std::vector<std::string> needs;
  std::string python, driver, gpus, glibc, options, expected;
};

void PrintTo(const Case& item, std::ostream* out) {
  *out << "choices.txt:" << item.line;
}

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    parts.emplace_back(text.substr(start, end - start));
    start = end + separator.size();
  }
  return parts;
}

std::string or_nothing(const std::string& text) {
  return text == "-" ? "" : text;
}

std::vector<Case> cases() {
  const auto text = base::read_file(std::string(STARTRAIL_SOURCE_DIR) + "/tests/unit/catalog/choices.txt");
  std::vector<Case> all;
  int number = 0;
  for (const auto& line : split(text.value_or(""), "\n")) {
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    const auto cells = split(line, " | ");
    if (cells.size() != 8) {
      ADD_FAILURE() << "choices.txt:" << number << " has " << cells.size() << " cells, not 8";
      continue;
    }
    Case item{.line = number, .needs = split(cells[0], ", ")};
    if (cells[0] == "-") item.needs.clear();
    item.python = or_nothing(cells[1]);
    item.driver = or_nothing(cells[2]);
    item.gpus = or_nothing(cells[3]);
    item.glibc = or_nothing(cells[4]);
    item.options = or_nothing(cells[5]);
    item.expected = cells[6];
    all.push_back(std::move(item));
  }
  return all;
}

machine::Machine machine_of(const Case& item) {
  std::vector<std::string> capabilities;
  if (!item.gpus.empty()) capabilities = split(item.gpus, "+");
  machine::Machine machine = machine_with(item.driver);
  machine.glibc = item.glibc;
  for (auto& text : capabilities) {
    const bool mig = text.ends_with('m');
    if (mig) text.pop_back();
    machine.gpus.push_back(gpu(text, "GPU-" + text, static_cast<int>(machine.gpus.size())));
    machine.gpus.back().mig_enabled = mig;
  }
  return machine;
}

ChooseOptions options_of(const Case& item) {
  ChooseOptions options;
  if (item.options.empty()) return options;
  const auto words = split(item.options, " ");
  if (words[0] == "--cpu") options.build = project::Build::cpu;
  if (words[0] == "--python") options.python = words.at(1);
  if (words[0] == "--framework") options.framework = words.at(1);
  return options;
}

// What the sentence of each class of refusal says.
const std::map<std::string, std::string>& sentences() {
  static const std::map<std::string, std::string> s_sentences{{"driver", "needs NVIDIA driver"},
                                                              {"gpu", "has no kernels for"},
                                                              {"python", "Python"},
                                                              {"pins", "no release of"},
                                                              {"pair", "goes with"},
                                                              {"numpy", "is built for numpy 1"},
                                                              {"stub", "is a stub"},
                                                              {"build", "the CPU build was asked for"}};
  return s_sentences;
}

void expect_refusal(const Case& item, const Result<Choice>& choice) {
  ASSERT_FALSE(choice) << "a choice: " << (choice->combination ? title(*choice->combination) : "nothing");
  const Error& error = choice.error();
  EXPECT_EQ(error.code, ErrorCode::refused);
  const auto open = item.expected.find(" (");
  const std::string kind = item.expected.substr(9, open - 9);
  ASSERT_TRUE(sentences().contains(kind)) << kind;
  EXPECT_THAT(error.message, HasSubstr(sentences().at(kind)));
  const std::string told = base::to_text(error);
  for (const auto& word : split(item.expected.substr(open + 2, item.expected.size() - open - 3), ", "))
    EXPECT_THAT(told, HasSubstr(word));
  EXPECT_FALSE(error.hints.empty() && kind != "python") << "no way out: " << told;
}

class Choices : public testing::TestWithParam<Case> {};

TEST_P(Choices, are_what_the_facts_say) {
  const Case& item = GetParam();
  const auto choice = choose(project_with(item.needs, item.python), machine_of(item), options_of(item));
  if (item.expected.starts_with("refused: ")) return expect_refusal(item, choice);
  ASSERT_TRUE(choice) << base::to_text(choice.error());
  EXPECT_EQ(fmt::format("{} on {}", choice->combination ? title(*choice->combination) : "nothing",
                        choice->pythons.at(0).minor),
            item.expected);
}

INSTANTIATE_TEST_SUITE_P(Table, Choices, testing::ValuesIn(cases()),
                         [](const auto& item) { return fmt::format("line_{}", item.param.line); });

TEST(ChoicesTable, has_the_cases_that_it_should) {
  EXPECT_GE(cases().size(), 60U);
}

}  // namespace
}  // namespace startrail::catalog
