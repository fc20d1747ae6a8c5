# SPDX-License-Identifier: Apache-2.0
"""Plants violations of the include direction, and includes that are right, and looks at what the check says."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[1] / "include_direction"


def run_on(files: dict[str, str]) -> subprocess.CompletedProcess:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return subprocess.run([sys.executable, "-B", str(TOOL), folder], capture_output=True, text=True)


class IncludeDirection(unittest.TestCase):
    def assert_right(self, file: str, *includes: str):
        result = run_on({file: "".join(f"#include {name}\n" for name in includes)})
        self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)

    def assert_violation(self, file: str, include: str, says: str, **others: str):
        result = run_on({file: f"// first line\n#include {include}\n", **others})
        self.assertEqual(result.returncode, 1, f"{file} including {include} passed: {result.stderr}")
        self.assertTrue(result.stdout.startswith(f"{file}:2: "), result.stdout)
        self.assertIn(says, result.stdout)

    def test_right_includes_pass(self):
        self.assert_right("include/mok/layer.h", "<vector>", "<mok/bfloat16.h>")
        self.assert_right("src/program/task.h", "<cstdint>", "<mok/config.h>", '"program/layout.h"')
        self.assert_right("src/ops/down/down.h", '"program/task.h"', '"ops/elementwise.h"')
        self.assert_right("src/ops/down/down_cpu.cpp", '"ops/down/down.h"', '"cpu/tile_gemm.h"', '"cpu/tile_buffer.h"')
        self.assert_right("src/cpu/executor.cpp", '"ops/down/down_cpu.h"', '"group/virtual.h"', "<Eigen/Core>")
        self.assert_right("src/cuda/kernel/forward.cu", '"cuda/roles/load.cuh"', '"cuda/ptx/wgmma.cuh"')
        self.assert_right("src/api/moe.cpp", '"cpu/executor.h"', '"cuda/host/launch.h"', "<fmt/format.h>")
        self.assert_right("src/reference/forward.cpp", "<mok/bfloat16.h>", '"reference/forward.h"')
        self.assert_right("apps/mok/main.cpp", "<mok/layer.h>", '"reference/forward.h"', '"mok/train.h"')
        self.assert_right("tests/cpu/executor_test.cpp", '"cpu/executor.h"', '"api/moe.h"', '"reference/forward.h"')

    def test_upward_includes_fail(self):
        self.assert_violation("src/program/task.h", '"cpu/executor.h"', "belongs to cpu: program may include")
        self.assert_violation("src/ops/down/down.h", '"cpu/tile_gemm.h"', "belongs to the tile GEMM contract")
        self.assert_violation("src/ops/down/down.h", '"ops/down/down_cpu.h"', "belongs to op CPU bodies")
        self.assert_violation("src/ops/down/down_cpu.cpp", '"cpu/executor.h"', "belongs to cpu")
        self.assert_violation("src/group/virtual.cpp", '"ops/down/down.h"', "belongs to ops contracts")
        self.assert_violation("src/cpu/executor.cpp", '"api/moe.h"', "belongs to api")
        self.assert_violation("src/cuda/ptx/wgmma.cuh", '"cuda/roles/load.cuh"', "belongs to cuda/roles")
        self.assert_violation("src/cuda/roles/load.cuh", '"cuda/kernel/wiring.cuh"', "belongs to cuda/kernel")

    def test_the_reference_stands_alone(self):
        self.assert_violation("src/reference/forward.cpp", "<mok/config.h>", "belongs to include/mok")
        self.assert_violation("src/reference/forward.cpp", '"program/schedule.h"', "belongs to program")
        self.assert_violation("src/reference/forward.cpp", "<Eigen/Core>", "is from outside")
        self.assert_violation("src/api/moe.cpp", '"reference/forward.h"', "belongs to reference")

    def test_the_tool_sees_public_headers_only(self):
        self.assert_violation("apps/mok/main.cpp", '"api/moe.h"', "belongs to api")

    def test_public_headers_bring_nothing_from_outside(self):
        self.assert_violation("include/mok/layer.h", "<cuda_runtime.h>", "is from outside")
        self.assert_violation("include/mok/layer.h", "<Eigen/Core>", "is from outside")
        self.assert_violation("include/mok/layer.h", '"program/task.h"', "belongs to program")
        self.assert_violation("src/program/verify.cpp", "<cuda_runtime.h>", "is CUDA's")

    def test_spelling(self):
        public, executor = {"include/mok/layer.h": ""}, {"src/cpu/executor.h": ""}
        self.assert_violation("src/api/moe.cpp", '"mok/layer.h"', "write <mok/layer.h>", **public)
        self.assert_violation("src/api/moe.cpp", "<cpu/executor.h>", "is a header of src/", **executor)
        self.assert_violation("src/cpu/a.cpp", '"b.h"', 'write "cpu/b.h"', **{"src/cpu/b.h": ""})
        self.assert_violation("src/cpu/a.cpp", '"../program/task.h"', "climbs out of its folder")


if __name__ == "__main__":
    unittest.main()
