#include "lock/refusal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lock/build_help.hpp"
#include "lock/uv_failure.hpp"

namespace startrail::lock {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

project::Requirement requirement(const std::string& name, const std::string& specifier, int line) {
  return {.name = name,
          .specifier = specifier,
          .origin = {.file = "requirements.txt", .line = line},
          .as_written = name + specifier};
}

Request request_for(std::vector<project::Requirement> packages, std::vector<catalog::Bound> bounds = {}) {
  project::Requirements needs;
  needs.packages = std::move(packages);
  catalog::Choice choice;
  choice.bounds = std::move(bounds);
  return {needs, choice, std::nullopt};
}

constexpr const char* k_clash = R"(error: No solution found when resolving dependencies
  cause: Because tensorflow==1.15.2 depends on numpy>=1.16.0,<2.0 and you require tensorflow==1.15.2, we can conclude that you require numpy>=1.16.0,<2.0.
         And because you require numpy==1.13.3, we can conclude that your requirements are unsatisfiable.
)";

TEST(Refusal, a_direct_clash_names_both_sides_and_their_lines) {
  const auto failure = parse_uv_failure(k_clash);
  EXPECT_EQ(failure.kind, FailureKind::contradiction);
  EXPECT_THAT(failure.required, ElementsAre("tensorflow==1.15.2", "numpy==1.13.3"));
  const auto request = request_for({requirement("tensorflow", "==1.15.2", 2), requirement("numpy", "==1.13.3", 3)});
  const Error error = refusal(failure, request, "3.9");
  EXPECT_EQ(error.message, "tensorflow==1.15.2 needs numpy>=1.16.0,<2.0, but numpy==1.13.3 is asked for");
  EXPECT_THAT(error.context, ElementsAre("tensorflow==1.15.2 is read from requirements.txt:2",
                                         "numpy==1.13.3 is read from requirements.txt:3"));
  EXPECT_THAT(suspects(failure, request),
              testing::UnorderedElementsAre(testing::Key("tensorflow"), testing::Key("numpy")));
}

TEST(Refusal, a_bound_of_ours_is_told_with_its_reason) {
  const auto failure = parse_uv_failure(R"(error: No solution found when resolving dependencies
  cause: Because you require torch>=2.11 and torch<2.11, we can conclude that your requirements are unsatisfiable.
)");
  const auto request = request_for({requirement("torch", ">=2.11", 1)},
                                   {{.requirement = "torch<2.11", .reason = "driver 535.183 runs CUDA up to 12"}});
  const Error error = refusal(failure, request, "3.11");
  EXPECT_EQ(error.message, "torch>=2.11 and torch<2.11 exclude each other");
  EXPECT_THAT(error.context, Contains(HasSubstr("driver 535.183")));
}

TEST(Refusal, wheels_for_other_pythons_give_their_tags) {
  const auto failure = parse_uv_failure(R"(error: No solution found when resolving dependencies
  cause: Because opencv-python==4.2.0.32 has no wheels with a matching Python ABI tag (e.g., `cp39`) and you require opencv-python==4.2.0.32, we can conclude that your requirements are unsatisfiable.

hint: You require CPython 3.9 (`cp39`), but we only found wheels for `opencv-python` (v4.2.0.32) with the following Python ABI tags: `cp27m`, `cp36m`, `cp37m`, `cp38`
)");
  EXPECT_EQ(failure.kind, FailureKind::no_wheels);
  EXPECT_EQ(failure.package, "opencv-python");
  EXPECT_EQ(failure.version, "4.2.0.32");
  EXPECT_EQ(failure.tags, "cp27m, cp36m, cp37m, cp38");
  const auto request = request_for({requirement("opencv-python", "==4.2.0.32", 2)});
  const std::vector<Probe> probes{{.python = {.minor = "3.9"}, .no_wheels = {failure}},
                                  {.python = {.minor = "3.11"}, .no_wheels = {failure}}};
  const Error error = no_python_refusal(probes, request, "3.8");
  EXPECT_EQ(error.message, "no Python that can be had here (3.9 or 3.11) has wheels of opencv-python 4.2.0.32");
  EXPECT_THAT(error.context, Contains("the wheels of opencv-python 4.2.0.32 are for Python 2.7, 3.6, 3.7, 3.8"));
  EXPECT_THAT(error.context, Contains("opencv-python==4.2.0.32 is read from requirements.txt:2"));
  EXPECT_THAT(error.context, Contains(HasSubstr("Python 3.8, which no Debian base has")));
}

TEST(Refusal, a_source_that_may_not_be_built_is_told_from_a_clash) {
  const auto failure = parse_uv_failure(R"(error: No solution found when resolving dependencies
  cause: Because all versions of sklearn have no usable wheels and you require sklearn, we can conclude that your requirements are unsatisfiable.

hint: Wheels are required for `sklearn` because building from source is disabled for all packages (i.e., with `--no-build`)
)");
  EXPECT_EQ(failure.kind, FailureKind::needs_build);
  EXPECT_THAT(failure.unbuilt, ElementsAre("sklearn"));
}

TEST(Refusal, a_contradiction_beside_an_unbuilt_version_stays_a_contradiction) {
  const auto failure = parse_uv_failure(R"(error: No solution found when resolving dependencies
  cause: Because pandas>=3.1.0rc0 depends on numpy{python_full_version < '3.14'}>=2.0.2 and all of:
             pandas>=3.0.0,<=3.0.3
             pandas>=3.0.5,<=3.0.6
         depend on numpy{python_full_version < '3.14'}>=1.26.0, we can conclude that all of:
             pandas>=3.0.0,<=3.0.3
             pandas>=3.0.5
         depend on numpy{python_full_version < '3.14'}>=1.26.0.
         And because pandas==3.0.4 has no usable wheels, we can conclude that pandas>=3.0.0 depends on numpy>=1.26.0.
         And because you require pandas>=3 and numpy<1.24, we can conclude that your requirements are unsatisfiable.

hint: Wheels are required for `pandas` because building from source is disabled for all packages (i.e., with `--no-build`)
)");
  EXPECT_EQ(failure.kind, FailureKind::contradiction);
  EXPECT_THAT(failure.unbuilt, ElementsAre("pandas"));
  const Error error =
      refusal(failure, request_for({requirement("pandas", ">=3", 1), requirement("numpy", "<1.24", 2)}), "3.11");
  EXPECT_THAT(error.message, HasSubstr("numpy<1.24 is asked for"));
  EXPECT_THAT(error.message, HasSubstr("pandas"));
}

TEST(Refusal, an_unknown_package_is_named_with_what_was_meant) {
  const auto failure = parse_uv_failure(R"(error: No solution found when resolving dependencies
  cause: Because cv2 was not found in the package registry and you require cv2, we can conclude that your requirements are unsatisfiable.
)");
  EXPECT_EQ(failure.kind, FailureKind::unknown_package);
  const Error error = refusal(failure, request_for({requirement("cv2", "", 4)}), "3.11");
  EXPECT_THAT(error.message, HasSubstr("cv2"));
  EXPECT_THAT(error.context, ElementsAre("cv2 is read from requirements.txt:4"));
  EXPECT_THAT(error.hints, ElementsAre("write opencv-python instead of cv2"));
}

TEST(Refusal, a_way_out_that_could_not_be_tried_follows_from_the_clash) {
  UvFailure failure{.kind = FailureKind::contradiction};
  failure.required = {"numpy==1.13.3", "tensorflow==2.5.3"};
  const auto request = request_for({requirement("numpy", "==1.13.3", 3), requirement("tensorflow", "==2.5.3", 2)});
  EXPECT_THAT(untried_way_out(failure, request),
              HasSubstr("leave the version of numpy==1.13.3 (requirements.txt:3) or"));
  failure.dependencies = {{.dependent = "tensorflow==2.5.3", .needed = "numpy>=1.19.2,<1.20"}};
  EXPECT_THAT(untried_way_out(failure, request),
              HasSubstr("write numpy>=1.19.2,<1.20 instead of numpy==1.13.3 (requirements.txt:3)"));
  failure.kind = FailureKind::network;
  EXPECT_EQ(untried_way_out(failure, request), "");
}

TEST(Refusal, an_unknown_version_is_named) {
  const auto failure = parse_uv_failure(R"(error: No solution found when resolving dependencies
  cause: Because there is no version of torch==99.0 and you require torch==99.0, we can conclude that your requirements are unsatisfiable.
)");
  EXPECT_EQ(failure.kind, FailureKind::unknown_version);
  EXPECT_EQ(failure.package, "torch");
  EXPECT_EQ(refusal(failure, request_for({requirement("torch", "==99.0", 1)}), "3.11").message,
            "no release of torch satisfies torch==99.0");
}

TEST(Refusal, an_unreachable_repository_names_host_and_line) {
  const auto failure = parse_uv_failure(R"(error: Git operation failed
  cause: failed to clone into: /home/me/.cache/uv/git-v2/db/363593d9928870a9
  cause: process didn't exit successfully: `/usr/bin/git fetch --force --update-head-ok 'https://git.example/org/api.git' '+HEAD:refs/remotes/origin/HEAD'` (exit status: 128)
         --- stderr
         fatal: unable to access 'https://git.example/org/api.git/': Could not resolve host: git.example
)");
  EXPECT_EQ(failure.kind, FailureKind::git);
  EXPECT_EQ(failure.host, "git.example");
  auto vcs = requirement("api", "", 2);
  vcs.kind = project::SourceKind::vcs;
  vcs.location = "git+https://git.example/org/api.git";
  vcs.as_written = vcs.location;
  const Error error = refusal(failure, request_for({vcs}), "3.11");
  EXPECT_EQ(error.code, ErrorCode::network);
  EXPECT_THAT(error.message, HasSubstr("git.example can't be reached"));
  EXPECT_THAT(error.context, Contains(HasSubstr("requirements.txt:2")));
}

TEST(Refusal, an_unreachable_host_is_told_for_all_its_repositories_whichever_failed_first) {
  UvFailure failure{.kind = FailureKind::git, .reason = "Could not resolve host: git.example"};
  failure.address = "https://git.example/org/second.git";
  failure.host = "git.example";
  std::vector<project::Requirement> packages;
  for (const char* location : {"git+https://user@git.example/org/first.git@main#egg=first",
                               "git+https://git.example/org/second.git", "git+https://other.example/org/third.git"}) {
    packages.push_back(requirement("", "", static_cast<int>(packages.size()) + 1));
    packages.back().kind = project::SourceKind::vcs;
    packages.back().location = packages.back().as_written = location;
  }
  const Error error = refusal(failure, request_for(packages), "3.11");
  EXPECT_EQ(error.message,
            "git.example can't be reached, so https://git.example/org/first.git and https://git.example/org/second.git "
            "can't be fetched");
  EXPECT_EQ(error.context.size(), 2U);
  EXPECT_THAT(error.hints.front(), testing::EndsWith("git ls-remote https://git.example/org/first.git"));
  const auto found = repositories(failure, request_for(packages));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].project, "first");
}

TEST(Refusal, an_unreachable_index_names_its_host_and_no_credentials) {
  const auto failure = parse_uv_failure(R"(error: Request failed after 3 retries in 5.2s
  cause: Failed to fetch: http://user:secret@index.example/simple/numpy/
  cause: error sending request for url (http://index.example/simple/numpy/)
  cause: client error (Connect)
  cause: dns error
  cause: failed to lookup address information: Name or service not known
)");
  EXPECT_EQ(failure.kind, FailureKind::network);
  EXPECT_EQ(failure.host, "index.example");
  const Error error = refusal(failure, request_for({}), "3.11");
  EXPECT_THAT(base::to_text(error), Not(HasSubstr("secret")));
  EXPECT_THAT(error.message, HasSubstr("index.example"));
}

TEST(Refusal, a_failed_build_tells_the_last_words_not_the_trace) {
  const auto failure = parse_uv_failure(R"(error: Failed to build `lap==0.4.0`
  cause: The build backend returned an error
  cause: Call to `setuptools.build_meta:__legacy__.get_requires_for_build_wheel` failed (exit status: 1)

         [stderr]
         Traceback (most recent call last):
           File "<string>", line 14, in <module>
             self.run_setup()
           File "<string>", line 4, in <module>
         ModuleNotFoundError: No module named 'pkg_resources'

hint: This error likely indicates that `lap@0.4.0` depends on `pkg_resources`, but doesn't declare it as a build dependency.
)");
  EXPECT_EQ(failure.kind, FailureKind::build_failed);
  EXPECT_EQ(failure.package, "lap");
  EXPECT_EQ(failure.missing_module, "pkg_resources");
  EXPECT_EQ(failure.reason, "ModuleNotFoundError: No module named 'pkg_resources'");
  BuildHelp help;
  std::vector<std::string> notes;
  EXPECT_TRUE(learn(help, failure, notes));
  EXPECT_THAT(help.constraints, ElementsAre("setuptools<81"));
  EXPECT_FALSE(learn(help, failure, notes)) << "the same cure twice is no cure";
}

TEST(Refusal, the_compilers_complaint_is_told_with_the_package_that_has_the_header) {
  const auto failure = parse_build_output(
      "running build_ext\nsrc/checkdep.c:1:10: fatal error: ft2build.h: No such file or directory\n"
      "    1 | #include <ft2build.h>\ncompilation terminated.\nerror: command 'gcc' failed with exit code 1\n",
      "matplotlib");
  EXPECT_EQ(failure.reason, "ft2build.h: No such file or directory");
  EXPECT_EQ(failure.missing_header, "ft2build.h");
  EXPECT_THAT(advice_for(failure), HasSubstr("libfreetype-dev"));
}

TEST(Refusal, advice_of_setup_files_to_install_something_is_followed) {
  const auto failure = parse_build_output("ImportError: lap requires numpy, please \"pip install numpy\".\n", "lap");
  EXPECT_EQ(failure.missing_module, "numpy");
  BuildHelp help;
  std::vector<std::string> notes;
  EXPECT_TRUE(learn(help, failure, notes));
  EXPECT_THAT(help.requirements["lap"], ElementsAre("numpy"));
}

TEST(Refusal, a_metadata_build_that_is_disabled_names_the_package) {
  const auto failure = parse_uv_failure(
      "error: Failed to build `otherproj @ file:///home/me/proj`\n  cause: Building source distributions for "
      "`otherproj` is disabled\n");
  EXPECT_EQ(failure.kind, FailureKind::needs_build);
  EXPECT_THAT(failure.unbuilt, ElementsAre("otherproj"));
}

TEST(Refusal, words_that_are_not_known_become_one_short_line) {
  const auto failure = parse_uv_failure("warning: something\nerror: " + std::string(5000, 'x') + "\nmore\nmore\n");
  EXPECT_EQ(failure.kind, FailureKind::other);
  const Error error = refusal(failure, request_for({}), "3.11");
  EXPECT_LT(error.message.size(), 400U);
  EXPECT_THAT(error.message, Not(HasSubstr("\n")));
  EXPECT_EQ(parse_uv_failure("").reason, "uv said nothing");
}

TEST(Refusal, only_pins_that_stand_in_the_way_become_a_hint) {
  Lock solution;
  solution.packages = {{.name = "numpy", .version = "1.26.4"}, {.name = "tensorflow", .version = "2.15.0"}};
  const auto request = request_for({requirement("tensorflow", "==2.15.0", 1), requirement("numpy", "==2.0.0", 2)});
  EXPECT_EQ(way_out(solution, {{"numpy", Width::any}, {"tensorflow", Width::any}}, request),
            "write numpy==1.26.4 instead of numpy==2.0.0 (requirements.txt:2); another major version may need changes "
            "in the code");
  EXPECT_EQ(way_out(solution, {{"tensorflow", Width::any}}, request), std::nullopt);
}

TEST(RequestLines, the_order_of_the_sources_does_not_matter) {
  const auto one = request_for({requirement("b", "==1", 1), requirement("a", "", 2)});
  const auto two = request_for({requirement("a", "", 7), requirement("b", "==1", 9)});
  EXPECT_EQ(one.requirement_lines("/p", {}), two.requirement_lines("/p", {}));
}

TEST(RequestLines, a_widened_pin_stays_in_its_major_version_or_is_free) {
  EXPECT_EQ(widened("==4.2.0.32", Width::same_major), ">=4.2.0.32,<5");
  EXPECT_EQ(widened("~=1.12.1+cu113", Width::same_major), ">=1.12.1,<2");
  EXPECT_EQ(widened("==3.8.*", Width::same_major), ">=3.8,<4");
  EXPECT_EQ(widened("<2,>=1.5", Width::same_major), ">=1.5,<2");
  EXPECT_EQ(widened("<2", Width::same_major), "");
  EXPECT_EQ(widened("==4.2.0.32", Width::any), "");
}

TEST(RequestLines, folders_are_written_as_addresses_and_never_as_editables) {
  project::Requirement own{.kind = project::SourceKind::directory, .location = ".", .editable = project::Editable::yes};
  project::Requirement other{.name = "lib", .kind = project::SourceKind::directory, .location = "./libs/my lib"};
  EXPECT_THAT(request_for({own, other}).requirement_lines("/home/my project", {}),
              ElementsAre("file:///home/my%20project/", "lib @ file:///home/my%20project/libs/my%20lib"));
}

TEST(RequestLines, an_editable_folder_is_known_by_its_path) {
  const project::Requirement own{
      .kind = project::SourceKind::directory, .location = "./", .editable = project::Editable::yes};
  const project::Requirement lib{
      .kind = project::SourceKind::directory, .location = "./libs/a", .editable = project::Editable::yes};
  const auto request = request_for({own, lib});
  EXPECT_EQ(request.editable("."), project::Editable::yes);
  EXPECT_EQ(request.editable("libs/a"), project::Editable::yes);
  EXPECT_EQ(request.editable("libs/b"), project::Editable::no);
  EXPECT_TRUE(request.has_nameless_folders());
  EXPECT_TRUE(request.requirement_lines("/p", {}, NamelessFolders::left_out).empty());
}

TEST(RequestLines, the_framework_flag_takes_the_place_of_the_projects_pin) {
  project::Requirements needs;
  needs.packages = {requirement("torch", "==2.13.0", 3)};
  const Request request(needs, {}, "torch==2.10.0");
  EXPECT_THAT(request.requirement_lines("/p", {}), ElementsAre("torch==2.10.0"));
  needs.packages.clear();
  EXPECT_THAT(Request(needs, {}, "torch==2.10.0").requirement_lines("/p", {}), ElementsAre("torch==2.10.0"));
  needs.packages = {requirement("torch", "==2.13.0", 3)};
  catalog::Choice instead;
  instead.left_out = {"torch"};
  EXPECT_THAT(Request(needs, instead, "jax==0.5.3").requirement_lines("/p", {}), ElementsAre("jax==0.5.3"))
      << "another framework takes its place";
}

}  // namespace
}  // namespace startrail::lock
