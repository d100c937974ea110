#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { constants, Script } from 'node:vm';
import { commandName, readingCommand } from '../command-name.ts';
import {
  cachedCode,
  cachedCodeFile,
  sourceChecksum,
  storeCode,
  verifyCachedCode,
} from './compiled-code.ts';
import { isNewEnough } from './node-version.ts';

/** Names of files in dist/, set by the build. */
declare const HAND_OVER: string;
declare const READING_SCRIPT: string;
declare const READING_CODE: string;
declare const LOAD: string;
/** Node.js version that compiled READING_CODE, such as `v24.21.0`. */
declare const BUILT_BY: string;

/**
 * Starts the program in this process. Interactive read-only commands run from a single script with compiled code, without
 * the module loader, which makes a search a fifth faster. All other commands, or all if that script is missing, run
 * from modules. The build's compiled code works only with the Node.js that built it. For other versions it is stored in
 * the user's cache, in one file per command, because it covers only functions that have run. The cache also replaces
 * damaged code.
 */
function launch(): void {
  const args = process.argv.slice(2);
  // Reading an account of a fleet needs modules that the script does not contain.
  const isInFleet = args.some((arg) => /^--fleet-account(?:=|$)/.test(arg));
  const command = isInFleet ? undefined : readingCommand(commandName(args));
  const source = command === undefined ? undefined : contentOf(READING_SCRIPT);
  if (source === undefined) {
    require(LOAD);
    return;
  }
  const sourceSum = sourceChecksum(source);
  const key = READING_CODE.replace('.code', `-${process.version}-${process.arch}-${command}.code`);
  const cached = cachedCodeFile(key);
  const cachedData =
    (cached === undefined ? undefined : cachedCode(cached, sourceSum)) ??
    (process.version === BUILT_BY ? builtCode(sourceSum) : undefined);
  // The build's output is ASCII only.
  const script = new Script(source.toString('latin1'), {
    filename: path.join(__dirname, READING_SCRIPT),
    ...(cachedData === undefined ? {} : { cachedData }),
    importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  });
  if (cached !== undefined && (cachedData === undefined || script.cachedDataRejected === true)) {
    process.on('exit', (code) => {
      if (code === 0) storeCode(cached, sourceSum, () => script.createCachedData());
    });
  }
  const start: (load: NodeJS.Require, filename: string) => void = script.runInThisContext();
  start(require, __filename);
}

function builtCode(sourceSum: number): Buffer | undefined {
  const content = contentOf(READING_CODE);
  return content === undefined ? undefined : verifyCachedCode(content, sourceSum);
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
 * Entry point of `mailkeep` (dist/mailkeep.cjs). The build compiles this file and its imports down to old syntax, so
 * that very old versions of Node.js reach the version check.
 */
if (isNewEnough(process.versions.node)) launch();
else require(HAND_OVER);
