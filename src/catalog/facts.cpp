// A row's facts, one by one: as JSON, and where each was read.
#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"
#include "catalog/catalog.hpp"
#include "catalog/pythons.hpp"
#include "catalog/rows.hpp"

namespace startrail::catalog {
namespace {

// "wheels; drivers" → does it name `wheels`? A remark may follow a name: "wheels (CUDA bundled)".
bool names(std::string_view list, std::string_view source) {
  for (std::size_t start = 0; start < list.size();) {
    const std::size_t end = std::min(list.find("; ", start), list.size());
    const std::string_view item = list.substr(start, end - start);
    if (item.substr(0, item.find(" (")) == source) return true;
    start = end + 2;
  }
  return false;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

}  // namespace

std::string source_of(const Combination& row, std::string_view fact) {
  if (row.sources)
    for (const auto& source : *row.sources)
      if (names(row.source, source.name) && std::ranges::find(source.facts, fact) != source.facts.end())
        return source.text;
  return row.provider == Provider::user ? row.source : "";
}

std::vector<std::string> suites_of(const Combination& row) {
  std::vector<std::string> suites;
  for (const auto& offer : offers())
    if (has_python(row, offer.minor)) suites.emplace_back(offer.suite);
  return suites;
}

Json to_json(const Combination& row) {
  return {{"framework", row.framework},
          {"series", row.series},
          {"newest", row.newest},
          {"cuda", text_or_null(row.cuda)},
          {"cudnn", text_or_null(row.cudnn)},
          {"nccl", text_or_null(row.nccl)},
          {"pythons", row.pythons},
          {"suites", suites_of(row)},
          {"driver_floor", text_or_null(row.driver_floor)},
          {"driver_rule", text_or_null(row.driver_rule)},
          {"architectures", row.architectures},
          {"ptx", row.ptx},
          {"ptx_until", text_or_null(row.ptx_until)},
          {"glibc_floor", text_or_null(row.glibc_floor)},
          {"gpu_extra", text_or_null(row.gpu_extra)},
          {"gpu_extra_since", text_or_null(row.gpu_extra_since)},
          {"gpu_wheels", row.gpu_wheels},
          {"environment", row.environment},
          {"tag", text_or_null(row.tag)},
          {"index", text_or_null(row.index)},
          {"cpu_index", text_or_null(row.cpu_index)},
          {"torchvision", text_or_null(row.torchvision)},
          {"torchaudio", text_or_null(row.torchaudio)},
          {"numpy", text_or_null(row.numpy)},
          {"companions", row.companions},
          {"status", row.status},
          {"verified_on", row.verified_on},
          {"provider", row.provider == Provider::user ? "user" : "startrail"},
          {"file", text_or_null(row.file)},
          {"source", row.source}};
}

}  // namespace startrail::catalog
