/** Loads the program's modules: `import()` in a file of its own, because old versions of Node.js cannot parse it. */
import('../cli/main.ts').catch((error: unknown) => {
  setImmediate(() => {
    throw error;
  });
});
