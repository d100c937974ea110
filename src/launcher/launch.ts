import { readFileSync } from 'node:fs';
import path from 'node:path';
import { constants, Script } from 'node:vm';
import { commandName, readingCommand } from '../cli/command-name.ts';

/** Names of files in dist/; the build puts them in. */
declare const READING_SCRIPT: string;
declare const READING_CODE: string;
declare const LOAD: string;

/**
 * Starts the program in this process. Reading commands answer as people type, so they come from one script that has
 * its compiled code next to it, without the module loader; a search takes a fifth less that way. All others, and
 * everything where that script is missing, come from the modules.
 */
export function launch(): void {
  const source =
    readingCommand(commandName(process.argv.slice(2))) === undefined
      ? undefined
      : // The build writes ASCII alone.
        contentOf(READING_SCRIPT)?.toString('latin1');
  if (source === undefined) {
    require(LOAD);
    return;
  }
  const cachedData = contentOf(READING_CODE);
  const script = new Script(source, {
    filename: path.join(__dirname, READING_SCRIPT),
    // Code of another version of Node.js is refused by it, and compiled again.
    ...(cachedData === undefined ? {} : { cachedData }),
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  const start: (load: NodeJS.Require, filename: string) => void = script.runInThisContext();
  start(require, __filename);
}

function contentOf(name: string): Buffer | undefined {
  try {
    return readFileSync(path.join(__dirname, name));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}
