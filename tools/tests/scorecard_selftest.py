# SPDX-License-Identifier: Apache-2.0
"""Plants one fault for each measure of the scorecard and looks for its MISS."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[1] / "scorecard"
MARK = "TO" + "DO"  # in two pieces, for this file is measured too


class Scorecard(unittest.TestCase):
    def run_on(self, files: dict[str, str]) -> subprocess.CompletedProcess:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return subprocess.run([sys.executable, "-B", str(TOOL), folder], capture_output=True, text=True)

    def missed(self, **files: str) -> list[str]:
        result = self.run_on(files)
        self.assertEqual(result.stderr, "")
        misses = [line for line in result.stdout.split("\n") if line.startswith("MISS")]
        self.assertEqual(result.returncode, 1 if misses else 0)
        return misses

    def assert_misses(self, measure: str, **files: str):
        self.assertTrue(any(measure in line for line in self.missed(**files)), measure)

    def test_clean_code_passes(self):
        self.assertEqual(self.missed(**{"src/a.cpp": "int main() {\n  return 0;\n}\n"}), [])

    def test_no_source_is_a_fault(self):
        self.assertEqual(self.run_on({"page.md": ""}).returncode, 1)

    def test_each_measure_finds_its_fault(self):
        self.assert_misses("median source file", **{"src/a.cpp": "\n" * 250})
        self.assert_misses("largest source file", **{"src/a.cpp": "\n" * 700, "src/b.cpp": "", "src/c.cpp": ""})
        body = "int f() {\n" + "  g();\n" * 160 + "}\n"
        self.assert_misses("longest function, elsewhere", **{"src/a.cpp": body})
        self.assert_misses("longest function, elsewhere", **{"a.py": "def f():\n" + "    g()\n" * 160})
        self.assertEqual(self.missed(**{"src/cuda/kernel/a.cu": body}), [])
        self.assert_misses("lines over 120", **{"src/a.cpp": "//" + "x" * 119})
        self.assert_misses(f"{MARK}/", **{"src/a.cpp": "", "tests/a.cpp": f"// {MARK}: later\n"})
        self.assert_misses("torch includes", **{"src/a.cpp": "#include <torch/torch.h>\n"})
        self.assert_misses("CUDA includes", **{"src/program/a.h": "#include <cuda_runtime.h>\n"})
        self.assert_misses("disabled code", **{"src/a.cpp": "// f();\n" * 6})

    def test_long_lines_of_tests_are_not_counted(self):
        self.assertEqual(self.missed(**{"src/a.cpp": "", "tests/a.cpp": "//" + "x" * 119}), [])


if __name__ == "__main__":
    unittest.main()
