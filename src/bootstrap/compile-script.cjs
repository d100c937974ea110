/**
 * `node compile-script.cjs SCRIPT OUTPUT`: runs a script of the build as its launcher does, as far as the help
 * of a command, and writes the code that was compiled for it. A process of its own, because compiled code
 * holds for the flags of the process that made it.
 */
const { readFileSync, writeFileSync } = require('node:fs');
const path = require('node:path');
const { constants, Script } = require('node:vm');

const [, , file, output] = process.argv;
const script = new Script(readFileSync(file, 'utf8'), {
  filename: path.join(path.dirname(file), 'reading.script'),
  importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
});
process.argv = [process.execPath, 'mailkeep', 'search', '--help'];
process.on('exit', (exitCode) => {
  if (exitCode === 0) writeFileSync(output, script.createCachedData());
});
script.runInThisContext()(require, file);
