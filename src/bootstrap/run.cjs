/**
 * `node run.cjs NAME ARGUMENTS…`: what every npm script starts. Runs a script of this folder, or a tool that the project
 * depends on, with a Node.js that is new enough; see run-new.cjs. This file alone parses in very old ones.
 */
'use strict';

/** Older ones come with an npm that cannot read the lockfiles. */
const OLDEST_MAJOR = 16;

if (Number(process.versions.node.split('.')[0]) < OLDEST_MAJOR) {
  process.stderr.write(
    `This is Node.js ${process.versions.node}, which is too old to bring a newer one. Install Node.js 22.15 or newer (https://nodejs.org) and run the same command again.\n`,
  );
  process.exitCode = 2;
} else {
  require('./run-new.cjs').run(process.argv.slice(2));
}
