// libcurl, loaded when the first request is made. Linked in, its thirty libraries cost every start of the program
// 7 ms (measured on Debian 12), and most commands never speak to the network.
#include <curl/curl.h>
#include <dlfcn.h>

#include <cstdarg>

// The header wraps these in macros of the same name.
#undef curl_easy_setopt
#undef curl_easy_getinfo
#undef curl_multi_setopt

namespace {

// The name that belongs to the header's ABI since curl 7.16; nullptr when it isn't installed.
void* library() {
  static void* const s_handle = ::dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  return s_handle;
}

template <class Function>
Function* symbol(const char* name) {
  return library() == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library(), name));
}

}  // namespace

// Without the library every call fails with the code that its contract has for it.
// Options and infos are one word each (long, pointer or curl_off_t), so one word is passed on.
extern "C" {

CURLcode curl_global_init(long flags) {
  static const auto s_real = symbol<decltype(curl_global_init)>("curl_global_init");
  return s_real == nullptr ? CURLE_FAILED_INIT : s_real(flags);
}

CURL* curl_easy_init(void) {
  static const auto s_real = symbol<decltype(curl_easy_init)>("curl_easy_init");
  return s_real == nullptr ? nullptr : s_real();
}

void curl_easy_cleanup(CURL* handle) {
  static const auto s_real = symbol<decltype(curl_easy_cleanup)>("curl_easy_cleanup");
  if (s_real != nullptr) s_real(handle);
}

void curl_easy_reset(CURL* handle) {
  static const auto s_real = symbol<decltype(curl_easy_reset)>("curl_easy_reset");
  if (s_real != nullptr) s_real(handle);
}

CURLcode curl_easy_perform(CURL* handle) {
  static const auto s_real = symbol<decltype(curl_easy_perform)>("curl_easy_perform");
  return s_real == nullptr ? CURLE_FAILED_INIT : s_real(handle);
}

CURLcode curl_easy_setopt(CURL* handle, CURLoption option, ...) {
  static const auto s_real = symbol<decltype(curl_easy_setopt)>("curl_easy_setopt");
  va_list arguments;
  va_start(arguments, option);
  void* const value = va_arg(arguments, void*);
  va_end(arguments);
  return s_real == nullptr ? CURLE_FAILED_INIT : s_real(handle, option, value);
}

CURLcode curl_easy_getinfo(CURL* handle, CURLINFO info, ...) {
  static const auto s_real = symbol<decltype(curl_easy_getinfo)>("curl_easy_getinfo");
  va_list arguments;
  va_start(arguments, info);
  void* const place = va_arg(arguments, void*);
  va_end(arguments);
  return s_real == nullptr ? CURLE_FAILED_INIT : s_real(handle, info, place);
}

const char* curl_easy_strerror(CURLcode code) {
  static const auto s_real = symbol<decltype(curl_easy_strerror)>("curl_easy_strerror");
  return s_real == nullptr ? "libcurl is not installed" : s_real(code);
}

curl_slist* curl_slist_append(curl_slist* list, const char* text) {
  static const auto s_real = symbol<decltype(curl_slist_append)>("curl_slist_append");
  return s_real == nullptr ? nullptr : s_real(list, text);
}

void curl_slist_free_all(curl_slist* list) {
  static const auto s_real = symbol<decltype(curl_slist_free_all)>("curl_slist_free_all");
  if (s_real != nullptr) s_real(list);
}

CURLM* curl_multi_init(void) {
  static const auto s_real = symbol<decltype(curl_multi_init)>("curl_multi_init");
  return s_real == nullptr ? nullptr : s_real();
}

CURLMcode curl_multi_cleanup(CURLM* multi) {
  static const auto s_real = symbol<decltype(curl_multi_cleanup)>("curl_multi_cleanup");
  return s_real == nullptr ? CURLM_BAD_HANDLE : s_real(multi);
}

CURLMcode curl_multi_add_handle(CURLM* multi, CURL* handle) {
  static const auto s_real = symbol<decltype(curl_multi_add_handle)>("curl_multi_add_handle");
  return s_real == nullptr ? CURLM_BAD_HANDLE : s_real(multi, handle);
}

CURLMcode curl_multi_remove_handle(CURLM* multi, CURL* handle) {
  static const auto s_real = symbol<decltype(curl_multi_remove_handle)>("curl_multi_remove_handle");
  return s_real == nullptr ? CURLM_BAD_HANDLE : s_real(multi, handle);
}

CURLMcode curl_multi_perform(CURLM* multi, int* running) {
  static const auto s_real = symbol<decltype(curl_multi_perform)>("curl_multi_perform");
  return s_real == nullptr ? CURLM_BAD_HANDLE : s_real(multi, running);
}

CURLMcode curl_multi_poll(CURLM* multi, curl_waitfd* more, unsigned int count, int timeout, int* ready) {
  static const auto s_real = symbol<decltype(curl_multi_poll)>("curl_multi_poll");
  return s_real == nullptr ? CURLM_BAD_HANDLE : s_real(multi, more, count, timeout, ready);
}

CURLMcode curl_multi_wakeup(CURLM* multi) {
  static const auto s_real = symbol<decltype(curl_multi_wakeup)>("curl_multi_wakeup");
  return s_real == nullptr ? CURLM_BAD_HANDLE : s_real(multi);
}

CURLMsg* curl_multi_info_read(CURLM* multi, int* left) {
  static const auto s_real = symbol<decltype(curl_multi_info_read)>("curl_multi_info_read");
  return s_real == nullptr ? nullptr : s_real(multi, left);
}

CURLMcode curl_multi_setopt(CURLM* multi, CURLMoption option, ...) {
  static const auto s_real = symbol<decltype(curl_multi_setopt)>("curl_multi_setopt");
  va_list arguments;
  va_start(arguments, option);
  void* const value = va_arg(arguments, void*);
  va_end(arguments);
  return s_real == nullptr ? CURLM_BAD_HANDLE : s_real(multi, option, value);
}

}  // extern "C"
