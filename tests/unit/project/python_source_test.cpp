// The tokenizer, and the imports found with it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "project/python_imports.hpp"
#include "project/python_tokens.hpp"

namespace startrail::project {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> found(std::string_view source) {
  std::vector<std::string> result;
  for (const Import& import : imports(source))
    result.push_back(std::to_string(import.line) + ":" + import.module + (import.need == Need::optional ? "?" : ""));
  return result;
}

TEST(PythonImports, every_form_of_import_is_found_with_its_line) {
  EXPECT_THAT(found("import os, numpy as np\n"
                    "from a.b import (c,\n"
                    "    d as e,  # note\n"
                    "    f)\n"
                    "from x import *\n"
                    "import u.v.w\n"
                    "x = 1; import y; from z import q\n"
                    "if x: import inside\n"
                    "class A:\n"
                    "    def f(self):\n"
                    "        import deep\n"
                    "from t \\\n"
                    "  import s\n"),
              ElementsAre("1:os", "1:numpy", "2:a.b.c", "3:a.b.d", "4:a.b.f", "5:x", "6:u.v.w", "7:y", "7:z.q",
                          "8:inside", "11:deep", "13:t.s"));
}

TEST(PythonImports, text_that_only_looks_like_an_import_is_none) {
  EXPECT_THAT(found("'''\nimport a\n'''\n"
                    "x = \"\"\"\nimport b\n\"\"\"\n"
                    "# import c\n"
                    "y = 'it\\'s', 'import d'\n"
                    "f(\nimport_ = 1,\n)\n"
                    "z = r'\\.'; w = Rb'''\nimport e'''\n"
                    "from . import local\nfrom .mod import g\nfrom ..up import h\n"
                    "obj.import_module('i')\n"),
              IsEmpty());
}

TEST(PythonImports, f_strings_end_where_python_ends_them) {
  EXPECT_THAT(found("x = f'{a[\"k\"]}'\nimport a\n"), ElementsAre("2:a"));
  EXPECT_THAT(found("x = f\"{d[\"k\"]} {f'{y}'}\"\nimport b\n"), ElementsAre("2:b"));  // PEP 701
  EXPECT_THAT(found("x = f'{{ not a field'\nimport c\n"), ElementsAre("2:c"));
  EXPECT_THAT(found("x = f'{v:{w}.2f} {z!r:>{n}}'\nimport d\n"), ElementsAre("2:d"));
  EXPECT_THAT(found("x = f'''{\n  call(\"}\")\n}'''\nimport e\n"), ElementsAre("4:e"));
  EXPECT_THAT(found("x = f'{broken'\nimport g\n"), ElementsAre("2:g"));
}

TEST(PythonImports, type_checking_blocks_do_not_count) {
  EXPECT_THAT(found("if TYPE_CHECKING:\n    import a\n    if x:\n        import b\nelse:\n    import c\nimport d\n"),
              ElementsAre("6:c", "7:d"));
  EXPECT_THAT(found("if typing.TYPE_CHECKING: import a\nimport b\n"), ElementsAre("2:b"));
}

TEST(PythonImports, a_handled_failure_makes_an_import_optional) {
  EXPECT_THAT(found("try:\n    import a\nexcept ImportError:\n    import b\nimport c\n"),
              ElementsAre("2:a?", "4:b?", "5:c"));
  EXPECT_THAT(found("try: import a\nexcept: a = None\n"), ElementsAre("1:a?"));
  EXPECT_THAT(found("try:\n    import a\nexcept (OSError, ModuleNotFoundError) as e:\n    pass\nelse:\n    import b\n"),
              ElementsAre("2:a?", "6:b"));
  EXPECT_THAT(found("try:\n    import a\nexcept ValueError:\n    pass\n"), ElementsAre("2:a"));
  EXPECT_THAT(found("try:\n    import a\nfinally:\n    pass\n"), ElementsAre("2:a"));
  EXPECT_THAT(found("with contextlib.suppress(ImportError):\n    import a\n"), ElementsAre("2:a?"));
}

TEST(PythonImports, a_failure_that_is_raised_again_leaves_the_import_required) {
  EXPECT_THAT(found("try:\n    import a\nexcept ImportError:\n    raise ImportError('pip install a')\n"),
              ElementsAre("2:a"));
}

TEST(PythonImports, python_2_code_is_read_too) {
  EXPECT_THAT(found("print 'hello'\nexec `x`\nif a <> b: import c\nx = ur'text'\nraise E, 'm'\nimport d\n\timport e\n"),
              ElementsAre("3:c", "6:d", "7:e"));
}

TEST(PythonImports, damaged_source_gives_what_can_be_seen) {
  EXPECT_THAT(found("import a\nx = 'open\nimport b\n"), ElementsAre("1:a", "3:b"));
  EXPECT_THAT(found("import a\nx = '''open\nimport b\n"), ElementsAre("1:a"));
  EXPECT_THAT(found("import"), IsEmpty());
  EXPECT_THAT(found("from"), IsEmpty());
  EXPECT_THAT(found("from x import"), IsEmpty());
  EXPECT_THAT(found(std::string(3000, '{') + "f'" + std::string(3000, '{')), IsEmpty());
  std::string nested;
  for (int i = 0; i < 2000; ++i) nested += "f'{";
  EXPECT_THAT(found(nested), IsEmpty());
}

TEST(PythonImports, names_beyond_ascii_are_names) {
  EXPECT_THAT(found("import módulo\nimport b\n"), ElementsAre("1:módulo", "2:b"));
}

TEST(PythonTokens, literals_have_values) {
  EXPECT_EQ(literal_value("'a\\n\\'b'"), "a\n'b");
  EXPECT_EQ(literal_value("r\"\\d\""), "\\d");
  EXPECT_EQ(literal_value("'''x'''"), "x");
  EXPECT_EQ(literal_value("''"), "");
  EXPECT_EQ(literal_value("f'x'"), std::nullopt);
  EXPECT_EQ(literal_value("'open"), std::nullopt);
}

TEST(MainGuard, it_is_found_in_either_order_and_not_in_text) {
  EXPECT_TRUE(has_main_guard("if __name__ == '__main__':\n    main()\n"));
  EXPECT_TRUE(has_main_guard("if '__main__' == __name__: main()\n"));
  EXPECT_FALSE(has_main_guard("# if __name__ == '__main__':\nx = '''\nif __name__ == \"__main__\":\n'''\n"));
}

}  // namespace
}  // namespace startrail::project
