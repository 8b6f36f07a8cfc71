"""Conan 2 recipe of weir, which uses the sources of this repository: `conan create src/package/conan`."""

import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir

PROJECT = os.path.join("..", "..", "..")


class Weir(ConanFile):
    name = "weir"
    description = "Asynchronous limiters for Boost.Asio"
    license = "BSL-1.0"
    topics = ("asio", "rate-limiting", "concurrency", "coroutines")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "shared": [True, False],
        "fPIC": [True, False],
        "mysql": [True, False],
        "postgres": [True, False],
        "redis": [True, False],
        "programs": [True, False],
    }
    default_options = {"shared": False, "fPIC": True, "mysql": False, "postgres": False, "redis": False,
                       "programs": False}

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, PROJECT, "include", "weir", "version.hpp"))
        self.version = re.search(r'WEIR_VERSION_STRING "(.*)"', header).group(1)

    def export_sources(self):
        project = os.path.join(self.recipe_folder, PROJECT)
        for pattern in ("CMakeLists.txt", "LICENSE", "README.md", "include/*", "src/*"):
            copy(self, pattern, src=project, dst=self.export_sources_folder)

    def configure(self):
        if self.options.shared:
            self.options.rm_safe("fPIC")

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        # Users include the headers of both. A program must use the version of Boost with which weir was compiled.
        self.requires("boost/1.83.0", transitive_headers=True)
        self.requires("fmt/[>=9 <12]", transitive_headers=True, transitive_libs=True)
        if self.options.mysql or self.options.redis:
            self.requires("openssl/[>=1.1 <4]")
        if self.options.postgres:
            self.requires("libpq/[>=13 <19]")
        if self.options.programs:
            self.requires("cli11/[>=2.1 <3]")
            self.requires("tomlplusplus/[>=3.2 <4]")
            self.requires("zlib/[>=1.2 <2]")

    def package_id(self):
        self.info.requires["boost"].full_version_mode()

    def validate(self):
        check_min_cppstd(self, 20)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["WEIR_MYSQL"] = bool(self.options.mysql)
        toolchain.cache_variables["WEIR_POSTGRESQL"] = bool(self.options.postgres)
        toolchain.cache_variables["WEIR_REDIS"] = bool(self.options.redis)
        toolchain.cache_variables["WEIR_BUILD_PROXY"] = bool(self.options.programs)
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        # Conan makes these for its own paths.
        rmdir(self, os.path.join(self.package_folder, "lib", "cmake"))
        rmdir(self, os.path.join(self.package_folder, "lib", "pkgconfig"))

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "weir")
        components = self.cpp_info.components
        base = components["base"]
        base.set_property("cmake_target_name", "weir::base")
        base.libs = ["weir"]
        base.requires = ["boost::headers", "fmt::fmt"]
        if self.settings.os in ("Linux", "FreeBSD"):
            base.system_libs = ["pthread"]
        weir = components["weir"]
        weir.set_property("cmake_target_name", "weir::weir")
        weir.set_property("pkg_config_name", "weir")
        weir.libs = ["weir_limiters"]
        weir.defines = ["WEIR_COMPILED_LIMITERS"]
        weir.requires = ["base"]
        for store, client in (("mysql", "openssl"), ("postgres", "libpq"), ("redis", "openssl")):
            if self.options.get_safe(store):
                component = components[store]
                component.set_property("cmake_target_name", f"weir::{store}")
                component.set_property("pkg_config_name", f"weir-{store}")
                component.libs = [f"weir_{store}"]
                component.requires = ["base", f"{client}::{client}"]
        if self.options.programs:
            components["programs"].requires = ["base", "cli11::cli11", "tomlplusplus::tomlplusplus", "zlib::zlib"]
