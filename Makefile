# SPDX-License-Identifier: Apache-2.0
# Thin verbs: each one is a script in tools/ or a line of CMake.
.PHONY: demo test sanitize bench gpu-build gpu-test gpu-sanitize gpu-bench gpu-trace fmt lint setup clean

# Trains a small layer on this machine. Only what that needs is set up and built.
demo:
	@tools/setup build
	@test -f build/cpu/build.ninja || cmake --preset cpu -DMOK_BUILD_TESTS=OFF -DMOK_BUILD_BENCH=OFF
	@cmake --build --preset cpu --target mok_cli
	build/cpu/mok train $(ARGS)

# Every test that this machine can run.
test:
	@tools/test

# The tests of the CPU backend under the address, undefined-behaviour and thread sanitizers.
sanitize:
	@tools/sanitize

# Every benchmark: a table here, all numbers in build/bench.json.
bench:
	@tools/setup build test bench
	@cmake --preset cpu
	@cmake --build --preset cpu --target mok_bench
	build/cpu/mok_bench --benchmark_out=build/bench.json --benchmark_out_format=json $(ARGS)

# What takes a Hopper GPU and needs no network: all of its targets; its tests; the same under compute-sanitizer; the
# layer against a PyTorch layer; a timeline of one pass.
gpu-build gpu-test gpu-sanitize gpu-bench gpu-trace: gpu-%:
	@tools/gpu $* $(ARGS)

# Formats the C++ sources in place.
fmt:
	@tools/lint --fix

# Formatting, include direction, licence lines, scorecard, clang-tidy.
lint:
	@tools/setup build
	@tools/lint

# Everything that any verb needs.
setup:
	@tools/setup build test bench lint

clean:
	rm -rf build
