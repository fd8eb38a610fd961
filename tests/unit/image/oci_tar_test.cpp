// Tar archives, written and read; compression in pieces.
#include <cstring>

#include "image/oci/tar_reader.hpp"
#include "oci_fixture.hpp"

namespace startrail::image::testing {
namespace {

using ::testing::HasSubstr;

// Gives what it has in small pieces, so that headers and content are cut anywhere.
class TextInput final : public ByteInput {
 public:
  explicit TextInput(std::string text) : m_text(std::move(text)) {}
  Result<std::span<const std::byte>> next(std::size_t most) override {
    const std::size_t count = std::min({most, m_text.size() - m_at, std::size_t{301}});
    const auto piece = std::as_bytes(std::span(m_text)).subspan(m_at, count);
    m_at += count;
    return piece;
  }

 private:
  std::string m_text;
  std::size_t m_at = 0;
};

struct Found {
  TarEntry entry;
  std::string content;
};

Result<std::vector<Found>> read_all(const std::string& bytes) {
  TextInput input(bytes);
  TarReader tar(input);
  std::vector<Found> all;
  while (auto entry = TRY(tar.next())) {
    Found found{.entry = *entry, .content = {}};
    for (;;) {
      const auto piece = TRY(tar.content());
      if (piece.empty()) break;
      found.content.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    }
    all.push_back(std::move(found));
  }
  return all;
}

std::string refusal(const std::string& bytes) {
  const auto read = read_all(bytes);
  return read ? "" : read.error().message;
}

TEST(Tar, what_is_written_is_read_again) {
  const std::string large(100'000, 'x');
  TarBuilder tar;
  tar.folder("a").file("a/one", "1\n", 0755).file("a/large", large).symlink("a/link", "../b").hard_link("h", "a/one");
  const auto read = read_all(tar.bytes());
  ASSERT_TRUE(read) << to_text(read.error());
  ASSERT_EQ(read->size(), 5U);
  EXPECT_EQ((*read)[0].entry.kind, TarEntry::Kind::folder);
  EXPECT_EQ((*read)[0].entry.path, "a/");
  EXPECT_EQ((*read)[1].content, "1\n");
  EXPECT_EQ((*read)[1].entry.mode, 0755U);
  EXPECT_EQ((*read)[1].entry.modified, k_constant_time);
  EXPECT_EQ((*read)[2].content, large);
  EXPECT_EQ((*read)[3].entry.target, "../b");
  EXPECT_EQ((*read)[4].entry.kind, TarEntry::Kind::hard_link);
}

TEST(Tar, names_and_targets_of_any_length_survive) {
  const std::string path = std::string(90, 'p') + "/" + std::string(120, 'q'), target(300, 't');
  TarBuilder tar;
  tar.file(path, "content").symlink(path + "-link", target);
  const auto read = read_all(tar.bytes());
  ASSERT_TRUE(read) << to_text(read.error());
  EXPECT_EQ((*read)[0].entry.path, path);
  EXPECT_EQ((*read)[0].content, "content");
  EXPECT_EQ((*read)[1].entry.target, target);
}

TEST(Tar, names_that_gnu_tar_writes_beside_are_read) {
  const std::string name(150, 'n');
  std::string header = tar_header({.path = "././@LongLink", .size = name.size() + 1, .mode = 0});
  header[156] = 'L';
  TarBuilder tar;
  tar.raw(TarBuilder::with_checksum(header)).raw(name + std::string(512 - name.size(), '\0')).file("cut", "x");
  const auto read = read_all(tar.bytes());
  ASSERT_TRUE(read) << to_text(read.error());
  EXPECT_EQ(read->front().entry.path, name);
}

TEST(Tar, a_header_that_was_changed_is_refused) {
  std::string bytes = TarBuilder().file("a", "1").bytes();
  bytes[3] = 'z';
  EXPECT_THAT(refusal(bytes), HasSubstr("checksum"));
}

TEST(Tar, an_archive_that_ends_within_a_file_is_refused) {
  const std::string bytes = TarBuilder().file("a", std::string(2000, 'x')).bytes();
  EXPECT_THAT(refusal(bytes.substr(0, 1500)), HasSubstr("ends early"));
}

TEST(Tar, a_sparse_file_is_refused_by_name) {
  const std::string records = "22 GNU.sparse.major=1\n";
  std::string header = tar_header({.path = "pax", .size = records.size(), .mode = 0644});
  header[156] = 'x';
  TarBuilder tar;
  tar.raw(TarBuilder::with_checksum(header)).raw(records + std::string(512 - records.size(), '\0')).file("holes", "");
  EXPECT_THAT(refusal(tar.bytes()), HasSubstr("holes"));
}

TEST(Tar, a_pax_header_with_a_wrong_length_is_refused) {
  for (const std::string records : {"99 path=x\n", "0 path=x\n", "9 path=xy", "path=x\n", "12 path:xyz.\n"}) {
    std::string header = tar_header({.path = "pax", .size = records.size(), .mode = 0644});
    header[156] = 'x';
    TarBuilder tar;
    tar.raw(TarBuilder::with_checksum(header)).raw(records + std::string(512 - records.size(), '\0')).file("a", "");
    EXPECT_THAT(refusal(tar.bytes()), HasSubstr("pax")) << records;
  }
}

TEST(Tar, the_same_entry_is_the_same_bytes) {
  EXPECT_EQ(TarBuilder().file("a", "1").bytes(), TarBuilder().file("a", "1").bytes());
}

std::string expand(const std::string& bytes, std::size_t input_piece, std::size_t output_piece) {
  Expander expander;
  std::string all;
  std::vector<std::byte> output(output_piece);
  const auto feed = [&](std::span<const std::byte> piece) {
    for (;;) {
      const auto step = expander.step(piece, output);
      if (!step) return false;
      piece = piece.subspan(step->consumed);
      all.append(reinterpret_cast<const char*>(output.data()), step->produced);
      if (piece.empty() && step->produced == 0) return true;
    }
  };
  for (std::size_t at = 0; at < bytes.size(); at += input_piece)
    if (!feed(std::as_bytes(std::span(bytes)).subspan(at, std::min(input_piece, bytes.size() - at))))
      return "<damaged>";
  if (!feed({}) || !expander.finish()) return "<damaged>";
  return all;
}

std::string sample() {
  std::string text;
  for (int i = 0; i < 60'000; ++i) text += fmt::format("{} {}\n", i, i * 7919 % 1000);
  return text;
}

TEST(Compression, pieces_packed_alone_expand_as_one) {
  const std::string text = sample();
  for (const Compression compression : {Compression::zstd, Compression::gzip, Compression::none}) {
    const std::string bytes = packed(text.substr(0, 300'000), compression) + packed(text.substr(300'000), compression);
    for (const auto& [in, out] : {std::pair{1U << 18U, 1U << 20U}, {1000U, 777U}, {3U, 65536U}})
      EXPECT_TRUE(expand(bytes, in, out) == text) << layer_media_type(compression) << in << ' ' << out;
  }
}

TEST(Compression, what_ends_early_is_damaged) {
  for (const Compression compression : {Compression::zstd, Compression::gzip}) {
    const std::string bytes = packed(sample(), compression);
    EXPECT_EQ(expand(bytes.substr(0, bytes.size() - 5), 4096, 65536), "<damaged>");
    EXPECT_EQ(expand(bytes + bytes.substr(0, bytes.size() / 2), 4096, 65536), "<damaged>");
  }
}

TEST(Compression, a_gzip_stream_with_a_flipped_byte_is_damaged) {
  std::string bytes = packed(sample(), Compression::gzip);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  EXPECT_EQ(expand(bytes, 4096, 65536), "<damaged>");
}

}  // namespace
}  // namespace startrail::image::testing
