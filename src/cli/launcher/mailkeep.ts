#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { constants, Script } from 'node:vm';
import { commandName, readingCommand } from '../command-name.ts';
import { cachedCode, cachedCodeFile, checkedCode, keepCode, sumOfSource } from './compiled-code.ts';
import { isNewEnough } from './node-version.ts';

/** Names of files in dist/; the build puts them in. */
declare const HAND_OVER: string;
declare const READING_SCRIPT: string;
declare const READING_CODE: string;
declare const LOAD: string;
/** The version of Node.js that compiled READING_CODE, such as `v24.21.0`. */
declare const BUILT_BY: string;

/**
 * Starts the program in this process. Reading commands answer as people type, so they come from one script that has
 * its compiled code next to it, without the module loader; a search takes a fifth less that way. All others, and
 * everything where that script is missing, come from the modules.
 *
 * Other versions of Node.js than the one that built the program refuse that code: theirs is kept in the user's cache,
 * one file for each command, because it holds what has run. The same happens if the code of the build is damaged.
 */
function launch(): void {
  const args = process.argv.slice(2);
  // What is read at another node needs more than the script has.
  const isElsewhere = args.some((arg) => /^--account(?:=|$)/.test(arg));
  const command = isElsewhere ? undefined : readingCommand(commandName(args));
  const source = command === undefined ? undefined : contentOf(READING_SCRIPT);
  if (source === undefined) {
    require(LOAD);
    return;
  }
  const sourceSum = sumOfSource(source);
  const key = READING_CODE.replace('.code', `-${process.version}-${process.arch}-${command}.code`);
  const cached = cachedCodeFile(key);
  const cachedData =
    (cached === undefined ? undefined : cachedCode(cached, sourceSum)) ??
    (process.version === BUILT_BY ? builtCode(sourceSum) : undefined);
  // The build writes ASCII only.
  const script = new Script(source.toString('latin1'), {
    filename: path.join(__dirname, READING_SCRIPT),
    ...(cachedData === undefined ? {} : { cachedData }),
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  if (cached !== undefined && (cachedData === undefined || script.cachedDataRejected === true)) {
    process.on('exit', (code) => {
      if (code === 0) keepCode(cached, sourceSum, () => script.createCachedData());
    });
  }
  const start: (load: NodeJS.Require, filename: string) => void = script.runInThisContext();
  start(require, __filename);
}

/** The code that the build compiled; undefined where it is missing or damaged. */
function builtCode(sourceSum: number): Buffer | undefined {
  const content = contentOf(READING_CODE);
  return content === undefined ? undefined : checkedCode(content, sourceSum);
}

function contentOf(name: string): Buffer | undefined {
  try {
    return readFileSync(path.join(__dirname, name));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * What `mailkeep` is (dist/mailkeep.cjs). The build translates this file and what it imports into syntax that very old
 * versions of Node.js parse, so that they get as far as the check.
 */
if (isNewEnough(process.versions.node)) launch();
else require(HAND_OVER);
