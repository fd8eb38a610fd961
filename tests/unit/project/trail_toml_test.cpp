#include "project/trail_toml.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "project/project_folder.hpp"

namespace startrail::project {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class TrailToml : public ProjectFolder {};

TEST_F(TrailToml, every_field_is_read) {
  write("trail.toml",
        "[environment]\nimage = \"pytorch:2.6\"\npython = \"3.11\"\npackages = [\"timm\", \"torch>=2\"]\n"
        "system-packages = [\"ffmpeg\"]\nbuild-with-torch = [\"My_Ext\"]\nbuild-architectures = [\"9.0\", "
        "\"8.0\"]\ncpu = true\n"
        "[run]\ncommand = \"python train.py --name 'a b'\"\ngpus = 2\nnodes = 1\nmemory = \"16GiB\"\ncpus = 3.5\npids "
        "= 100\n"
        "shm-size = \"1GiB\"\nenv = { SEED = \"1\", N = 3 }\n"
        "[volumes]\ndatasets = [\"coco@s3://bucket/coco\"]\n[stop]\ngrace = \"2m\"\nsave = \"save.sh\"\n"
        "[idle]\nbelow = 5\nanything = 1\n[communication]\nbackend = \"nccl\"\n");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.declared_by, DeclaredBy::trail_toml);
  EXPECT_EQ(needs.settings.image->value, "pytorch:2.6");
  EXPECT_EQ(needs.python->value, "==3.11.*");
  EXPECT_EQ(needs.python->origin.line, 3);
  EXPECT_THAT(lines(needs.packages), ElementsAre("4: timm", "4: torch>=2"));
  EXPECT_EQ(needs.system_packages.at(0).value, "ffmpeg");
  EXPECT_THAT(needs.settings.build_with_torch, ElementsAre("my-ext"));
  EXPECT_THAT(needs.settings.build_architectures, ElementsAre("9.0", "8.0"));
  EXPECT_EQ(needs.settings.build, Build::cpu);
  EXPECT_THAT(needs.command->value, ElementsAre("python", "train.py", "--name", "a b"));
  EXPECT_EQ(needs.settings.gpus, 2);
  EXPECT_EQ(needs.settings.memory->count, 16ULL << 30U);
  EXPECT_EQ(needs.settings.cpus, 3.5);
  EXPECT_EQ(needs.settings.pids, 100);
  EXPECT_EQ(needs.settings.shm_size->count, 1ULL << 30U);
  EXPECT_THAT(needs.settings.environment, ElementsAre(Pair("N", "3"), Pair("SEED", "1")));
  EXPECT_THAT(needs.settings.datasets, ElementsAre("coco@s3://bucket/coco"));
  EXPECT_EQ(needs.settings.stop_grace_seconds, 120);
}

TEST_F(TrailToml, what_is_no_compute_capability_is_refused_with_an_example) {
  for (const char* wrong : {"sm_90", "90", "9", "9.0+PTX", ""}) {
    write("trail.toml", fmt::format("[environment]\nbuild-architectures = [\"{}\"]\n", wrong));
    const Error read = refusal();
    EXPECT_EQ(read.message, fmt::format("trail.toml:2: `{}` is not a GPU's compute capability", wrong));
    EXPECT_THAT(read.hints, ElementsAre(HasSubstr("build-architectures = [\"8.0\", \"9.0\"]")));
  }
}

TEST_F(TrailToml, its_packages_add_to_those_of_other_files) {
  write("trail.toml", "[environment]\npackages = [\"timm\"]\npython = \"3.12\"\n");
  write("requirements.txt", "torch\npython<3.10\n");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.declared_by, DeclaredBy::requirements_txt);
  EXPECT_THAT(lines(needs.packages), ElementsAre("1: torch", "2: timm"));
  EXPECT_EQ(needs.python->value, "==3.12.*");
}

TEST_F(TrailToml, a_change_of_run_keeps_the_digest_and_one_of_environment_does_not) {
  const auto digests = [&](std::string_view text) {
    write("trail.toml", text);
    std::string all;
    for (const SourceFile& source : needs().sources) all += source.sha256;
    return all;
  };
  const std::string first = digests("[environment]\npackages = [\"torch\"]\n[run]\ngpus = 1\n");
  EXPECT_EQ(first, digests("# more\n[environment]\npackages = [\"torch\"]\n[run]\ngpus = 2\n"));
  EXPECT_NE(first, digests("[environment]\npackages = [\"jax\"]\n[run]\ngpus = 1\n"));
}

TEST_F(TrailToml, unknown_names_get_the_likely_one) {
  write("trail.toml", "[environment]\nsystem_packages = [\"ffmpeg\"]\n");
  EXPECT_EQ(refusal().message, "trail.toml:2: trail.toml has no `environment.system_packages`");
  EXPECT_THAT(refusal().hints, ElementsAre("did you mean `system-packages`?"));
  write("trail.toml", "[enviroment]\npython = \"3.11\"\n");
  EXPECT_THAT(refusal().hints, ElementsAre("did you mean `environment`?"));
  write("trail.toml", "[run]\nzzzzzzzz = 1\n");
  EXPECT_THAT(refusal().hints, ElementsAre(HasSubstr("known here: command, gpus")));
}

TEST_F(TrailToml, values_of_the_wrong_kind_name_line_and_expectation) {
  const auto message = [&](std::string_view text) {
    write("trail.toml", text);
    return refusal().message;
  };
  EXPECT_EQ(message("[run]\ngpus = \"two\"\n"), "trail.toml:2: run.gpus must be a whole number");
  EXPECT_EQ(message("[run]\ngpus = -1\n"), "trail.toml:2: run.gpus must be 0 or more");
  EXPECT_EQ(message("[run]\n\nmemory = \"lots\"\n"), "trail.toml:3: run.memory must be a size such as \"16GiB\"");
  EXPECT_THAT(message("[environment]\npython = 3.10\n"), HasSubstr("environment.python must be a version in quotes"));
  EXPECT_THAT(message("[environment]\npackages = \"torch\"\n"),
              HasSubstr("environment.packages must be a list of texts"));
  EXPECT_THAT(message("[environment]\npackages = [\"torch=2\"]\n"), HasSubstr("trail.toml:2: `torch=2`"));
  EXPECT_THAT(message("[environment]\nsystem-packages = [\"-o x\"]\n"),
              HasSubstr("is not the name of a Debian package"));
  EXPECT_THAT(message("[run]\ncommand = \"python 'x\"\n"), HasSubstr("trail.toml:2: run.command"));
  EXPECT_THAT(message("run = 1\n"), HasSubstr("trail.toml:1: run must be a table"));
  for (const char* grace : {"\"soon\"", "\"169h\"", "604801"})
    EXPECT_THAT(message(fmt::format("[stop]\ngrace = {}\n", grace)),
                HasSubstr("stop.grace must be a time up to a week"));
  EXPECT_THAT(message("[run]\nenv = { TRAIL_RUN_ID = \"x\" }\n"), HasSubstr("trail.toml:2: run.env.TRAIL_RUN_ID"));
  EXPECT_THAT(message("[run]\nenv = { \"A=B\" = \"x\" }\n"), HasSubstr("`A=B` is no name of a variable"));
  EXPECT_THAT(message("[run]\nenv = { A = \"x\\u0000\" }\n"), HasSubstr("the value of A holds a NUL"));
}

TEST(CommandWords, a_line_that_needs_a_shell_gets_one) {
  EXPECT_THAT(command_words("python train.py").value(), ElementsAre("python", "train.py"));
  EXPECT_THAT(command_words("python a.py && python b.py").value(),
              ElementsAre("sh", "-c", "python a.py && python b.py"));
  EXPECT_THAT(command_words("python train.py --seed \"$SEED\"").value(),
              ElementsAre("sh", "-c", "python train.py --seed \"$SEED\""));
  EXPECT_THAT(command_words("python -c 'print(1); print(2)'").value(),
              ElementsAre("python", "-c", "print(1); print(2)"));
}

}  // namespace
}  // namespace startrail::project
