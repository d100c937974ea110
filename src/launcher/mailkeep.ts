#!/usr/bin/env node
import { launch } from './launch.ts';
import { isNewEnough } from './node-version.ts';

/** Name of a file in dist/; the build puts it in. */
declare const HAND_OVER: string;

/**
 * What `mailkeep` is (dist/mailkeep.cjs). The build translates this file and what it imports into syntax that very old
 * versions of Node.js parse, so that they get as far as the check.
 */
if (isNewEnough(process.versions.node)) launch();
else require(HAND_OVER);
