# SPDX-License-Identifier: Apache-2.0
"""The files of the repository, for the checks: what git tracks or would track, so no build output.

As a program it prints file names, each ended by a null byte:
    repo_files.py --cpp                                     the C++ and CUDA sources
    repo_files.py --compiled COMPILE_COMMANDS_JSON FOLDER   the sources below FOLDER that a build compiles
"""

import json
import pathlib
import subprocess
import sys

CPP = {".h", ".hpp", ".cpp", ".cc", ".cu", ".cuh", ".inl", ".inc"}
CODE = CPP | {".py"}
NEVER = {".git", "build", ".deps", "__pycache__"}


def list_files(root: pathlib.Path) -> list[pathlib.Path]:
    """All files of the repository at `root`, relative to it, sorted."""
    git = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
    )
    if git.returncode == 0:
        names = [pathlib.Path(name) for name in git.stdout.split("\0") if name]
    else:  # a source archive, not a clone
        names = [path.relative_to(root) for path in root.rglob("*")]
    return sorted({n for n in names if not NEVER & set(n.parts) and (root / n).is_file()})


def with_suffix(files: list[pathlib.Path], suffixes: set[str]) -> list[pathlib.Path]:
    return [path for path in files if path.suffix in suffixes]


def read_lines(path: pathlib.Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").split("\n")


def compiled_files(database: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """The files below `folder` that the compile database names."""
    files = {pathlib.Path(entry["directory"], entry["file"]) for entry in json.loads(database.read_text())}
    return sorted(str(path) for path in files if path.is_relative_to(folder))


def main() -> None:
    root = pathlib.Path.cwd()
    match sys.argv[1:]:
        case ["--cpp"]:
            names = [str(path) for path in with_suffix(list_files(root), CPP)]
        case ["--compiled", database, folder]:
            names = compiled_files(pathlib.Path(database), root / folder)
        case _:
            sys.exit(__doc__)
    sys.stdout.write("".join(name + "\0" for name in names))


if __name__ == "__main__":
    main()
