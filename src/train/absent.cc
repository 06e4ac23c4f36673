// The build without libtorch.
