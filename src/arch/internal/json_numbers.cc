#include "arch/internal/json_numbers.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "arch/internal/json.h"
#include "base/terminal.h"

namespace thimble::arch {
namespace {

constexpr size_t kKeyBytesMax = 80;
constexpr size_t kDigitsMax = 40;
constexpr int kOverflow = 406;  // the library's name for a real number beyond double

// Walks a document and remembers where it is. Every handler returns whether to go on.
class Walk : public nlohmann::json_sax<nlohmann::json> {
 public:
  const std::optional<std::string>& found() const { return found_; }

  bool null() override { return next(); }
  bool boolean(bool) override { return next(); }
  bool number_integer(number_integer_t) override { return next(); }
  bool number_unsigned(number_unsigned_t) override { return next(); }
  bool string(string_t&) override { return next(); }
  bool binary(binary_t&) override { return next(); }
  // The library makes a real number of an integer that fits 64 bits in no way.
  bool number_float(number_float_t, const string_t& digits) override {
    if (digits.find_first_of(".eE") != string_t::npos) return next();
    return tell(digits);
  }

  bool start_object(size_t) override { return enter({false, 0, {}}); }
  bool key(string_t& key) override {
    places_.back().key = key;
    return true;
  }
  bool end_object() override { return leave(); }
  bool start_array(size_t) override { return enter({true, 0, {}}); }
  bool end_array() override { return leave(); }

  bool parse_error(size_t, const std::string& token,
                   const nlohmann::json::exception& error) override {
    if (error.id == kOverflow) tell(token);
    return false;
  }

 private:
  // Where in an object or array the next value stands.
  struct Place {
    bool in_array;
    size_t index;
    std::string key;
  };

  bool enter(Place place) {
    places_.push_back(std::move(place));
    return places_.size() <= kMaxJsonDepth;
  }
  bool leave() {
    places_.pop_back();
    return next();
  }
  bool next() {
    if (!places_.empty()) ++places_.back().index;
    return true;
  }
  bool tell(const std::string& digits) {
    std::string path;
    for (const Place& place : places_) {
      if (place.in_array) {
        path += fmt::format("[{}]", place.index);
      } else {
        path += (path.empty() ? "" : ".") + base::printable(place.key, kKeyBytesMax);
      }
    }
    found_ = fmt::format("{} is {}", path.empty() ? "the document" : path,
                         base::printable(digits, kDigitsMax));
    return false;
  }

  std::vector<Place> places_;
  std::optional<std::string> found_;
};

}  // namespace

std::optional<std::string> find_unfit_number(std::string_view json) {
  Walk walk;
  nlohmann::json::sax_parse(json, &walk);
  return walk.found();
}

}  // namespace thimble::arch
