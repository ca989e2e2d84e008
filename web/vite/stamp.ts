/** A stamp of the sources beside the built files: a hash by which a test notices built files that are out of date. */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";
import type { Plugin } from "vite";

const ROOT = join(import.meta.dirname, "..");
const SOURCES = ["index.html", "package-lock.json", "public", "src", "vite", "vite.config.ts"];

function* filesOf(path: string): Generator<string> {
  const entries = readdirSync(path, { withFileTypes: true });
  for (const entry of entries) {
    const inner = join(path, entry.name);
    if (entry.isDirectory()) yield* filesOf(inner);
    else yield inner;
  }
}

function* sourceFiles(): Generator<string> {
  const there = readdirSync(ROOT, { withFileTypes: true });
  for (const entry of there.filter(({ name }) => SOURCES.includes(name))) {
    const path = join(ROOT, entry.name);
    if (entry.isDirectory()) yield* filesOf(path);
    else yield path;
  }
}

/** For each file, its path and its content, each after its length; `tests/server/page/test_built_files.py` does the same. */
export function stampOfSources(): string {
  const hash = createHash("sha256");
  const files = [...sourceFiles()].map((path) => relative(ROOT, path).split(sep).join("/")).sort();
  for (const path of files) {
    for (const part of [Buffer.from(path), readFileSync(join(ROOT, path))]) hash.update(`${part.length}\n`).update(part);
  }
  return hash.digest("hex");
}

export function stamp(): Plugin {
  return {
    name: "stamp",
    apply: "build",
    generateBundle() {
      this.emitFile({ type: "asset", fileName: "sources.sha256", source: `${stampOfSources()}\n` });
    },
  };
}
