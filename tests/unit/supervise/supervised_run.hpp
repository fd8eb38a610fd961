// A run without isolation, supervised by a child of the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <vector>

#include "run/run.hpp"
#include "run/temporary_folder.hpp"
#include "supervise/supervise.hpp"

namespace startrail::supervise {

class SupervisedRun : public testing::Test {
 protected:
  SupervisedRun() : store(run::RunStore::open(paths, {}).value()) {
    fs::create_directories(workspace);
    spec.workspace = workspace;
    spec.isolation = "none";
  }
  ~SupervisedRun() override {
    if (supervisor > 0) ::kill(supervisor, SIGKILL);
    wait_for_supervisor();
  }

  void start(std::vector<std::string> command) {
    spec.command = std::move(command);
    id = store.create(spec, {.created = base::now()}).value();
    supervisor = ::fork();
    if (supervisor == 0) ::_exit(supervise_main(store.directory(id)));
  }
  void start_shell(const std::string& script) { start({"/bin/sh", "-c", script}); }

  int wait_for_supervisor() {
    int status = 0;
    if (supervisor > 0) ::waitpid(supervisor, &status, 0);
    supervisor = 0;
    return status;
  }
  run::Status status() { return run::read_status(store.directory(id)).value(); }
  run::Status run_to_end(const std::string& script) {
    start_shell(script);
    EXPECT_EQ(wait_for_supervisor(), 0);
    return status();
  }
  std::string log() { return run::log_tail(store.directory(id), 64U << 20U); }
  // Until the command itself has printed this, so that it is past its set-up.
  void wait_for_log(const std::string& text) {
    for (int i = 0; i < 2000 && log().find(text) == std::string::npos; ++i) ::usleep(5000);
    ASSERT_NE(log().find(text), std::string::npos) << log();
  }
  // Processes that carry the run's id, wherever they hang in the process tree.
  std::vector<pid_t> processes() {
    std::vector<pid_t> found;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
      const auto environment = base::read_file(entry.path() / "environ");
      if (environment && environment->find("TRAIL_RUN_ID=" + id) != std::string::npos)
        found.push_back(std::stoi(entry.path().filename().string()));
    }
    return found;
  }
  bool all_gone() {
    for (int i = 0; i < 400; ++i) {
      if (processes().empty()) return true;
      ::usleep(5000);
    }
    return false;
  }

  TemporaryFolder folder;
  base::StatePaths paths{folder / "state"};
  fs::path workspace = folder / "my code";
  run::RunStore store;
  run::RunSpec spec;
  std::string id;
  pid_t supervisor = 0;
};

}  // namespace startrail::supervise
