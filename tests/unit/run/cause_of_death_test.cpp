#include "run/cause_of_death.hpp"

#include <gtest/gtest.h>

namespace startrail::run {
namespace {

struct Case {
  std::string name;
  sandbox::Ended ended;
  std::vector<std::string> command;
  std::string log;
  std::string cause;
};

void PrintTo(const Case& tested, std::ostream* out) {
  *out << tested.name;
}

const std::string k_traceback =
    "epoch 1\nTraceback (most recent call last):\n  File \"/workspace/train.py\", line 3, in <module>\n"
    "    import foo\n";

const std::vector<Case> k_cases{
    {"success", {.exit_code = 0}, {"python"}, "Traceback (most recent call last):\nValueError: caught\n", ""},
    {"exit code", {.exit_code = 3}, {"python"}, "done\n", "exit code 3"},
    {"memory by cgroup",
     {.exit_code = 137, .signal = 9, .out_of_memory = true},
     {"python"},
     "",
     "killed: memory limit 512 MiB reached"},
    {"segfault", {.signal = 11}, {"/opt/env/bin/python", "x.py"}, "", "signal 11 in python (segmentation fault)"},
    {"killed from outside",
     {.signal = 9},
     {"python"},
     "",
     "signal 9 in python (killed from outside, or by the kernel for want of memory)"},
    {"a signal without a meaning of its own", {.signal = 10}, {"python"}, "", "signal 10 in python (SIGUSR1)"},
    {"a shell's child",
     {.exit_code = 139},
     {"sh", "-c", "python x.py"},
     "Segmentation fault\n",
     "signal 11 in sh's child (segmentation fault)"},
    {"traceback",
     {.exit_code = 1},
     {"python"},
     k_traceback + "ModuleNotFoundError: No module named 'foo'\n",
     "ModuleNotFoundError: No module named 'foo'"},
    {"traceback followed by other output",
     {.exit_code = 1},
     {"python"},
     k_traceback + "ModuleNotFoundError: No module named 'foo'\nwandb: synced\n",
     "ModuleNotFoundError: No module named 'foo'"},
    {"chained exceptions",
     {.exit_code = 1},
     {"python"},
     k_traceback + "KeyError: 'a'\n\nDuring handling of the above exception, another exception occurred:\n\n" +
         k_traceback + "RuntimeError: no such column\n",
     "RuntimeError: no such column"},
    {"ranks",
     {.exit_code = 1},
     {"torchrun"},
     "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"t.py\", line 1\n[rank1]: ValueError: bad batch\n"
     "Traceback (most recent call last):\n  File \"/opt/env/bin/torchrun\", line 8\n"
     "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====\n",
     "ValueError: bad batch"},
    {"coloured and with a progress bar",
     {.exit_code = 1},
     {"python"},
     " 10%|#   | 1/10\rTraceback (most recent call last):\r\n  File \"t.py\", line 1\r\n\x1b[31mValueError\x1b[0m: "
     "red\r\n",
     "ValueError: red"},
    {"syntax error",
     {.exit_code = 1},
     {"python"},
     "  File \"/workspace/t.py\", line 1\n    def\n       ^\nSyntaxError: invalid syntax\n",
     "SyntaxError: invalid syntax"},
    {"interrupt", {.exit_code = 1}, {"python"}, k_traceback + "KeyboardInterrupt\n", "KeyboardInterrupt"},
    {"CUDA memory, now",
     {.exit_code = 1},
     {"python"},
     k_traceback + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity "
                   "of 79.10 GiB "
                   "of which 1.50 GiB is free. Process 12 has 77 GiB memory in use.\n",
     "CUDA out of memory: tried to allocate 2.00 GiB; GPU 0 has 79.10 GiB, 1.50 GiB free"},
    {"CUDA memory, before 2.1",
     {.exit_code = 1},
     {"python"},
     k_traceback + "RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 1; 10.76 GiB total capacity; "
                   "4.29 GiB already allocated; 10.12 MiB free; 4.46 GiB reserved in total by PyTorch)\n",
     "CUDA out of memory: tried to allocate 20.00 MiB; GPU 1 has 10.76 GiB, 10.12 MiB free"},
    {"CUDA memory that was survived",
     {.exit_code = 1},
     {"python"},
     "warning: CUDA out of memory. Tried to allocate 2.00 GiB, halving the batch\n" + k_traceback + "ValueError: no\n",
     "ValueError: no"},
    {"CUDA memory without Python", {.exit_code = 1}, {"./train"}, "CUDA error: out of memory\n", "CUDA out of memory"},
    {"no such program", {.exit_code = 127}, {"pyhton", "train.py"}, "", "command not found: pyhton"},
    {"no such program in dash",
     {.exit_code = 127},
     {"sh", "-c", "frob"},
     "sh: 1: frob: not found\n",
     "command not found: frob"},
    {"no such program in bash",
     {.exit_code = 127},
     {"/bin/bash", "-c", "frob"},
     "bash: line 1: frob: command not found\n",
     "command not found: frob"},
    {"not executable", {.exit_code = 126}, {"./train.py"}, "", "not executable: ./train.py"},
    {"not executable in dash",
     {.exit_code = 126},
     {"sh", "-c", "./x"},
     "sh: 1: ./x: Permission denied\n",
     "not executable: ./x"},
    {"too many processes",
     {.exit_code = 1, .pids_limit_hit = true},
     {"python"},
     k_traceback + "BlockingIOError: [Errno 11] Resource temporarily unavailable\n",
     "process limit 64 reached: BlockingIOError: [Errno 11] Resource temporarily unavailable"},
    {"argparse",
     {.exit_code = 2},
     {"python", "t.py"},
     "usage: t.py\nt.py: error: the following arguments are required: --data\n",
     "t.py: error: the following arguments are required: --data"},
    {"no such script",
     {.exit_code = 2},
     {"python", "t.py"},
     "python: can't open file '/workspace/t.py': [Errno 2] No such file or directory\n",
     "python: can't open file '/workspace/t.py': [Errno 2] No such file or directory"},
};

class Cause : public testing::TestWithParam<Case> {};

TEST_P(Cause, is_named_in_one_line) {
  const Case& tested = GetParam();
  const RunSpec spec{.command = tested.command, .limits = {.memory = Bytes{512U << 20U}, .pids = 64}};
  EXPECT_EQ(cause_of_death(tested.ended, spec, tested.log), tested.cause) << tested.name;
}

INSTANTIATE_TEST_SUITE_P(Table, Cause, testing::ValuesIn(k_cases));

TEST(CauseLine, is_at_most_200_bytes_and_cut_at_a_characters_border) {
  for (std::size_t shift = 0; shift < 4; ++shift) {
    std::string message(shift, 'x');
    for (int i = 0; i < 200; ++i) message += "ü";
    const std::string line = one_line(message);
    EXPECT_LE(line.size(), 200U);
    EXPECT_TRUE(line.ends_with("…"));
    EXPECT_NO_THROW((void)Json(line).dump());
  }
}

TEST(CauseLine, has_no_control_characters) {
  EXPECT_EQ(one_line("\x1b[1;31mred\x1b[0m\ttab\x07 end \n"), "red tab  end");
}

TEST(CauseLine, of_hostile_input_comes_quickly) {
  const RunSpec spec{.command = {"sh"}};
  const std::string log(64U << 10U, ':');
  EXPECT_EQ(cause_of_death({.exit_code = 127}, spec, log), "command not found: sh");
  EXPECT_EQ(cause_of_death({.exit_code = 1}, spec, std::string(64U << 10U, 'a')), "exit code 1");
}

}  // namespace
}  // namespace startrail::run
