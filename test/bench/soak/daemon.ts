/**
 * `npm run soak:daemon`: the built daemon against the sandbox with constant change and faults, for ten minutes
 * by default. Fails when its memory grew, when it logged an internal error, or when the
 * mirror is not the origin once all has come to rest.
 */
import { parseArgs } from 'node:util';
import { soakDaemon } from './daemon-soak.ts';
import { judgeMemory } from './memory.ts';

const HELP = `npm run soak:daemon -- [--minutes N | --seconds N] [--mailboxes N] [--seed N]
  --minutes    how long (default: 10)
  --mailboxes  mailboxes of the account (default: 20)
  --seed       decides what changes and fails (default: drawn)`;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string' },
    seconds: { type: 'string' },
    mailboxes: { type: 'string', default: '20' },
    seed: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
});
const seconds = Number(values.seconds ?? Number(values.minutes ?? 10) * 60);
const mailboxes = Number(values.mailboxes);
const seed = Number(values.seed ?? Math.floor(Math.random() * 1_000_000));
if (values.help || !(seconds >= 10) || !(mailboxes >= 1) || !Number.isInteger(seed)) {
  console.log(HELP);
  process.exit(values.help ? 0 : 2);
}

console.log(`seed      ${seed}; ${mailboxes} mailboxes, ${seconds} s`);
const figures = await soakDaemon({ seconds, mailboxes, seed, say: (line) => console.log(line) });
const { problems, heap, rss } = figures;
const memory = judgeMemory(heap);
if (!memory.flat) problems.push(`memory grew from ${mb(memory.before)} to ${mb(memory.after)} MB`);
console.log(`changes   ${figures.changes} at the origin; ${figures.faults} faults`);
console.log(`requests  ${figures.requests} answered by the service`);
console.log(
  `runs      ${figures.runs} finished, ${figures.failedRuns} of them with failures; ${figures.stops} times the account waited`,
);
console.log(
  `memory    ${mb(memory.before)} MB early, ${mb(memory.after)} MB late (heap and buffers, collected); RSS ${mb(rss[0] ?? 0)} MB first, at most ${mb(Math.max(...rss))} MB`,
);
console.log(`mirror    ${figures.places} messages compared, bytes and flags`);
for (const problem of problems) console.log(`FAILED  ${problem}`);
console.log(problems.length === 0 ? 'passed' : 'failed');
process.exitCode = problems.length === 0 ? 0 : 1;

function mb(bytes: number): string {
  return (bytes / 1e6).toFixed(1);
}
