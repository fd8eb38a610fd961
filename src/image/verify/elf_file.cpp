#include "image/verify/elf_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>

#include "base/files.hpp"

namespace startrail::image {
namespace {

constexpr std::size_t k_most_entries = 100'000;  // of any table: a damaged file may say anything

class Parser {
 public:
  explicit Parser(std::string_view bytes) : m_bytes(bytes) {}

  std::optional<ElfFile> parse() {
    const auto header = at<Elf64_Ehdr>(0);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64 ||
        header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_machine != EM_X86_64)
      return std::nullopt;
    for (std::size_t i = 0; i < header->e_phnum; ++i)
      if (const auto segment = at<Elf64_Phdr>(header->e_phoff + i * sizeof(Elf64_Phdr))) m_segments.push_back(*segment);
    for (const Elf64_Phdr& segment : m_segments)
      if (segment.p_type == PT_DYNAMIC) return read_dynamic(segment);
    return std::nullopt;
  }

 private:
  template <class T>
  std::optional<T> at(std::uint64_t offset) const {
    if (offset > m_bytes.size() || m_bytes.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, m_bytes.data() + offset, sizeof(T));
    return value;
  }

  // Where in the file what is at this address of the loaded image lies.
  std::uint64_t offset_of(std::uint64_t address) const {
    for (const Elf64_Phdr& segment : m_segments)
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
        return address - segment.p_vaddr + segment.p_offset;
    return m_bytes.size();
  }

  std::string text(std::uint64_t offset) const {
    const std::uint64_t place = m_strings + offset;
    if (place < m_strings || place >= m_bytes.size()) return {};
    const std::string_view rest = m_bytes.substr(place, 4096);
    return std::string(rest.substr(0, rest.find('\0')));
  }

  ElfFile read_dynamic(const Elf64_Phdr& segment) {
    std::vector<Elf64_Dyn> entries;
    for (std::uint64_t offset = segment.p_offset; entries.size() < k_most_entries; offset += sizeof(Elf64_Dyn)) {
      const auto entry = at<Elf64_Dyn>(offset);
      if (!entry || entry->d_tag == DT_NULL) break;
      entries.push_back(*entry);
    }
    for (const Elf64_Dyn& entry : entries)
      if (entry.d_tag == DT_STRTAB) m_strings = offset_of(entry.d_un.d_ptr);
    ElfFile file;
    for (const Elf64_Dyn& entry : entries) take(entry, file);
    return file;
  }

  void take(const Elf64_Dyn& entry, ElfFile& file) const {
    switch (entry.d_tag) {
      case DT_SONAME: file.soname = text(entry.d_un.d_val); break;
      case DT_NEEDED: file.needed.push_back(text(entry.d_un.d_val)); break;
      case DT_RPATH: file.rpath = text(entry.d_un.d_val); break;
      case DT_RUNPATH: file.runpath = text(entry.d_un.d_val); break;
      case DT_VERNEED: read_needed_versions(offset_of(entry.d_un.d_ptr), file); break;
      case DT_VERDEF: read_versions(offset_of(entry.d_un.d_ptr), file); break;
      default: break;
    }
  }

  void read_needed_versions(std::uint64_t offset, ElfFile& file) const {
    for (std::size_t count = 0; count < k_most_entries; ++count) {
      const auto need = at<Elf64_Verneed>(offset);
      if (!need) return;
      std::uint64_t inner = offset + need->vn_aux;
      for (std::size_t i = 0; i < need->vn_cnt; ++i) {
        const auto aux = at<Elf64_Vernaux>(inner);
        if (!aux) return;
        if ((aux->vna_flags & VER_FLG_WEAK) == 0)
          file.needed_versions.push_back({text(need->vn_file), text(aux->vna_name)});
        if (aux->vna_next == 0) break;
        inner += aux->vna_next;
      }
      if (need->vn_next == 0) return;
      offset += need->vn_next;
    }
  }

  void read_versions(std::uint64_t offset, ElfFile& file) const {
    for (std::size_t count = 0; count < k_most_entries; ++count) {
      const auto definition = at<Elf64_Verdef>(offset);
      if (!definition) return;
      if (const auto aux = at<Elf64_Verdaux>(offset + definition->vd_aux)) file.versions.insert(text(aux->vda_name));
      if (definition->vd_next == 0) return;
      offset += definition->vd_next;
    }
  }

  std::string_view m_bytes;
  std::vector<Elf64_Phdr> m_segments;
  std::uint64_t m_strings = 0;
};

}  // namespace

std::optional<ElfFile> parse_elf(std::string_view bytes) {
  return Parser(bytes).parse();
}

Result<std::optional<ElfFile>> read_elf(const fs::path& file) {
  const base::Fd fd = TRY(base::open_file(file, O_RDONLY | O_NOFOLLOW));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return fail(base::errno_error("cannot read " + file.string(), errno));
  if (!S_ISREG(status.st_mode) || status.st_size < static_cast<off_t>(sizeof(Elf64_Ehdr))) return std::nullopt;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (mapped == MAP_FAILED) return fail(base::errno_error("cannot read " + file.string(), errno));
  auto parsed = parse_elf({static_cast<const char*>(mapped), size});
  ::munmap(mapped, size);
  return parsed;
}

}  // namespace startrail::image
