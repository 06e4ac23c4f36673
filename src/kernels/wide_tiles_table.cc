// The AVX2 table once more, with the tiles of AVX-512: so their algorithms are tested on CPUs that
// have none of it.
#define THIMBLE_WIDE_TILES
#include "kernels/isa/avx2.cc"
