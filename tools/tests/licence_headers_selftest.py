# SPDX-License-Identifier: Apache-2.0
"""Looks at what the licence check says of files with and without the line."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[1] / "licence_headers"
LINE = "SPDX-License-Identifier: Apache-2.0\n"


class LicenceHeaders(unittest.TestCase):
    def run_on(self, name: str, text: str) -> str:
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, name).write_text(text)
            result = subprocess.run([sys.executable, "-B", str(TOOL), folder], capture_output=True, text=True)
        self.assertEqual(result.stderr, "")
        self.assertEqual(result.returncode, 1 if result.stdout else 0)
        return result.stdout

    def test_files_with_the_line_pass(self):
        for name, text in {
            "a.h": "// " + LINE,
            "a.cu": "// " + LINE + "int x;\n",
            "a.py": "# " + LINE,
            "CMakeLists.txt": "# " + LINE,
            "script": "#!/bin/sh\n# " + LINE,
            "page.md": "no source\n",
        }.items():
            self.assertEqual(self.run_on(name, text), "", name)

    def test_files_without_it_fail(self):
        for name, text, number in (
            ("a.h", "#pragma once\n", 1),
            ("a.h", "", 1),
            ("a.h", "// another line first\n// " + LINE, 1),
            ("a.py", "import os\n", 1),
            ("script", "#!/bin/sh\necho\n", 2),
        ):
            self.assertTrue(self.run_on(name, text).startswith(f"{name}:{number}: "), name)


if __name__ == "__main__":
    unittest.main()
