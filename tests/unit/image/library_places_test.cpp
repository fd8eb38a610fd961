#include <gtest/gtest.h>

#include "image/image_folder.hpp"
#include "store_fixture.hpp"

namespace startrail::image {
namespace {

Manifest manifest_with(std::vector<std::string> environment) {
  Manifest manifest;
  manifest.lock = "lock";
  manifest.python = "3.11";
  manifest.base_recipe = "recipe";
  manifest.base_digest = "digest";
  manifest.environment = std::move(environment);
  return manifest;
}

TEST(LibraryPlaces, are_a_part_of_what_names_an_image) {
  const Manifest plain = manifest_with({});
  const Manifest placed = manifest_with({"LD_LIBRARY_PATH={site}/nvidia/cudnn/lib"});
  EXPECT_NE(manifest_id(plain), manifest_id(placed));
  EXPECT_EQ(manifest_text(plain).find("environment"), std::string::npos) << "other images keep their names";
  const auto read = parse_manifest(manifest_text(placed));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->environment, placed.environment);
}

class LibraryPlacesInAStore : public testing::StoreFixture {};

TEST_F(LibraryPlacesInAStore, are_variables_of_the_image_with_its_own_site_packages) {
  std::filesystem::create_directories(store().folder("bases") / "digest" / "root");
  const auto image = image_from_manifest(store(), "sha256:" + std::string(64, '0'),
                                         manifest_with({"LD_LIBRARY_PATH={site}/a:{site}/b"}));
  ASSERT_TRUE(image) << base::to_text(image.error());
  EXPECT_EQ(image->environment.at("LD_LIBRARY_PATH"),
            "/opt/env/lib/python3.11/site-packages/a:/opt/env/lib/python3.11/site-packages/b");
  EXPECT_EQ(image->environment.at("VIRTUAL_ENV"), "/opt/env");
}

}  // namespace
}  // namespace startrail::image
