#include "project/requirement_line.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "project/marker.hpp"
#include "project/text_scan.hpp"
#include "project/version.hpp"

namespace startrail::project {
namespace {

constexpr std::size_t k_longest_name = 200;

constexpr std::string_view k_archive_endings[] = {".whl", ".zip",    ".tar.gz", ".tgz",     ".tar.bz2",
                                                  ".tbz", ".tar.xz", ".txz",    ".tar.zst", ".tar"};

bool is_archive_name(std::string_view path) {
  return std::ranges::any_of(k_archive_endings, [&](std::string_view ending) { return path.ends_with(ending); });
}

bool has_scheme(std::string_view text) {
  const std::size_t mark = text.find("://");
  if (mark == std::string_view::npos || mark == 0) return false;
  return std::ranges::all_of(text.substr(0, mark), [](char c) { return is_alphanumeric(c) || is_one_of(c, "+-."); });
}

bool is_vcs(std::string_view text) {
  for (const std::string_view scheme : {"git+", "hg+", "svn+", "bzr+", "git://"})
    if (text.starts_with(scheme)) return true;
  return false;
}

bool looks_like_path(std::string_view text) {
  if (text == "." || text.starts_with("./") || text.starts_with("../") || text.starts_with('/') || text == ".." ||
      text.starts_with(".["))
    return true;
  const std::string_view path = text.substr(0, text.find('['));
  return path.find('/') != std::string_view::npos || is_archive_name(path);
}

// Splits "URL ; marker". PEP 508 wants a blank before ';', since URLs may contain it.
std::pair<std::string_view, std::string_view> split_url_marker(std::string_view text) {
  std::size_t at = text.find(" ;");
  if (at == std::string_view::npos) at = text.find("; ");
  if (at == std::string_view::npos) return {trimmed(text), {}};
  return {trimmed(text.substr(0, at)), trimmed(text.substr(text.find(';', at) + 1))};
}

class LineParser {
 public:
  LineParser(std::string_view text, const Origin& origin) : m_text(trimmed(text)) {
    m_requirement.origin = origin;
    m_requirement.as_written = quotable(m_text);
  }

  Result<Requirement> parse() {
    std::string_view text = m_text;
    for (const std::string_view flag : {"-e ", "--editable ", "--editable=", "-e\t"}) {
      if (!text.starts_with(flag)) continue;
      text = trimmed(text.substr(flag.size()));
      m_requirement.editable = Editable::yes;
      break;
    }
    if (text.size() >= 2 && is_one_of(text.front(), "'\"") && text.back() == text.front())
      text = trimmed(text.substr(1, text.size() - 2));
    if (text.empty()) return refuse("it names nothing", "write a package name, such as torch>=2.0");
    if (is_vcs(text) || has_scheme(text)) {
      TRY(take_url(text));
    } else if (looks_like_path(text.substr(0, text.find('@'))) || m_requirement.editable == Editable::yes) {
      TRY(take_path(text));
    } else {
      TRY(take_named(text));
    }
    return std::move(m_requirement);
  }

 private:
  std::unexpected<Error> refuse(const std::string& why, const std::string& hint = {}) const {
    Error reason =
        error(ErrorCode::invalid_input, fmt::format("{}: `{}` is not a valid requirement: {}",
                                                    to_text(m_requirement.origin), m_requirement.as_written, why));
    if (!hint.empty()) reason.with_hint(hint);
    return fail(std::move(reason));
  }

  // Keeps the rule and the way out of a part's own error, and says where the part stands.
  std::unexpected<Error> refuse(Error reason) const {
    // The clause stands in the line already.
    const std::size_t rule = reason.message.starts_with('`') ? reason.message.find("`: ") : std::string::npos;
    if (rule != std::string::npos) reason.message.erase(0, rule + 3);
    reason.message = fmt::format("{}: `{}` is not a valid requirement: {}", to_text(m_requirement.origin),
                                 m_requirement.as_written, reason.message);
    return fail(std::move(reason));
  }

  Result<void> take_marker(std::string_view marker) {
    if (auto parsed = Marker::parse(marker); !parsed) return refuse(std::move(parsed).error());
    m_requirement.marker = trimmed(marker);
    return {};
  }

  // "[a, b]" at the start of `text` is moved into the requirement's extras.
  Result<void> take_extras(std::string_view& text) {
    if (!text.starts_with('[')) return {};
    const std::size_t end = text.find(']');
    if (end == std::string_view::npos) return refuse("the `[` of its extras is not closed", "write name[extra]");
    for (const std::string_view part : split(text.substr(1, end - 1), ',')) {
      const std::string_view extra = trimmed(part);
      if (extra.empty()) continue;
      if (!std::ranges::all_of(extra, [](char c) { return is_alphanumeric(c) || is_one_of(c, "-_."); }))
        return refuse(fmt::format("`{}` is not the name of an extra", quotable(extra)));
      m_requirement.extras.emplace_back(normalized_name(extra));
    }
    text = trimmed(text.substr(end + 1));
    return {};
  }

  Result<void> take_named(std::string_view text) {
    std::size_t length = 0;
    while (length < text.size() && (is_alphanumeric(text[length]) || is_one_of(text[length], "-_."))) ++length;
    while (length > 0 && !is_alphanumeric(text[length - 1])) --length;
    if (length == 0 || !is_alphanumeric(text.front()))
      return refuse("a package name begins with a letter or digit (PEP 508)",
                    "write a requirement, such as torch>=2.0, or begin the line with # if it is a remark");
    if (length > k_longest_name)
      return refuse(fmt::format("its name has {} characters", length),
                    "write one requirement per line, such as torch>=2.0");
    m_requirement.name = normalized_name(text.substr(0, length));
    text = trimmed(text.substr(length));
    TRY(take_extras(text));
    if (text.starts_with('@')) return take_url(trimmed(text.substr(1)));
    const std::size_t semicolon = text.find(';');
    if (semicolon != std::string_view::npos) TRY(take_marker(text.substr(semicolon + 1)));
    return take_specifier(trimmed(text.substr(0, semicolon)));
  }

  Result<void> take_specifier(std::string_view text) {
    if (text.starts_with('(') && text.ends_with(')')) text = trimmed(text.substr(1, text.size() - 2));
    if (text.empty()) return {};
    if (!is_one_of(text.front(), "=<>!~^*"))
      return refuse(fmt::format("`{}` was not expected after the name", quotable(text)),
                    "write one requirement per line, such as torch>=2.0");
    if (text == "*") return {};
    auto parsed = SpecifierSet::parse(text);
    if (!parsed) return refuse(name_the_package(std::move(parsed).error()));
    m_requirement.specifier = parsed->text();
    return {};
  }

  // A hint such as "write ==1.2 or ~=1.2" becomes something to paste.
  Error name_the_package(Error reason) const {
    for (std::string& hint : reason.hints) {
      std::string named;
      for (const std::string_view word : split(hint, ' ')) {
        if (!named.empty()) named += ' ';
        if (!word.empty() && is_one_of(word.front(), "=<>~!")) named += m_requirement.name;
        named += word;
      }
      hint = named;
    }
    return reason;
  }

  Result<void> take_url(std::string_view text) {
    const auto [url, marker] = split_url_marker(text);
    if (!marker.empty()) TRY(take_marker(marker));
    if (url.empty()) return refuse("an address is missing after `@`", "write name @ https://…");
    if (is_vcs(url)) return take_vcs(std::string(url));
    if (!has_scheme(url)) return take_path(url);
    if (url.starts_with("file://")) return take_path(percent_decoded(url.substr(7)));
    if (!url.starts_with("https://") && !url.starts_with("http://"))
      return refuse(fmt::format("addresses begin with https://, git+https:// or file://, not `{}`",
                                url.substr(0, url.find(':') + 3)));
    return take_archive(url);
  }

  Result<void> take_archive(std::string_view url) {
    const std::string_view address = url.substr(0, url.find_first_of("#?"));
    const std::string_view file = address.substr(address.rfind('/') + 1);
    const auto slashes = std::ranges::count(address, '/');
    const bool forge = address.find("://github.com/") != std::string_view::npos ||
                       address.find("://gitlab.com/") != std::string_view::npos;
    if (address.ends_with(".git") || (forge && slashes == 4 && !is_archive_name(file)))
      return refuse("that is the address of a git repository, not of an archive", fmt::format("write git+{}", url));
    m_requirement.kind = SourceKind::archive;
    m_requirement.location = url;
    take_wheel_name(percent_decoded(file));
    take_fragment(url, /*location=*/nullptr);
    return {};
  }

  void take_wheel_name(std::string_view file) {
    const WheelName wheel = wheel_name(file);
    if (wheel.name.empty()) return;
    if (m_requirement.name.empty()) m_requirement.name = wheel.name;
    m_requirement.specifier = "==" + wheel.version;
  }

  // "#egg=name[extra]&subdirectory=dir": the name is pip's old way, the folder is kept with the address.
  void take_fragment(std::string_view url, std::string* location) {
    const std::size_t hash = url.find('#');
    if (hash == std::string_view::npos) return;
    for (const std::string_view part : split(url.substr(hash + 1), '&')) {
      if (part.starts_with("egg=")) take_egg(percent_decoded(part.substr(4)));
      if (part.starts_with("sha256=")) m_requirement.hashes.push_back("sha256:" + std::string(part.substr(7)));
      if (part.starts_with("subdirectory=") && location != nullptr) *location += "#" + std::string(part);
    }
  }

  void take_egg(std::string egg) {
    std::string_view rest = egg;
    const std::size_t bracket = rest.find('[');
    if (bracket != std::string_view::npos && m_requirement.extras.empty()) {
      std::string_view extras = rest.substr(bracket);
      if (!take_extras(extras)) m_requirement.extras.clear();
    }
    std::string_view name = rest.substr(0, std::min(bracket, rest.find_first_of("=<>!")));
    if (const std::size_t dash = name.rfind('-');
        dash != std::string_view::npos && Version::parse(name.substr(dash + 1)))
      name = name.substr(0, dash);  // "egg=name-1.2" and "egg=name-dev" are setuptools' old forms
    if (m_requirement.name.empty()) m_requirement.name = normalized_name(name);
  }

  Result<void> take_vcs(std::string url) {
    for (const std::string_view other : {"hg+", "svn+", "bzr+"})
      if (url.starts_with(other))
        return fail(error(ErrorCode::unsupported, fmt::format("{}: `{}`: only git repositories can be fetched",
                                                              to_text(m_requirement.origin), m_requirement.as_written))
                        .with_hint("use a git mirror or an archive's https address"));
    if (url.starts_with("git://")) url = "git+" + url;
    if (url.starts_with("git+") && !has_scheme(url)) {  // git+git@host:owner/name.git, as scp would write it
      const std::size_t colon = url.find(':');
      if (colon == std::string::npos) return refuse("`git+` needs an address", "write git+https://host/owner/name.git");
      url[colon] = '/';
      url = "git+ssh://" + url.substr(4);
    }
    m_requirement.kind = SourceKind::vcs;
    m_requirement.location = url.substr(0, url.find('#'));
    take_fragment(url, &m_requirement.location);
    return {};
  }

  Result<void> take_path(std::string_view text) {
    auto [path, marker] = split_url_marker(text);
    if (!marker.empty()) TRY(take_marker(marker));
    path = path.substr(0, path.find('#'));
    if (const std::size_t bracket = path.rfind('['); bracket != std::string_view::npos && path.ends_with(']')) {
      std::string_view extras = path.substr(bracket);
      TRY(take_extras(extras));
      path = trimmed(path.substr(0, bracket));
    }
    while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
    if (path.empty()) return refuse("it names no path", "write -e . or ./folder");
    const bool archive = is_archive_name(path);
    m_requirement.kind = archive ? SourceKind::archive : SourceKind::directory;
    const bool rooted = path.starts_with('/') || path.starts_with('.');
    m_requirement.location = rooted ? std::string(path) : "./" + std::string(path);
    if (archive) take_wheel_name(path.substr(path.rfind('/') + 1));
    return {};
  }

  std::string m_text;
  Requirement m_requirement;
};

}  // namespace

Result<Requirement> parse_requirement(std::string_view text, const Origin& origin) {
  return LineParser(text, origin).parse();
}

WheelName wheel_name(std::string_view file_name) {
  if (!file_name.ends_with(".whl")) return {};
  file_name.remove_suffix(4);
  const auto parts = split(file_name, '-');
  if (parts.size() != 5 && parts.size() != 6) return {};
  const auto version = Version::parse(parts[1]);
  if (!version) return {};
  return {.name = normalized_name(parts[0]), .version = version->text()};
}

}  // namespace startrail::project
