# SPDX-License-Identifier: Apache-2.0
"""Runs tools/setup on made-up machines: a PATH with stand-ins for the compiler, CMake, apt-get and sudo."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[1] / "setup"
REAL = ["bash", "env", "sed", "sort", "head", "tail", "grep", "mktemp", "rm", "chmod", "true"]
CMAKE = "echo cmake version {}"
APT_THAT_FAILS = "echo no such mirror; exit 100"
APT_THAT_BRINGS_NINJA = """
case "$*" in *install*ninja-build*) printf "#!/bin/sh\n" >"$BIN/ninja" && chmod +x "$BIN/ninja" ;; esac
"""
SUDO = 'shift; exec "$@"'


class Setup(unittest.TestCase):
    def run_on(self, tools: dict[str, str], *parts: str) -> subprocess.CompletedProcess:
        """tools/setup with only the given commands (name -> shell line) beside a few real ones on PATH."""
        with tempfile.TemporaryDirectory() as folder:
            for name in REAL:
                os.symlink(shutil.which(name), pathlib.Path(folder, name))
            for name, line in tools.items():
                path = pathlib.Path(folder, name)
                path.write_text(f"#!/bin/sh\n{line}\n")
                path.chmod(0o755)
            environment = {"PATH": folder, "BIN": folder, "MOK_DEPS_DIR": folder}
            return subprocess.run(
                [shutil.which("bash"), str(TOOL), *parts], env=environment, capture_output=True, text=True
            )

    def assert_one_line(self, result: subprocess.CompletedProcess, *words: str):
        self.assertEqual((result.returncode, result.stdout, result.stderr.count("\n")), (1, "", 1), result.stderr)
        for word in words:
            self.assertIn(word, result.stderr)

    def machine(self, **changes: str | None) -> dict[str, str]:
        tools = {"c++": "", "cmake": CMAKE.format("3.25.1"), "ninja": "", "make": "", **changes}
        return {name: line for name, line in tools.items() if line is not None}

    def test_silent_where_nothing_is_missing(self):
        result = self.run_on(self.machine())
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_one_line_where_it_may_not_install(self):
        result = self.run_on(self.machine(ninja=None))
        self.assert_one_line(result, "apt-get install ninja-build", "there is no apt here")

    @unittest.skipIf(os.geteuid() == 0, "root needs no sudo")
    def test_one_line_without_rights(self):
        result = self.run_on(self.machine(ninja=None, **{"apt-get": "", "sudo": "exit 1"}))
        self.assert_one_line(result, "apt-get install ninja-build", "root's rights")

    def test_old_cmake_is_missing(self):
        self.assert_one_line(self.run_on(self.machine(cmake=CMAKE.format("3.22.1"))), "install cmake", "3.25")
        self.assertEqual(self.run_on(self.machine(cmake=CMAKE.format("3.100.0"))).returncode, 0)

    def test_installs_what_is_missing(self):
        result = self.run_on(self.machine(ninja=None, sudo=SUDO, **{"apt-get": APT_THAT_BRINGS_NINJA}))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout, "Installing ninja-build with apt-get.\n")

    def test_says_why_apt_failed(self):
        result = self.run_on(self.machine(ninja=None, sudo=SUDO, **{"apt-get": APT_THAT_FAILS}))
        self.assertEqual(result.returncode, 1)
        self.assertIn("no such mirror", result.stderr)

    def test_unknown_part(self):
        self.assertEqual(self.run_on(self.machine(), "everything").returncode, 2)


if __name__ == "__main__":
    unittest.main()
