#!/usr/bin/env node
import { ALL_COMMANDS } from './command-line.ts';
import { runProcess } from './run.ts';

await runProcess(ALL_COMMANDS);
