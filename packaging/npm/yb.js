#!/usr/bin/env node
// Starts the program of this platform, which npm installed as an optional dependency.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `@youbencha/${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/${process.platform === "win32" ? "yb.exe" : "yb"}`);
} catch {
  console.error(`error: the package ${name} is not installed`);
  console.error("hint: install youbencha again without --omit=optional; if the platform is not supported: cargo install youbencha");
  process.exit(3);
}

const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// A terminal sends its signals to both; `yb` decides when it ends, and others must be passed on.
for (const signal of ["SIGINT", "SIGQUIT"]) process.on(signal, () => {});
for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`error: failed to start ${program}: ${error.message}`);
  process.exit(3);
});
child.on("exit", (code, signal) => process.exit(signal ? 128 + constants.signals[signal] : code));
