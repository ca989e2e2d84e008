/** While the page is worked on, Vite puts style sheets into it, which its policy would forbid. */

import type { Plugin } from "vite";

export function withoutPolicy(): Plugin {
  return {
    name: "without-policy",
    apply: "serve",
    transformIndexHtml: (html) => html.replace(/<meta\s+http-equiv="Content-Security-Policy"[^>]*>/, ""),
  };
}
