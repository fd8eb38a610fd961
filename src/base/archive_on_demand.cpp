// libarchive, loaded when the first archive is touched. Linked in, it and its eleven libraries (an XML parser and the
// tables of ICU among them) are more than half of what starting this program costs, and most commands need none of it.
#include <archive.h>
#include <archive_entry.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>

namespace {

// As the loader would have done at the start: there is nothing to go on with.
[[noreturn]] void end_without_library() {
  std::fputs("trail: libarchive.so.13 is not installed (Debian's package is libarchive13)\n", stderr);
  ::_exit(127);
}

void* symbol(const char* name) {
  static void* const s_library = ::dlopen("libarchive.so.13", RTLD_NOW | RTLD_LOCAL);
  void* const found = s_library == nullptr ? nullptr : ::dlsym(s_library, name);
  if (found == nullptr) end_without_library();
  return found;
}

}  // namespace

// One definition each, with the signature that the header declares; the library's own is looked up once.
#define ON_DEMAND(result, name, parameters, arguments)                             \
  result name parameters {                                                         \
    static const auto s_real = reinterpret_cast<decltype(&(name))>(symbol(#name)); \
    return s_real arguments;                                                       \
  }

extern "C" {

ON_DEMAND(int, archive_errno, (archive * self), (self))
ON_DEMAND(const char*, archive_error_string, (archive * self), (self))

ON_DEMAND(archive*, archive_read_new, (void), ())
ON_DEMAND(int, archive_read_support_filter_zstd, (archive * self), (self))
ON_DEMAND(int, archive_read_support_format_empty, (archive * self), (self))
ON_DEMAND(int, archive_read_support_format_raw, (archive * self), (self))
ON_DEMAND(int, archive_read_support_format_tar, (archive * self), (self))
ON_DEMAND(int, archive_read_support_format_zip, (archive * self), (self))
ON_DEMAND(int, archive_read_open_filename, (archive * self, const char* name, size_t block), (self, name, block))
ON_DEMAND(int, archive_read_open_memory, (archive * self, const void* data, size_t size), (self, data, size))
ON_DEMAND(int, archive_read_next_header, (archive * self, archive_entry** entry), (self, entry))
ON_DEMAND(la_ssize_t, archive_read_data, (archive * self, void* data, size_t size), (self, data, size))
ON_DEMAND(int, archive_read_extract2, (archive * self, archive_entry* entry, archive* into), (self, entry, into))
ON_DEMAND(int, archive_read_free, (archive * self), (self))

ON_DEMAND(archive*, archive_write_new, (void), ())
ON_DEMAND(archive*, archive_write_disk_new, (void), ())
ON_DEMAND(int, archive_write_disk_set_options, (archive * self, int flags), (self, flags))
ON_DEMAND(int, archive_write_add_filter_zstd, (archive * self), (self))
ON_DEMAND(int, archive_write_set_format_raw, (archive * self), (self))
ON_DEMAND(int, archive_write_set_format_zip, (archive * self), (self))
ON_DEMAND(int, archive_write_open_filename, (archive * self, const char* name), (self, name))
ON_DEMAND(int, archive_write_open_fd, (archive * self, int fd), (self, fd))
ON_DEMAND(int, archive_write_header, (archive * self, archive_entry* entry), (self, entry))
ON_DEMAND(la_ssize_t, archive_write_data, (archive * self, const void* data, size_t size), (self, data, size))
ON_DEMAND(int, archive_write_close, (archive * self), (self))
ON_DEMAND(int, archive_write_free, (archive * self), (self))

ON_DEMAND(archive_entry*, archive_entry_new, (void), ())
ON_DEMAND(void, archive_entry_free, (archive_entry * self), (self))
ON_DEMAND(const char*, archive_entry_pathname, (archive_entry * self), (self))
ON_DEMAND(const char*, archive_entry_hardlink, (archive_entry * self), (self))
ON_DEMAND(__LA_MODE_T, archive_entry_filetype, (archive_entry * self), (self))
ON_DEMAND(void, archive_entry_copy_pathname, (archive_entry * self, const char* path), (self, path))
ON_DEMAND(void, archive_entry_copy_hardlink, (archive_entry * self, const char* path), (self, path))
ON_DEMAND(void, archive_entry_set_pathname, (archive_entry * self, const char* path), (self, path))
ON_DEMAND(void, archive_entry_set_perm, (archive_entry * self, __LA_MODE_T mode), (self, mode))
ON_DEMAND(void, archive_entry_set_size, (archive_entry * self, la_int64_t size), (self, size))
ON_DEMAND(void, archive_entry_set_filetype, (archive_entry * self, unsigned int type), (self, type))

}  // extern "C"
