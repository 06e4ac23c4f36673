// The result of the cache-resumption evaluation for people, programs and browsers.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/evals/resume.h"

namespace thimble::app {

// What was evaluated.
struct ResumeSubject {
  std::string model;
  std::string mode;
  std::string note;  // about the texts; may be empty
};

std::string to_table(const ResumeSubject& subject, const engine::ResumeReport& report);
nlohmann::ordered_json to_json(const ResumeSubject& subject, const engine::ResumeReport& report);
std::string to_chart(const ResumeSubject& subject, const engine::ResumeReport& report);

}  // namespace thimble::app
