// Wheels made in tests, honest ones and ones that lie at any place of their format.
#pragma once

#include <isa-l.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "image/inflater.hpp"
#include "image/record_file.hpp"

namespace startrail::image::testing {

// One entry of an archive. What the two headers say is computed from the content unless a lie is set.
struct Member {
  std::string name;
  std::string content;
  bool deflated = false;
  std::uint32_t mode = 0100644;
  // ---- lies ----
  std::optional<std::string> local_name;
  std::optional<std::uint32_t> central_size, local_size, crc;
  std::optional<std::uint32_t> offset;  // of its local header, as the directory says
  std::uint16_t flags = 0;
  std::optional<std::uint16_t> method;
  std::string extra;        // in the directory
  std::string local_extra;  // in the local header
  std::uint32_t dos_attributes = 0;
  std::string descriptor;           // bytes behind the data
  std::optional<std::string> data;  // instead of the compressed content
  bool hidden = false;              // the directory does not know of it
};

struct ZipLies {
  std::string before, behind, between;  // bytes before the first entry, behind the end, between directory and end
  std::string comment;
  bool zip64_end = false;
  std::optional<std::uint64_t> zip64_entries, entries;
};

inline void put(std::string& out, std::uint64_t value, int bytes) {
  for (int index = 0; index < bytes; ++index) out += static_cast<char>((value >> (8 * index)) & 0xffU);
}

inline std::string deflate(const std::string& content) {
  std::string out(content.size() * 2 + 1024, '\0');
  isal_zstream stream;
  isal_deflate_stateless_init(&stream);
  std::string level(ISAL_DEF_LVL1_DEFAULT, '\0');
  stream.level = 1;
  stream.level_buf = reinterpret_cast<std::uint8_t*>(level.data());
  stream.level_buf_size = static_cast<std::uint32_t>(level.size());
  stream.next_in = reinterpret_cast<std::uint8_t*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<std::uint32_t>(content.size());
  stream.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  stream.avail_out = static_cast<std::uint32_t>(out.size());
  stream.end_of_stream = 1;
  isal_deflate_stateless(&stream);
  out.resize(stream.total_out);
  return out;
}

inline std::uint32_t crc_of(const std::string& content) {
  return crc32(0, std::as_bytes(std::span(content)));
}

inline std::string make_zip(const std::vector<Member>& members, const ZipLies& lies = {}) {
  std::string out = lies.before, directory;
  std::size_t listed = 0;
  for (const Member& member : members) {
    const std::string data = member.data.value_or(member.deflated ? deflate(member.content) : member.content);
    const std::uint16_t method = member.method.value_or(member.deflated ? 8 : 0);
    const std::uint32_t crc = member.crc.value_or(crc_of(member.content));
    const std::string local_name = member.local_name.value_or(member.name);
    const std::size_t offset = out.size();
    put(out, 0x04034b50, 4);
    put(out, 20, 2);
    put(out, member.flags, 2);
    put(out, method, 2);
    put(out, 0, 4);
    const bool deferred = (member.flags & 8U) != 0;
    put(out, deferred ? 0 : crc, 4);
    put(out, deferred ? 0 : data.size(), 4);
    put(out, deferred ? 0 : member.local_size.value_or(member.content.size()), 4);
    put(out, local_name.size(), 2);
    put(out, member.local_extra.size(), 2);
    out += local_name + member.local_extra + data + member.descriptor;
    if (member.hidden) continue;
    ++listed;

    put(directory, 0x02014b50, 4);
    put(directory, 0x0314, 2);
    put(directory, 20, 2);
    put(directory, member.flags, 2);
    put(directory, method, 2);
    put(directory, 0, 4);
    put(directory, crc, 4);
    put(directory, data.size(), 4);
    put(directory, member.central_size.value_or(member.content.size()), 4);
    put(directory, member.name.size(), 2);
    put(directory, member.extra.size(), 2);
    put(directory, 0, 2);
    put(directory, 0, 4);
    put(directory, static_cast<std::uint64_t>(member.mode) << 16U | member.dos_attributes, 4);
    put(directory, member.offset.value_or(offset), 4);
    directory += member.name + member.extra;
  }
  const std::size_t start = out.size();
  out += directory + lies.between;
  if (lies.zip64_end) {
    const std::size_t record = out.size();
    put(out, 0x06064b50, 4);
    put(out, 44, 8);
    put(out, 45, 2);
    put(out, 45, 2);
    put(out, 0, 8);
    put(out, lies.zip64_entries.value_or(listed), 8);
    put(out, lies.zip64_entries.value_or(listed), 8);
    put(out, directory.size(), 8);
    put(out, start, 8);
    put(out, 0x07064b50, 4);
    put(out, 0, 4);
    put(out, record, 8);
    put(out, 1, 4);
  }
  put(out, 0x06054b50, 4);
  put(out, 0, 4);
  put(out, lies.entries.value_or(listed), 2);
  put(out, lies.entries.value_or(listed), 2);
  put(out, directory.size(), 4);
  put(out, start, 4);
  put(out, lies.comment.size(), 2);
  return out + lies.comment + lies.behind;
}

inline std::string record_hash(const std::string& content) {
  base::Sha256 hash;
  hash.update(content);
  return base::to_base64url(hash.finish());
}

// A wheel's members with METADATA, WHEEL and a right RECORD added.
struct WheelBuilder {
  std::string name = "demo", version = "1.0";
  std::vector<Member> members;
  std::function<void(std::vector<Member>&)> spoil;  // after RECORD was made
  std::function<void(std::string&)> spoil_record;
  ZipLies lies;

  WheelBuilder& add(std::string path, std::string content, std::uint32_t mode = 0100644) {
    members.push_back({.name = std::move(path), .content = std::move(content), .deflated = true, .mode = mode});
    return *this;
  }
  [[nodiscard]] std::string dist_info() const { return name + "-" + version + ".dist-info"; }
  [[nodiscard]] std::string filename() const { return name + "-" + version + "-py3-none-any.whl"; }

  [[nodiscard]] std::string bytes() const {
    std::vector<Member> all = members;
    const auto add_default = [&](const std::string& path, const std::string& content) {
      for (const Member& member : all)
        if (member.name == path) return;
      all.push_back({.name = path, .content = content, .deflated = true});
    };
    add_default(dist_info() + "/METADATA",
                "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n\ntext\n");
    add_default(dist_info() + "/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n");
    std::vector<RecordLine> lines;
    for (const Member& member : all)
      if (!member.name.ends_with('/'))
        lines.push_back({member.name, "sha256", record_hash(member.content), member.content.size()});
    lines.push_back({dist_info() + "/RECORD", "", "", {}});
    std::string record = to_text(lines);
    if (spoil_record) spoil_record(record);
    all.push_back({.name = dist_info() + "/RECORD", .content = record, .deflated = true});
    if (spoil) spoil(all);
    return make_zip(all, lies);
  }
};

inline Member& member_named(std::vector<Member>& members, const std::string& name) {
  for (Member& member : members)
    if (member.name == name) return member;
  return members.front();
}

}  // namespace startrail::image::testing
