// SPDX-License-Identifier: Apache-2.0
// The command-line tool: subcommands, and what becomes of a failure.
#include <cstdio>
#include <exception>
#include <new>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <mok/error.h>

#include "mok/cli.h"
#include "mok/output.h"
#include "mok/tool_error.h"
#include "mok/trace.h"

namespace {

/// One sentence on stderr. Not every text that arrives here ends in a full stop.
int fail(int exit_status, std::string_view sentence, std::string_view hint = "") {
  std::fflush(stdout);
  // Not fmt::print, which throws where stderr is closed.
  std::fputs(fmt::format("mok: {}{}{}\n", sentence, sentence.ends_with('.') ? "" : ".", hint).c_str(),
             stderr);
  return exit_status;
}

int run(CLI::App& app, int argc, char** argv, int& exit_status) {
  using namespace mok::tool;
  try {
    app.parse(argc, argv);
    flush_output();
    return exit_status;
  } catch (const CLI::Success& help_or_version) {
    const int status = app.exit(help_or_version);
    return std::fflush(stdout) == 0 ? status : fail(kExitFailed, "The output could not be written");
  } catch (const CLI::ParseError& error) {
    return fail(kExitUsage, error.what(), " See mok --help.");
  } catch (const ToolError& error) {
    return fail(error.exit_status(), error.what());
  } catch (const TraceError& error) {
    return fail(kExitFailed, error.what());
  } catch (const mok::InvalidArgument& error) {
    return fail(kExitUsage, error.what());
  } catch (const std::bad_alloc&) {
    return fail(kExitFailed, "There is not enough memory for these sizes.");
  } catch (const std::exception& error) {
    return fail(kExitFailed, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("MoK: a mixture-of-experts layer for training", "mok");
  app.set_version_flag("--version", "mok " MOK_VERSION);
  app.require_subcommand(1);
  app.get_formatter()->column_width(28);
  app.footer(
      "Exit status: 0 = done, 1 = a check failed or data cannot be used, 2 = arguments cannot be used.");
  int exit_status = 0;
  mok::tool::add_train(app, exit_status);
  mok::tool::add_check(app, exit_status);
  mok::tool::add_trace(app, exit_status);
  mok::tool::add_doctor(app, exit_status);
  return run(app, argc, argv, exit_status);
}
