# cmake -D "FILES=a;b" -D SOURCE=dir -D OUT=assets.cc -P embed.cmake
#
# Writes the definition of assets() (assets.h). Needs nothing but CMake.
set(text "#include \"web/assets.h\"\n\n#include <array>\n\n")
string(APPEND text "namespace thimble::web {\nnamespace {\n\n")
set(table "")
foreach(file IN LISTS FILES)
  file(READ ${SOURCE}/${file} hex HEX)
  file(SIZE ${SOURCE}/${file} size)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
  string(REGEX REPLACE "('[^,]*',){20}" "\\0\n" bytes "${bytes}")
  string(MAKE_C_IDENTIFIER ${file} name)
  string(APPEND text "constexpr char k_${name}[] = {\n${bytes}};\n\n")
  # index.html is "/", another page goes without its ending.
  string(REGEX REPLACE "\\.html$" "" path "${file}")
  string(REGEX REPLACE "^index$" "" path "${path}")
  set(path "/${path}")
  string(APPEND table "    Asset{\"${path}\", {k_${name}, ${size}}},\n")
endforeach()
string(APPEND text "constexpr std::array kAssets = {\n${table}};\n\n}  // namespace\n\n"
  "std::span<const Asset> assets() { return kAssets; }\n\n}  // namespace thimble::web\n")
file(WRITE ${OUT} "${text}")
