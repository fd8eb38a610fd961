#include "project/python_imports.hpp"

#include <algorithm>

namespace startrail::project {
namespace {

// Catches the failure of an import?
bool handles_missing_module(const Statement& statement) {
  if (statement.begins_with("except")) {
    if (statement.tokens.size() == 2) return true;  // `except:`
    for (const char* name : {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
      if (statement.mentions(name)) return true;
  }
  return statement.begins_with("with") && statement.mentions("suppress") &&
         (statement.mentions("ImportError") || statement.mentions("ModuleNotFoundError"));
}

bool gives_up(const Statement& statement) {
  return statement.begins_with("raise") || (statement.begins_with("sys") && statement.mentions("exit")) ||
         statement.begins_with("exit") || statement.begins_with("quit");
}

class ImportFinder {
 public:
  std::vector<Import> run(const std::vector<Statement>& all) {
    for (const Statement& statement : all) visit(statement);
    return std::move(m_imports);
  }

 private:
  enum class BlockKind { type_checking, attempt, handler, other };
  struct Block {
    int indent = 0;
    BlockKind kind = BlockKind::other;
    std::size_t first = 0, end = 0;  // the imports of the try body
    bool forgiving = false;          // imports here are optional
  };

  void visit(const Statement& statement) {
    leave_blocks(statement);
    if (std::ranges::any_of(m_blocks, [](const Block& block) { return block.kind == BlockKind::type_checking; }))
      return;
    if (statement.begins_with("if") && statement.mentions("TYPE_CHECKING") && !statement.mentions("not")) {
      m_blocks.push_back({.indent = statement.indent, .kind = BlockKind::type_checking});
    } else if (statement.begins_with("try")) {
      m_blocks.push_back({.indent = statement.indent, .kind = BlockKind::attempt, .first = m_imports.size()});
    } else if (statement.begins_with("with") && handles_missing_module(statement)) {
      m_blocks.push_back({.indent = statement.indent, .kind = BlockKind::other, .forgiving = true});
    } else if (statement.begins_with("import")) {
      take_import(statement);
    } else if (statement.begins_with("from")) {
      take_from(statement);
    } else if (gives_up(statement)) {
      take_back();
    }
  }

  // Ends the blocks that `statement` isn't in; `except`, `else` and `finally` go on with their `try`.
  void leave_blocks(const Statement& statement) {
    while (!m_blocks.empty() && m_blocks.back().indent >= statement.indent) {
      Block& block = m_blocks.back();
      const bool clause =
          statement.begins_with("except") || statement.begins_with("else") || statement.begins_with("finally");
      if (block.indent == statement.indent && clause &&
          (block.kind == BlockKind::attempt || block.kind == BlockKind::handler)) {
        next_clause(block, statement);
        return;
      }
      m_blocks.pop_back();
    }
  }

  void next_clause(Block& block, const Statement& statement) {
    if (block.kind == BlockKind::attempt) block.end = m_imports.size();
    block.kind = BlockKind::handler;
    block.forgiving = handles_missing_module(statement);
    if (block.forgiving)
      for (std::size_t i = block.first; i < block.end; ++i) m_imports[i].need = Need::optional;
  }

  // `except ImportError: raise …` makes the import a requirement after all.
  void take_back() {
    if (m_blocks.empty() || m_blocks.back().kind != BlockKind::handler || !m_blocks.back().forgiving) return;
    for (std::size_t i = m_blocks.back().first; i < m_blocks.back().end; ++i) m_imports[i].need = Need::required;
  }

  void add(std::string module, int line) {
    const bool forgiving = std::ranges::any_of(m_blocks, &Block::forgiving);
    if (!module.empty())
      m_imports.push_back(
          {.module = std::move(module), .line = line, .need = forgiving ? Need::optional : Need::required});
  }

  // A dotted name from `at` on.
  static std::string dotted(const std::vector<Token>& tokens, std::size_t& at) {
    std::string name;
    while (at < tokens.size() && tokens[at].kind == TokenKind::name && !tokens[at].is("import")) {
      name += tokens[at++].text;
      if (at >= tokens.size() || !tokens[at].is(".")) break;
      name += '.';
      ++at;
    }
    return name;
  }

  void take_import(const Statement& statement) {
    const auto& tokens = statement.tokens;
    for (std::size_t at = 1; at < tokens.size(); ++at) {
      const int line = tokens[at].line;
      add(dotted(tokens, at), line);
      while (at < tokens.size() && !tokens[at].is(",")) ++at;
    }
  }

  void take_from(const Statement& statement) {
    const auto& tokens = statement.tokens;
    if (tokens.size() < 4 || tokens[1].kind != TokenKind::name) return;  // a dot first: relative
    std::size_t at = 1;
    const std::string module = dotted(tokens, at);
    if (at >= tokens.size() || !tokens[at].is("import")) return;
    for (++at; at < tokens.size(); ++at) {
      if (tokens[at].is("(") || tokens[at].is(")") || tokens[at].is(",")) continue;
      add(tokens[at].is("*") ? module : module + "." + std::string(tokens[at].text), tokens[at].line);
      while (at < tokens.size() && !tokens[at].is(",")) ++at;
    }
  }

  std::vector<Import> m_imports;
  std::vector<Block> m_blocks;
};

}  // namespace

std::vector<Import> imports(std::string_view source) {
  return ImportFinder().run(statements(source));
}

bool has_main_guard(std::string_view source) {
  return std::ranges::any_of(statements(source), [](const Statement& statement) {
    return statement.begins_with("if") && statement.mentions("__name__") && statement.mentions("==") &&
           std::ranges::any_of(statement.tokens, [](const Token& token) {
             return token.kind == TokenKind::text && literal_value(token.text) == "__main__";
           });
  });
}

}  // namespace startrail::project
