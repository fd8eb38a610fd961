// PEP 440 versions and specifier sets.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace startrail::project {

class Version {
 public:
  // Errors: invalid_input.
  [[nodiscard]] static Result<Version> parse(std::string_view text);
  // Normal form: "1.0-RC1" reads as "1.0rc1".
  [[nodiscard]] const std::string& text() const { return m_text; }
  [[nodiscard]] const std::vector<unsigned long>& release() const { return m_release; }
  [[nodiscard]] bool is_prerelease() const { return m_pre_kind != 0 || m_dev.has_value(); }
  [[nodiscard]] bool is_postrelease() const { return m_post.has_value(); }
  [[nodiscard]] const std::string& local() const { return m_local; }
  [[nodiscard]] Version without_local() const;
  // Same epoch and release numbers; pre, post, dev and local parts may differ.
  [[nodiscard]] bool same_release(const Version& other) const;
  // What "==PREFIX.*" matches.
  [[nodiscard]] bool has_prefix(const Version& prefix) const;
  [[nodiscard]] std::strong_ordering operator<=>(const Version& other) const;
  [[nodiscard]] bool operator==(const Version& other) const;

 private:
  friend class SpecifierSet;
  [[nodiscard]] bool take_local(std::string local);
  [[nodiscard]] std::string public_text() const;
  [[nodiscard]] std::string normal_form() const;

  std::string m_text;
  unsigned long m_epoch = 0;
  std::vector<unsigned long> m_release;
  char m_pre_kind = 0;  // 'a', 'b', 'c' (rc) or 0
  unsigned long m_pre = 0;
  std::optional<unsigned long> m_post, m_dev;
  std::string m_local;
};

// "" matches everything; "~=2.0,!=2.0.1", "==3.8.*", ">=3.9,<3.12", "===…".
class SpecifierSet {
 public:
  // Errors: invalid_input, saying which clause breaks which rule of PEP 440.
  [[nodiscard]] static Result<SpecifierSet> parse(std::string_view text);
  // Pre-releases match only when a clause names one (PEP 440, "Handling of pre-releases").
  [[nodiscard]] bool contains(const Version& version) const;
  // The one version that "==V" or "===V" leaves, if there is such a clause.
  [[nodiscard]] std::optional<Version> pinned() const;
  // Could any version with this release prefix ("2.6", "3.11") match? Patch releases are unknown, so this
  // is true when at least one of PREFIX.0 … PREFIX.99, or a version of that series named in a clause, does.
  [[nodiscard]] bool admits_series(std::string_view prefix) const;
  // Clauses joined by ',', without blanks.
  [[nodiscard]] const std::string& text() const { return m_text; }

 private:
  struct Clause {
    std::string operation;
    std::string version_text;
    std::optional<Version> version;  // nullopt for "===" with something that is no version
    bool prefix = false;             // "==1.2.*"
  };
  [[nodiscard]] static Result<Clause> parse_clause(std::string_view text);
  [[nodiscard]] static bool matches(const Clause& clause, const Version& version);
  std::string m_text;
  std::vector<Clause> m_clauses;
};

}  // namespace startrail::project
