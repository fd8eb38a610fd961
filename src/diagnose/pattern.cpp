#define PCRE2_CODE_UNIT_WIDTH 8
#include "diagnose/pattern.hpp"

#include <fmt/format.h>
#include <pcre2.h>

#include <array>
#include <vector>

namespace startrail::diagnose {
namespace {

// Backtracking of a bad pattern on a bad text ends here.
constexpr std::uint32_t k_most_steps = 200'000;

std::vector<std::pair<std::string, std::uint32_t>> names_of(const pcre2_code* code) {
  std::uint32_t count = 0, entry_size = 0;
  PCRE2_SPTR table = nullptr;
  pcre2_pattern_info(code, PCRE2_INFO_NAMECOUNT, &count);
  pcre2_pattern_info(code, PCRE2_INFO_NAMEENTRYSIZE, &entry_size);
  pcre2_pattern_info(code, PCRE2_INFO_NAMETABLE, &table);
  std::vector<std::pair<std::string, std::uint32_t>> names;
  for (std::uint32_t index = 0; index < count; ++index, table += entry_size)
    names.emplace_back(reinterpret_cast<const char*>(table + 2), (table[0] << 8U) | table[1]);
  return names;
}

}  // namespace

struct Pattern::Code {
  explicit Code(pcre2_code* compiled)
      : code(compiled, pcre2_code_free), context(pcre2_match_context_create(nullptr), pcre2_match_context_free) {
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);  // where it can't, the interpreter does it
    pcre2_set_match_limit(context.get(), k_most_steps);
    names = names_of(code.get());
  }
  std::unique_ptr<pcre2_code, decltype(&pcre2_code_free)> code;
  std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context;
  std::vector<std::pair<std::string, std::uint32_t>> names;
};

Result<Pattern> Pattern::compile(std::string_view expression) {
  int error = 0;
  std::size_t offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(), PCRE2_DUPNAMES,
                                   &error, &offset, nullptr);
  if (code == nullptr) {
    std::array<PCRE2_UCHAR, 200> text{};
    pcre2_get_error_message(error, text.data(), text.size());
    return fail(ErrorCode::corrupt, fmt::format("the pattern `{}` is wrong at {}: {}", expression, offset,
                                                reinterpret_cast<const char*>(text.data())));
  }
  return Pattern(std::make_shared<const Code>(code));
}

std::optional<Found> Pattern::find(std::string_view text) const {
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create_from_pattern(m_code->code.get(), nullptr), pcre2_match_data_free);
  const int groups = pcre2_match(m_code->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                                 data.get(), m_code->context.get());
  if (groups < 1) return std::nullopt;
  const std::size_t* ends = pcre2_get_ovector_pointer(data.get());
  Found found{.offset = ends[0], .length = ends[1] - ends[0], .captures = {}};
  for (const auto& [name, number] : m_code->names) {
    if (number >= static_cast<std::uint32_t>(groups) || ends[2 * number] == PCRE2_UNSET) continue;
    found.captures[name] = text.substr(ends[2 * number], ends[2 * number + 1] - ends[2 * number]);
  }
  return found;
}

}  // namespace startrail::diagnose
