/** How the page is built: a few files, into the Python package. */

import { defineConfig } from "vite";
import { notice } from "./vite/notice.ts";
import { withoutPolicy } from "./vite/policy.ts";
import { stamp } from "./vite/stamp.ts";

const SERVER = "http://127.0.0.1:8765";
const ASKED = ["check", "explain", "facts", "graph", "predicates", "query", "rules", "session", "subscribe", "undo", "update", "what-if", "why-not"];

export default defineConfig({
  plugins: [notice(), stamp(), withoutPolicy()],
  build: {
    outDir: "../src/tidelog/server/page/static",
    emptyOutDir: true,
    target: "es2023",
    cssTarget: ["chrome123", "firefox120", "safari17.5"], // which know `light-dark()`
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    rollupOptions: {
      output: {
        entryFileNames: "assets/page-[hash].js",
        chunkFileNames: "assets/[name]-[hash].js",
        assetFileNames: "assets/page-[hash][extname]",
        // What is large and not ours keeps its file while ours change.
        codeSplitting: { groups: [{ name: "codemirror", test: /node_modules\/(@codemirror|@lezer|@marijn|style-mod|crelt|w3c-keyname)\// }] },
      },
    },
  },
  // While the page is worked on, it asks a server on its usual port, which takes it for its own.
  server: {
    proxy: { [`^/(?:${ASKED.join("|")})`]: { target: SERVER, changeOrigin: true, headers: { origin: SERVER } } },
  },
});
