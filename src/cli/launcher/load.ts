/** Loads the program's modules. `import()` needs a separate file, because old versions of Node.js cannot parse it. */
import('../main.ts').catch((error: unknown) => {
  const reason = error instanceof Error ? error.message : String(error);
  process.stderr.write(
    `mailkeep: The program cannot be loaded: ${reason}\nInstall it again. If that does not help, please report it.\n`,
  );
  process.exitCode = 1;
});
