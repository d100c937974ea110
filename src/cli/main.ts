#!/usr/bin/env node
import { ALL_COMMANDS } from './commands.ts';
import { runProcess } from './run.ts';

await runProcess(ALL_COMMANDS);
