/**
 * `node compile-script.cjs SCRIPT OUTPUT ARGUMENTS…`: runs a script of the build as its launcher does, with these
 * arguments, and writes the code that was compiled for it. A process of its own, because compiled code
 * holds for the flags of the process that made it.
 */
const { readFileSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { constants, Script } = require('node:vm');

const [, , file, output, ...args] = process.argv;
const script = new Script(readFileSync(file, 'utf8'), {
  filename: path.join(path.dirname(file), 'reading.script'),
  importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
});
process.argv = [process.execPath, 'mailkeep', ...args];
process.on('exit', (exitCode) => {
  if (exitCode === 0) writeFileSync(output, script.createCachedData());
});
script.runInThisContext()(require, file);
