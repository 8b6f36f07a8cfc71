#pragma once

// CMakeLists.txt reads the version of the project from this file.

/// The version of weir as a number for `#if`: `major * 10000 + minor * 100 + patch`.
#define WEIR_VERSION 200

/// The version of weir as a string literal: `major.minor.patch`.
#define WEIR_VERSION_STRING "0.2.0"
