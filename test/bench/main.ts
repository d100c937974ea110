import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { extendPath } from '../peers/programs.ts';
import { archiveRows, rebuildRow } from './archive-rows.ts';
import { importArchive, measureArchive, measureHeavy } from './archive-speed.ts';
import { copyRows } from './copy-rows.ts';
import { measureCopies } from './copy-speed.ts';
import { durableFilesPerSecond } from './disk-probe.ts';
import { Entry } from './entry.ts';
import { formatCount, formatMB, median } from './figures.ts';
import { formatHistory, type RememberedRun, recall, remember, remembered } from './history.ts';
import { imapRows } from './imap-rows.ts';
import { measureImap } from './imap-speed.ts';
import { allottedBytes } from './indexer.ts';
import { coldLatencies, type Searches } from './latency.ts';
import type { Mailkeep } from './mailkeep.ts';
import { openMailkeep } from './measure-mailkeep.ts';
import { openIndexer, openMbsync } from './measure-peers.ts';
import type {
  IndexerFigures,
  MailkeepFigures,
  Measurements,
  MirrorFigures,
  SearchSpeed,
} from './measurements.ts';
import { memoryByCount } from './memory-growth.ts';
import { type MessageSet, makeMessageSet } from './message-set.ts';
import { prepareMu } from './mu.ts';
import { prepareNotmuch } from './notmuch.ts';
import { type BenchOptions, parseOptions, USAGE } from './options.ts';
import { PEERS, type Peer, peerVersion } from './peers.ts';
import { formatTable, type Row } from './report.ts';
import { restoreRows } from './restore-rows.ts';
import { measureRestore } from './restore-speed.ts';
import { rowsOf } from './rows.ts';
import { searchRows } from './search-rows.ts';
import { measureSearches } from './search-speed.ts';
import { queryText } from './search-terms.ts';
import { corpusStock, generatedStock, type SourceStock } from './source-stock.ts';
import { makeSyntheticCatalog } from './synthetic-catalog.ts';
import { makeWebArchive } from './web-archive.ts';
import { webRows } from './web-rows.ts';
import { measureWeb } from './web-speed.ts';
import { webhookLatencies } from './webhook-latency.ts';
import { Workplace } from './workplace.ts';

const program = fileURLToPath(new URL('../../dist/mailkeep.cjs', import.meta.url));

/** Belongs to the clone: figures of two machines say nothing about each other. */
const historyFile = fileURLToPath(new URL('../../.bench/history.jsonl', import.meta.url));

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

/** A part of the report: what was measured with, its rows, and all its figures by name. */
interface Part {
  readonly heading: string;
  readonly rows: readonly Row[];
  readonly figures: object;
}

async function bench(work: Workplace, options: BenchOptions): Promise<void> {
  const { heading, rows, figures } = await partOf(options)(work, options);
  process.stdout.write(`${heading}\n\n${formatTable(rows)}\n`);
  if (options.json !== undefined)
    writeFileSync(options.json, `${JSON.stringify(figures, null, 2)}\n`);
  if (options.keep) say(`Kept: ${work.folder}`);
}

function partOf(options: BenchOptions): (work: Workplace, options: BenchOptions) => Promise<Part> {
  if (options.archiveOnly) return archiveAlone;
  if (options.restoreOnly) return restores;
  if (options.imapOnly) return syncsOverImap;
  if (options.copyOnly) return copies;
  if (options.web) return web;
  return options.searchOnly ? searchesAlone : everything;
}

async function searchesAlone(work: Workplace, options: BenchOptions): Promise<Part> {
  const search = await searches(work, options);
  const heading = `${describeMachine()}\n${describeSlowest(search)}`;
  return { heading, rows: searchRows(search), figures: { search } };
}

async function everything(work: Workplace, options: BenchOptions): Promise<Part> {
  const search = await searches(work, options);
  const messages = messagesOf(work, options);
  const run = {
    ...(await measure(work, messages, options)),
    ...(await imap(work, messages, options)),
    ...(await webhook(work)),
    search,
    ...(await growth(work, options)),
  };
  const rows = rowsOf(run);
  remember(historyFile, remembered(rows, settingOf(options)));
  return { heading: describe(messages, run), rows, figures: run };
}

/** What makes this run comparable with others. */
function settingOf({ messages, seed }: BenchOptions): Omit<RememberedRun, 'ratios'> {
  const described = spawnSync('git', ['describe', '--always', '--dirty=+'], { encoding: 'utf8' });
  const mail = process.env.MAILKEEP_CORPUS === undefined ? 'generated' : 'real';
  const setting = `${formatCount(messages)} messages of ${mail} mail (seed ${seed}), ${cpus().length} cores, Node.js ${process.versions.node}`;
  return { at: new Date().toISOString(), commit: described.stdout.trim() || '-', setting };
}

function messagesOf(work: Workplace, { messages, seed }: BenchOptions): MessageSet {
  say(`Working in ${work.folder}; making ${formatCount(messages)} messages …`);
  return makeMessageSet(join(work.folder, 'maildir'), stockOf(seed)(messages), messages, seed);
}

async function web(work: Workplace, { messages, seed }: BenchOptions): Promise<Part> {
  say(`Making an archive of ${formatCount(messages)} messages …`);
  const data = await makeWebArchive(work, program, stockOf(seed), { messages, seed });
  say('Using it in a browser …');
  const speed = await measureWeb(work, program, data, messages);
  return { heading: `${describeMachine()}.`, rows: webRows(speed), figures: { web: speed } };
}

async function restores(work: Workplace, options: BenchOptions): Promise<Part> {
  const messages = messagesOf(work, options);
  say('Restoring them to Dovecot, and pushing them with mbsync …');
  const restore = await measureRestore(work, program, messages, options.runs);
  const heading = describeWith(messages, ['mbsync', 'dovecot']);
  return { heading, rows: restoreRows(restore), figures: { restore } };
}

async function syncsOverImap(work: Workplace, options: BenchOptions): Promise<Part> {
  const messages = messagesOf(work, options);
  say('Syncing them from Dovecot, in turns with mbsync …');
  const imap = await measureImap(work, program, messages, options.runs);
  const heading = describeWith(messages, ['mbsync', 'dovecot']);
  return { heading, rows: imapRows(imap), figures: { imap } };
}

async function copies(work: Workplace, options: BenchOptions): Promise<Part> {
  const messages = messagesOf(work, options);
  say('Copying them to RadosGW and back, and doing the same with restic …');
  const copy = await measureCopies(work, program, messages, options.runs);
  const heading = describeWith(messages, ['restic', 'radosgw']);
  return { heading, rows: copyRows(copy), figures: { copy } };
}

async function archiveAlone(work: Workplace, options: BenchOptions): Promise<Part> {
  const messages = messagesOf(work, options);
  say('Importing them …');
  const data = await importArchive(work, program, messages);
  say('Verifying, exporting and rebuilding …');
  const own = await measureArchive(work, program, data, options.runs);
  say('Verifying mail with large attachments …');
  const archive = { ...own, heavy: await measureHeavy(work, program, options.seed, options.runs) };
  const rows = [...archiveRows(archive), rebuildRow(archive)];
  return { heading: describeWith(messages, []), rows, figures: { archive } };
}

async function measure(
  work: Workplace,
  messages: MessageSet,
  { runs, seed }: BenchOptions,
): Promise<Omit<Measurements, 'search'>> {
  const { maildir, terms } = messages;
  const indexers = { mu: prepareMu(work, maildir), notmuch: prepareNotmuch(work, maildir) };
  const mbsync = new Entry<MirrorFigures>('mbsync', failed);
  const mu = new Entry<IndexerFigures>('mu', failed);
  const notmuch = new Entry<IndexerFigures>('notmuch', failed);
  const mailkeep = new Entry<MailkeepFigures>('mailkeep', failed);
  let ours: Mailkeep | undefined;
  await mbsync.open(() => openMbsync(work, messages));
  await mu.open(() => openIndexer('mu', indexers.mu, messages));
  await notmuch.open(() => openIndexer('notmuch', indexers.notmuch, messages));
  await mailkeep.open(async () => {
    const opened = await openMailkeep(work, program, messages);
    ours = opened.mailkeep;
    return opened;
  });
  const entries = [mbsync, mailkeep, mu, notmuch];
  const durableFiles: number[] = [];
  for (let round = 1; round <= runs; round++) {
    durableFiles.push(durableFilesPerSecond(work));
    for (const entry of entries) {
      say(`Round ${round} of ${runs}: ${entry.name} …`);
      await entry.round();
    }
  }
  say('Single figures …');
  const figures = {
    mbsync: await mbsync.figures(),
    mu: await mu.figures(),
    notmuch: await notmuch.figures(),
    mailkeep: await mailkeep.figures(),
  };
  const data = 'value' in figures.mailkeep ? ours?.data : undefined;
  const archive = data === undefined ? {} : await archiveSpeed(work, data, seed, runs);
  const searches: Record<string, Searches> = {};
  for (const name of ['mu', 'notmuch'] as const)
    if ('value' in figures[name])
      searches[name] = (term) => indexers[name].newest(queryText(terms, term));
  const newest = ours?.newest;
  if ('value' in figures.mailkeep && newest !== undefined)
    searches.mailkeep = (term) => newest(queryText(terms, term));
  const { node, programs } = coldLatencies(searches);
  for (const entry of entries) await entry.close();
  return {
    messages: messages.count,
    rawBytes: messages.rawBytes,
    maildirBytes: allottedBytes(maildir),
    folderCounts: messages.folderCounts,
    durableFiles,
    ...figures,
    ...archive,
    cold: { node, ...programs },
  };
}

async function archiveSpeed(
  work: Workplace,
  data: string,
  seed: number,
  runs: number,
): Promise<Pick<Measurements, 'archive'>> {
  say('Verification and exports …');
  try {
    const own = await measureArchive(work, program, data, runs);
    return { archive: { ...own, heavy: await measureHeavy(work, program, seed, runs) } };
  } catch (error) {
    failed('verification and exports', error);
    return {};
  }
}

async function imap(
  work: Workplace,
  messages: MessageSet,
  { runs }: BenchOptions,
): Promise<Pick<Measurements, 'imap'>> {
  say('Syncs over IMAP …');
  try {
    return { imap: await measureImap(work, program, messages, runs) };
  } catch (error) {
    failed('syncs over IMAP', error);
    return {};
  }
}

async function webhook(work: Workplace): Promise<Pick<Measurements, 'webhookMs'>> {
  say('Webhook to archive …');
  try {
    return { webhookMs: await webhookLatencies(work) };
  } catch (error) {
    failed('webhook to archive', error);
    return {};
  }
}

/** Each catalog is made, searched and removed before the next. */
async function searches(
  work: Workplace,
  { large, seed }: BenchOptions,
): Promise<readonly SearchSpeed[]> {
  const speeds: SearchSpeed[] = [];
  for (const messages of [50_000, ...(large ? [1_000_000] : [])]) {
    say(`Making a catalog of ${formatCount(messages)} messages to search …`);
    try {
      const dir = work.fresh('synthetic');
      await makeSyntheticCatalog(dir, messages, seed, () => {});
      speeds.push(measureSearches(dir, messages, seed));
    } catch (error) {
      failed(`searches of ${formatCount(messages)} messages`, error);
    } finally {
      work.fresh('synthetic');
    }
  }
  return speeds;
}

async function growth(
  work: Workplace,
  { full, seed }: BenchOptions,
): Promise<Pick<Measurements, 'memory'>> {
  if (!full) return {};
  say('Memory by number of messages …');
  try {
    return { memory: await memoryByCount(work, program, stockOf(seed), seed) };
  } catch (error) {
    failed('memory by number of messages', error);
    return {};
  }
}

/** Real mail where there is some, else generated mail: as many sources as there are messages to be made. */
function stockOf(seed: number): (count: number) => SourceStock {
  const corpus = process.env.MAILKEEP_CORPUS;
  if (corpus === undefined) return (count) => generatedStock(count, seed);
  const stock = corpusStock(corpus);
  return () => stock;
}

function failed(name: string, error: unknown): void {
  failures++;
  say(`${name} failed: ${error instanceof Error ? error.message : String(error)}`);
}

function describeMachine(): string {
  const [processor] = cpus();
  return `${cpus().length} cores (${processor?.model.trim() ?? 'unknown'}), ${formatMB(totalmem())} of memory, Node.js ${process.versions.node}`;
}

function describeSlowest(search: readonly SearchSpeed[]): string {
  return search
    .map(
      ({ messages, slowest }) =>
        `Slowest of ${formatCount(slowest.queries)} odd queries (seed ${slowest.seed}), each asked in four ways (${formatCount(slowest.refused)} refused), in ${formatCount(messages)} messages: ${slowest.query}`,
    )
    .join('\n');
}

function describeMessages(messages: MessageSet): string {
  return `${formatCount(messages.count)} messages from ${messages.origin}: ${formatMB(messages.rawBytes)}, mean ${formatCount(messages.rawBytes / messages.count)} B, median ${formatCount(messages.medianBytes)} B, largest ${formatMB(messages.largestBytes)}, ${(messages.attachmentShare * 100).toFixed(1)} % with attachments, ${messages.folderCounts.length} folders.`;
}

function describeWith(messages: MessageSet, peers: readonly Peer[]): string {
  const programs = [describeMachine(), ...peers.map(peerVersion)];
  return `${describeMessages(messages)}\n${programs.join('; ')}.`;
}

function describe(messages: MessageSet, { durableFiles, search }: Measurements): string {
  const peers = PEERS.map((peer) => peerVersion(peer) ?? `${peer} not installed`);
  return [
    describeMessages(messages),
    `${describeMachine()}; ${peers.join('; ')}.`,
    `The disk makes ${formatCount(median(durableFiles))} small files a second durable (${durableFiles.map(formatCount).join(', ')} in the rounds).`,
    `Searched for: "${messages.terms.common}" (common), "${messages.terms.rare}" (rare), "${messages.terms.phrase}" (phrase).`,
    ...(search.length === 0 ? [] : [describeSlowest(search)]),
  ].join('\n');
}

function say(text: string): void {
  process.stderr.write(`${text}\n`);
}

const options = parseOptions(process.argv.slice(2));
if (options === 'help') process.stdout.write(`${USAGE}\n`);
else if (options.history) process.stdout.write(`${formatHistory(recall(historyFile))}\n`);
else {
  if (!existsSync(program)) throw new Error('dist/ is not built');
  await main(options);
  process.exitCode = failures > 0 ? 1 : 0;
}
