// Aim: digests are those of FIPS 180-4. Method: the standard's examples, and every length around
// the ends of a block against digests chained into one.
#include "base/sha256.h"

#include <gtest/gtest.h>

namespace thimble::base {
namespace {

TEST(Sha256, TheStandardsExamples) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, LengthsAroundABlock) {
  std::string chain;
  for (size_t size = 50; size <= 140; ++size) chain += sha256_hex(std::string(size, 'x'));
  EXPECT_EQ(sha256_hex(chain), "aba37deb6fd2ce28970de4a2e7a4e8a83b696754147c3927de3f7ae1d0bfee93");
}

}  // namespace
}  // namespace thimble::base
