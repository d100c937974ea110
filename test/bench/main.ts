import { existsSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { formatCount, formatMB } from './figures.ts';
import { allottedBytes } from './indexer.ts';
import { coldLatencies } from './latency.ts';
import { measureMailkeep } from './measure-mailkeep.ts';
import { measureIndexer, measureMbsync } from './measure-peers.ts';
import type { Measured, Measurements } from './measurements.ts';
import { type MessageSet, makeMessageSet } from './message-set.ts';
import { prepareMu } from './mu.ts';
import { prepareNotmuch } from './notmuch.ts';
import { type BenchOptions, parseOptions, USAGE } from './options.ts';
import { extendPath, PEERS, peerVersion } from './peers.ts';
import { formatTable } from './report.ts';
import { rowsOf } from './rows.ts';
import { corpusStock, generatedStock } from './source-stock.ts';
import { Workplace } from './workplace.ts';

const program = fileURLToPath(new URL('../../dist/mailkeep.js', import.meta.url));

let failures = 0;

async function main(options: BenchOptions): Promise<void> {
  extendPath();
  const work = new Workplace({
    ...(options.parent !== undefined && { parent: options.parent }),
    keep: options.keep,
  });
  try {
    await bench(work, options);
  } finally {
    await work.leave();
  }
}

async function bench(work: Workplace, options: BenchOptions): Promise<void> {
  say(`Working in ${work.folder}; making ${formatCount(options.messages)} messages …`);
  const corpus = process.env.MAILKEEP_CORPUS;
  const stock =
    corpus === undefined ? generatedStock(options.messages, options.seed) : corpusStock(corpus);
  const messages = makeMessageSet(
    join(work.folder, 'maildir'),
    stock,
    options.messages,
    options.seed,
  );
  const run = await measure(work, messages, options);
  process.stdout.write(`${describe(messages)}\n\n${formatTable(rowsOf(run))}\n`);
  if (options.json !== undefined) writeFileSync(options.json, `${JSON.stringify(run, null, 2)}\n`);
  if (options.keep) say(`Kept: ${work.folder}`);
}

async function measure(
  work: Workplace,
  messages: MessageSet,
  { runs }: BenchOptions,
): Promise<Measurements> {
  const mbsync = await attempt('mbsync', () => measureMbsync(work, messages, runs));
  const mu = await attempt('mu', () =>
    measureIndexer('mu', prepareMu(work, messages.maildir), messages, runs),
  );
  const notmuch = await attempt('notmuch', () =>
    measureIndexer('notmuch', prepareNotmuch(work, messages.maildir), messages, runs),
  );
  const mailkeep = await attempt('mailkeep', () => measureMailkeep(work, program, messages, runs));
  const [nodeMs = Number.NaN] = coldLatencies([{ command: process.execPath, args: ['-e', '0'] }]);
  return {
    messages: messages.count,
    rawBytes: messages.rawBytes,
    maildirBytes: allottedBytes(messages.maildir),
    folderCounts: messages.folderCounts,
    mbsync,
    mu,
    notmuch,
    mailkeep,
    nodeMs,
  };
}

/** A step that fails is named in the table and in the exit code; the other steps go on. */
async function attempt<T>(name: string, step: () => Promise<Measured<T>>): Promise<Measured<T>> {
  say(`Measuring ${name} …`);
  try {
    return await step();
  } catch (error) {
    failures++;
    const reason = error instanceof Error ? error.message : String(error);
    say(`${name} failed: ${reason}`);
    return { missing: 'failed (see above)' };
  }
}

function describe(messages: MessageSet): string {
  const [processor] = cpus();
  const peers = PEERS.map((peer) => peerVersion(peer) ?? `${peer} not installed`);
  return [
    `${formatCount(messages.count)} messages from ${messages.origin}: ${formatMB(messages.rawBytes)}, mean ${formatCount(messages.rawBytes / messages.count)} B, median ${formatCount(messages.medianBytes)} B, largest ${formatMB(messages.largestBytes)}, ${(messages.attachmentShare * 100).toFixed(1)} % with attachments, ${messages.folderCounts.length} folders.`,
    `${cpus().length} cores (${processor?.model.trim() ?? 'unknown'}), ${formatMB(totalmem())} of memory, Node.js ${process.versions.node}; ${peers.join('; ')}.`,
    `Searched for: "${messages.terms.common}" (common), "${messages.terms.rare}" (rare), "${messages.terms.phrase}" (phrase).`,
  ].join('\n');
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

const options = parseOptions(process.argv.slice(2));
if (options === 'help') process.stdout.write(`${USAGE}\n`);
else {
  if (!existsSync(program)) throw new Error('dist/ is not built');
  await main(options);
  process.exitCode = failures > 0 ? 1 : 0;
}
