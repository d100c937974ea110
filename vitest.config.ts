import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';
import { unitFiles } from './test/unit-files.ts';

const unit = unitFiles(fileURLToPath(new URL('.', import.meta.url)));

export default defineConfig({
  test: {
    projects: [
      // These share two processes.
      { extends: true, test: { name: 'unit', include: unit, isolate: false } },
      { extends: true, test: { name: 'apart', include: ['test/**/*.test.ts'], exclude: unit } },
    ],
    // Node.js imports built files itself: they need no transformation.
    server: { deps: { external: [/\/dist\/[\w-]+\.js$/] } },
    setupFiles: ['test/bounded-children.ts'],
    reporters: ['default', './test/stuck-modules.ts'],
    // The program is built once: command lines, worker threads and child processes run from dist/.
    globalSetup: ['test/build-once.ts', 'test/one-folder.ts', 'test/peers/shared-servers.ts'],
    // A watchdog, not a measure: tests wait for events, and a busy machine may take its time.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000 } },
    // Two cores are shared by the tests, their worker threads and their child processes.
    maxWorkers: 2,
    restoreMocks: true,
    // The authorization server says that its defaults are for tests only.
    onConsoleLog: (line) => !line.startsWith('oidc-provider '),
  },
});
