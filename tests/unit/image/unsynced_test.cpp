#include "image/unsynced.hpp"

#include "base/process.hpp"
#include "store_fixture.hpp"

namespace startrail::image::testing {
namespace {

class Unsynced : public StoreFixture {
 protected:
  [[nodiscard]] fs::path notes(const std::string& machine, const std::string& boot) const {
    return root() / "unsynced" / (machine + "." + boot);
  }
  [[nodiscard]] fs::path own_notes() const { return notes(base::process_place().host, base::boot_id()); }
  // As if everything that was made until now had been made before the machine went down.
  void go_down(const std::string& machine = base::process_place().host) const {
    fs::rename(own_notes(), notes(machine, "11111111-2222-3333-4444-555555555555"));
  }
};

WheelBuilder small_wheel(const std::string& name) {
  WheelBuilder wheel;
  wheel.name = name;
  return wheel;
}

TEST_F(Unsynced, a_tree_is_noted_until_the_disk_has_it) {
  const auto wheel = source(small_wheel("one"));
  ASSERT_TRUE(install({wheel}));
  EXPECT_TRUE(is_unsynced(store()));
  EXPECT_FALSE(is_in_doubt(store()));
  EXPECT_TRUE(fs::exists(own_notes() / ("wheels@" + tree(wheel).filename().string())));
  ASSERT_TRUE(sync_store(store()));
  EXPECT_FALSE(is_unsynced(store()));
  EXPECT_FALSE(fs::exists(own_notes()));
}

TEST_F(Unsynced, after_a_power_cut_what_it_damaged_goes_and_the_rest_stays) {
  const auto whole = source(small_wheel("whole")), torn = source(small_wheel("torn"));
  ASSERT_TRUE(install({whole, torn}));
  for (const auto& entry : fs::recursive_directory_iterator(tree(torn)))
    if (entry.is_regular_file()) {
      fs::permissions(entry.path(), fs::perms::owner_all);
      fs::resize_file(entry.path(), 0);
    }
  go_down();
  ASSERT_TRUE(is_in_doubt(store()));
  base::SilentReporter reporter;
  ASSERT_TRUE(settle_doubts(store(), reporter));
  EXPECT_FALSE(is_in_doubt(store()));
  EXPECT_TRUE(store().has_wheel(whole.sha256));
  EXPECT_FALSE(fs::exists(tree(torn)));
  ASSERT_TRUE(install({torn}));
  EXPECT_TRUE(store().has_wheel(torn.sha256));
}

TEST_F(Unsynced, another_machines_notes_are_its_own) {
  ASSERT_TRUE(install({source(small_wheel("one"))}));
  go_down("elsewhere");
  EXPECT_FALSE(is_in_doubt(store()));
}

}  // namespace
}  // namespace startrail::image::testing
