// Values of TOML tables with the place each one has in its file.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/document.hpp"
#include "base/json.hpp"
#include "project/folder.hpp"
#include "project/requirements.hpp"

namespace startrail::project {

// A value inside a document: what it is, and where it stands.
class TableValue {
 public:
  explicit TableValue(const TableFile& file) : m_file(&file), m_value(&file.document.root) {}

  // A missing member gives a null value whose origin is the nearest table's.
  [[nodiscard]] TableValue at(std::string_view key) const;
  [[nodiscard]] TableValue at(std::initializer_list<std::string_view> keys) const;
  [[nodiscard]] TableValue at(std::size_t index) const;

  [[nodiscard]] const Json& json() const { return *m_value; }
  [[nodiscard]] Origin origin() const { return {.file = m_file->file, .line = m_line}; }
  [[nodiscard]] bool present() const { return !m_value->is_null(); }
  [[nodiscard]] bool is_table() const { return m_value->is_object(); }
  [[nodiscard]] bool is_list() const { return m_value->is_array(); }
  [[nodiscard]] bool is_text() const { return m_value->is_string(); }
  [[nodiscard]] std::string text() const { return is_text() ? m_value->get<std::string>() : std::string(); }
  [[nodiscard]] std::size_t size() const { return m_value->size(); }
  // Keys of a table, in the file's order of lines.
  [[nodiscard]] std::vector<std::string> keys() const;
  // The strings of a list with their places; a lone string counts as a list of one.
  [[nodiscard]] std::vector<Fact<std::string>> texts() const;

 private:
  const TableFile* m_file;
  const Json* m_value;
  std::string m_pointer;
  int m_line = 0;
};

}  // namespace startrail::project
