/**
 * `node run.cjs NAME ARGUMENTS…`: what every npm script starts. Runs a script of this folder, or a tool that the project
 * depends on, with a Node.js that is new enough; see run-new.cjs. This file alone parses in very old ones.
 */
'use strict';

/** Older ones come with an npm that cannot read the lockfiles. */
const OLDEST_MAJOR = 16;

const found = process.versions.node;
if (Number(found.split('.')[0]) < OLDEST_MAJOR) {
  const sentence = `This is Node.js ${found}, which is too old to bring a newer one.`;
  process.stderr.write(`${sentence} Install Node.js 22.15 or newer (https://nodejs.org).\n`);
  process.exitCode = 2;
} else {
  require('./run-new.cjs').run(process.argv.slice(2));
}
