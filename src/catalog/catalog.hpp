// Combinations that work, and the choice of one for a project on a machine.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/json_fwd.hpp"
#include "machine/machine.hpp"
#include "project/requirements.hpp"

namespace startrail::catalog {

// Where facts were read: "wheels" is the short name that rows use, `text` says what it stands for.
struct Source {
  std::string name, text;
  std::vector<std::string> facts;  // "cuda", "pythons": those that it is the first authority on
};

enum class Provider {
  startrail,  // compiled in
  user,       // a file in the configuration folder
};

// One row: a framework series with what it works with. Every fact has a source in catalog/*.toml.
struct Combination {
  std::string framework;             // distribution name: "torch", "tensorflow", "jax"
  std::string series;                // "2.6"
  std::string newest;                // its newest release that the catalog knows: "2.6.0"
  std::string cuda, cudnn, nccl;     // "12.4", "9.1.0.70", "2.21.5"; "" when bundled or none
  std::vector<std::string> pythons;  // minors with wheels, "3.9" … "3.13"
  std::string driver_floor;          // "525.60.13", Linux x86_64
  std::vector<std::string>
      architectures;  // compute capabilities with kernels, "5.0" …; PTX of the last runs on newer ones when `ptx`
  bool ptx = false;
  std::string ptx_until;        // the newest capability that its libraries know: cuDNN before 9 has kernels only
  std::string glibc_floor;      // "2.28"
  std::string gpu_extra;        // "and-cuda": the extra that brings the GPU libraries
  std::string gpu_extra_since;  // first release that has it, "" when all of the series do
  std::string tag;              // "cu126" for a build asked for by local version ("2.13.0+cu126"), else ""
  std::string index;            // "" for the default index, else the URL that has these wheels
  std::string cpu_index;        // where the CPU build is, "" when the default wheel is the CPU build
  std::string status;           // "declared", or "verified" by a stored verification (catalog/verified.toml)
  std::vector<std::string> verified_on;  // "cpu", names of GPUs: where that was
  std::string source;                    // short names: "wheels; drivers"
  std::string torchvision, torchaudio;   // the series released with this torch, "" for other frameworks
  std::string numpy;                     // "<2" where it is built for numpy 1 and its metadata doesn't say so
  std::vector<std::string> companions;   // what else is known to go with it: "lightning>=2.1"
  // GPU libraries that the wheel loads from the system and that come as wheels beside it, and the variables by which
  // it finds them; "{site}" stands for the environment's site-packages.
  std::vector<std::string> gpu_wheels, environment;
  std::string driver_rule;  // what the floor means, in words
  Provider provider = Provider::startrail;
  std::string file;  // "catalog/pytorch.toml", or the user's file
  std::shared_ptr<const std::vector<Source>> sources;
};

// Newest first within a framework; the build of the default index before the builds with a tag.
[[nodiscard]] const std::vector<Combination>& combinations();

// Rows of `folder`/*.toml are read beside the compiled-in ones from now on, and win over them for the same series and
// tag. To be called before the catalog is first looked into; the folder needn't exist.
void use_user_rows(const std::filesystem::path& folder);
// What is wrong with the user's files, naming file and line. The rows of a bad file don't count.
[[nodiscard]] const std::optional<Error>& fault_of_user_rows();

struct PythonChoice {
  std::string minor;   // "3.11"
  std::string suite;   // "bookworm"
  std::string remark;  // "the project asks for 3.8, which Debian has not: nearest with wheels"
};

struct Bound {
  std::string requirement;  // a PEP 508 line for uv as a constraint: "torch<2.11"
  std::string reason;       // "driver 535.183 runs CUDA up to 12; torch 2.11 and newer need driver 580"
};

// What resolving may use. No framework named in the project is fine: the bounds then hold for transitive ones.
struct Choice {
  std::optional<Combination> combination;  // the newest that fits the pins; nullopt when no framework is declared
  project::Build build = project::Build::gpu;
  std::vector<PythonChoice> pythons;  // to be tried in this order
  std::vector<Bound> bounds;
  std::vector<std::string> extra_requirements;  // "tensorflow[and-cuda]" beside "tensorflow"
  std::vector<std::string> index_urls;          // further explicit indexes (CPU builds)
  std::vector<std::string> left_out;            // packages of the project in whose place --framework puts another
  std::vector<std::string> steps;               // the reasoning, one line each, for --explain
};

struct ChooseOptions {
  std::optional<project::Build> build;  // --cpu; else trail.toml, else gpu
  std::optional<std::string> python;    // --python 3.11
  // --framework torch==2.10.0: in place of the project's own pins of it, and of the frameworks that it names instead.
  std::optional<std::string> framework;
  std::string framework_origin = "--framework";  // where that was read
};

// Offline and under 10 ms. A refusal has code `refused`, names both sides with where each was read
// (context) and the ways out (hints): driver too old, no kernels for the GPU, no Python for the pin.
// `told` gets the steps, those that led to a refusal too.
[[nodiscard]] Result<Choice> choose(const project::Requirements& needs, const machine::Machine& machine,
                                    const ChooseOptions& options, std::vector<std::string>* told = nullptr);

// The row for a locked framework version ("torch", "2.6.0", or "2.6.0+cu118"); nullptr when the catalog has none.
[[nodiscard]] const Combination* find(std::string_view framework, std::string_view version);

// Does this row run on this machine's driver and visible GPUs? The refusal is the same as `choose` gives.
// A machine without driver passes (GPU builds run on CPUs), and so does a "+cpu" version.
// `read_from` says where the version was read ("pylock.trail.toml").
[[nodiscard]] Result<void> check(const Combination& row, std::string_view version, const machine::Machine& machine,
                                 std::string_view read_from);

// "pytorch:2.6", "torch:2.6.0", "torch==2.13.0+cu126", "jax": a combination by the name that people write.
struct Named {
  const Combination* row = nullptr;
  std::string requirement;  // "torch==2.6.*", "torch==2.6.0"
};
// Errors: not_found, with the nearest names.
[[nodiscard]] Result<Named> named(std::string_view text);
// `text` begins with the name of a framework of the catalog and ':', or is such a name.
[[nodiscard]] bool is_name(std::string_view text);

// Where this fact of the row was read ("cuda", "driver_floor"); "" when no source says so.
[[nodiscard]] std::string source_of(const Combination& row, std::string_view fact);
// Debian suites whose Python has wheels and whose glibc is new enough, "bookworm" first.
[[nodiscard]] std::vector<std::string> suites_of(const Combination& row);

[[nodiscard]] Json to_json(const Combination& row);

}  // namespace startrail::catalog
