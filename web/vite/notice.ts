/** The licences of everything that ends up in the built files, beside them. */

import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";

const ALLOWED = new Set(["MIT", "ISC", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "Unlicense", "(MIT OR CC0-1.0)"]);
const HEAD = "The page of tidelog contains these packages, under their own licences.\n";

function packageOf(module: string): string | undefined {
  const found = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(module.replace(/^\0/, ""));
  return found?.[1];
}

/** Packages whose files have those that they depend on within them. */
const WITH_OTHERS = ["d3-dag"];

function* withOthers(folder: string): Generator<string> {
  yield folder;
  const { name, dependencies = {} } = manifestOf(folder);
  if (!WITH_OTHERS.includes(name)) return;
  const modules = folder.slice(0, -name.length - 1);
  const waiting = Object.keys(dependencies);
  for (const needed of waiting) {
    yield join(modules, needed);
    waiting.push(...Object.keys(manifestOf(join(modules, needed)).dependencies ?? {}));
  }
}

function manifestOf(folder: string): { name: string; version: string; license: string; dependencies?: Record<string, string> } {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
}

function noticeOf(folder: string): string {
  const { name, version, license } = manifestOf(folder);
  if (!ALLOWED.has(license)) throw new Error(`${name} has the licence ${license}, which nobody has allowed`);
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file && existsSync(join(folder, file)) ? readFileSync(join(folder, file), "utf8").trim() : `Licence: ${license}`;
  return `${"-".repeat(100)}\n${name} ${version} (${license})\n\n${text}\n`;
}

export function notice(): Plugin {
  return {
    name: "notice",
    apply: "build",
    generateBundle(_options, bundle) {
      const modules = Object.values(bundle).flatMap((part) => (part.type === "chunk" ? Object.keys(part.modules) : []));
      const used = new Set(modules.map(packageOf).filter((folder) => folder !== undefined));
      const folders = [...new Set([...used].flatMap((folder) => [...withOthers(folder)]))].sort();
      this.emitFile({ type: "asset", fileName: "NOTICE", source: [HEAD, ...folders.map(noticeOf)].join("\n") });
    },
  };
}
