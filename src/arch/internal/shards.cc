#include "arch/internal/shards.h"

#include <set>

#include "arch/internal/json.h"

namespace thimble::arch {
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";
constexpr uint64_t kMaxIndexBytes = 256 << 20;

using WeightMap = std::map<std::string, std::string, std::less<>>;  // tensor to file name

// A plain file name: shards lie in the directory itself, whatever the index says.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
}

Result<WeightMap> read_index(const Path& path) {
  const std::string text = THIMBLE_TRY(base::read_file(path, kMaxIndexBytes));
  const Json root = THIMBLE_TRY(parse_json(text));
  const Json* map = root.find("weight_map");
  const auto* object = map == nullptr ? nullptr : map->get<Json::Object>();
  if (object == nullptr) {
    return fail(ErrorCode::kCorrupt, "weight_map is {}; expected an object",
                map == nullptr ? "missing" : brief(*map));
  }
  WeightMap files;
  for (const auto& [tensor, value] : *object) {
    const auto* file = value.get<std::string>();
    if (file == nullptr || !is_plain_name(*file)) {
      return fail(ErrorCode::kCorrupt,
                  "weight_map puts {} into {}; expected the name of a file in the same directory",
                  in_quotes(tensor), brief(value));
    }
    files.emplace(tensor, *file);
  }
  return files;
}

// False if the file could not be read.
bool add_file(Shards& shards, const Path& directory, const std::string& name) {
  auto file = SafetensorsFile::open(directory / name);
  if (!file) {
    shards.mismatches.push_back({Mismatch::Kind::kFile, name, file.error().describe()});
    return false;
  }
  for (const TensorEntry& entry : file->entries()) {
    const auto [first, fresh] = shards.file_names.emplace(entry.name, name);
    if (fresh) {
      shards.entries.emplace(entry.name, entry);
      shards.tensors.emplace(entry.name, file->tensors().at(entry.name));
    } else {
      shards.mismatches.push_back({Mismatch::Kind::kFile, entry.name,
                                   fmt::format("stored twice: in {} and in {}",
                                               in_quotes(first->second), in_quotes(name))});
    }
  }
  shards.files.push_back(std::move(*file));
  return true;
}

// Both ways: what the index promises is there, and nothing else is.
void compare_with_index(Shards& shards, const WeightMap& index,
                        const std::set<std::string>& unread_files) {
  for (const auto& [tensor, file] : index) {
    const auto found = shards.file_names.find(tensor);
    if (found == shards.file_names.end()) {
      if (unread_files.contains(file)) {  // the file's own mismatch says why
        shards.unread.insert(tensor);
        continue;
      }
      shards.mismatches.push_back(
          {Mismatch::Kind::kFile, tensor,
           fmt::format("the index puts it into {}, which lacks it", in_quotes(file))});
    } else if (found->second != file) {
      shards.mismatches.push_back({Mismatch::Kind::kFile, tensor,
                                   fmt::format("the index puts it into {}, but it is in {}",
                                               in_quotes(file), in_quotes(found->second))});
    }
  }
  for (const auto& [tensor, file] : shards.file_names) {
    if (index.contains(tensor)) continue;
    shards.mismatches.push_back(
        {Mismatch::Kind::kFile, tensor,
         fmt::format("it is in {}, but the index does not list it", in_quotes(file))});
  }
}

}  // namespace

Shards open_shards(const Path& directory) {
  Shards shards;
  std::error_code ignored;
  if (!std::filesystem::exists(directory / kIndexName, ignored)) {
    shards.all_unread = !add_file(shards, directory, kSingleName);
    return shards;
  }
  const auto index = read_index(directory / kIndexName);
  if (!index) {
    shards.mismatches.push_back({Mismatch::Kind::kFile, kIndexName, index.error().describe()});
    shards.all_unread = true;
    return shards;
  }
  std::set<std::string> names;
  for (const auto& [tensor, file] : *index) names.insert(file);
  std::set<std::string> unread_files;
  for (const std::string& name : names) {
    if (!add_file(shards, directory, name)) unread_files.insert(name);
  }
  compare_with_index(shards, *index, unread_files);
  return shards;
}

}  // namespace thimble::arch
