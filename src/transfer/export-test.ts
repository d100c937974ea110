import { createHash, hash } from 'node:crypto';
import { createReadStream, existsSync, lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { MailParser } from 'mailparser';
import { FOLDER_MODE } from '../archive/format.ts';
import { isRunning, processStart } from '../archive/lock.ts';
import type { LogReader } from '../archive/log-reader.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { ComparedCatalog, StoredMessage, StoredSegment } from '../catalog/implied.ts';
import { errnoOf, MailkeepError } from '../core/errors.ts';
import { makeFolders } from '../core/files.ts';
import type { MessageId } from '../core/types.ts';
import { readHeaderBlock } from '../mail/headers.ts';
import { checkExport } from './check-export.ts';
import { realExportFiles } from './export-files.ts';
import { MANIFEST_NAME } from './export-manifest.ts';
import { fileLines, manifestEvents } from './export-target.ts';
import type { ManifestEntry } from './manifest-shapes.ts';
import { runExport } from './run-export.ts';

/** Errors that mean a read-only archive. The test then uses the temporary folder instead. */
const READ_ONLY = new Set(['EROFS', 'EACCES', 'EPERM']);

const PREFIX = 'mailkeep-';

/** A process's pid and start mark, because pids are reused (in containers, on every run). */
const OWNER = /^drill-(\d+)-(?:([0-9a-f]{8})-)?/;

/**
 * Creates a folder that only its owner can read. It goes in the archive or, if that is read-only, in the temporary
 * folder. Removes folders left in both by killed tests, because they contain unencrypted mail.
 *
 * @param temporary the system's temporary folder
 * @throws system errors from writing
 */
export function createWorkFolder(dir: string, temporary: string): string {
  sweepTemporary(temporary);
  const name = `drill-${process.pid}-${startMark(process.pid)}-`;
  try {
    const parent = path.join(dir, 'tmp');
    makeFolders(parent, FOLDER_MODE);
    sweep(parent, '');
    return mkdtempSync(path.join(parent, name));
  } catch (error) {
    if (!READ_ONLY.has(errnoOf(error) ?? '')) throw error;
    return mkdtempSync(path.join(temporary, `${PREFIX}${name}`));
  }
}

/** Ignores an unreadable folder. If the problem is real, creating the work folder reports it. */
function sweepTemporary(temporary: string): void {
  try {
    sweep(temporary, PREFIX);
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
  }
}

function sweep(parent: string, prefix: string): void {
  for (const name of readdirSync(parent)) {
    if (!name.startsWith(prefix)) continue;
    const [, pid, mark] = OWNER.exec(name.slice(prefix.length)) ?? [];
    if (pid === undefined || isUnderWay(Number(pid), mark)) continue;
    const folder = path.join(parent, name);
    if (prefix === '' || isOwnFolder(folder)) rmSync(folder, { recursive: true, force: true });
  }
}

function isUnderWay(pid: number, mark: string | undefined): boolean {
  if (!isRunning(pid)) return false;
  return mark === undefined || mark === startMark(pid);
}

/** Anyone can create entries in a temporary folder. */
function isOwnFolder(folder: string): boolean {
  const stats = lstatSync(folder, { throwIfNoEntry: false });
  if (stats === undefined || !stats.isDirectory()) return false;
  const user = process.getuid?.();
  return user === undefined || stats.uid === user;
}

/** Returns 8 hex digits derived from a process's start time, or a constant if the system does not report it. */
function startMark(pid: number): string {
  return hash('sha256', processStart(pid) ?? '').slice(0, 8);
}

const HEAD_BYTES = 1024 * 1024;

/** Header fields in the form `name: value`, with white space collapsed. */
type Fields = readonly string[];

/**
 * Reads header fields with our parser. Returns undefined for a header with malformed lines or longer than `HEAD_BYTES`:
 * parsers differ on such headers, so comparing them would prove nothing.
 */
export function readFieldsWithOwnParser(head: Buffer): Fields | undefined {
  const { fields, end, cut } = readHeaderBlock(head, HEAD_BYTES);
  if (cut || !isWellFormed(head.toString('latin1', 0, end))) return undefined;
  return fields.map(({ name, value }) => field(name, value));
}

export async function readFieldsWithMailparser(head: Buffer): Promise<Fields> {
  const lines = await new Promise<readonly { readonly line: string }[]>((resolve, reject) => {
    const parser = new MailParser();
    let found: readonly { readonly line: string }[] = [];
    parser.on('headerLines', (headerLines) => {
      found = headerLines;
    });
    parser.on('data', (data) => {
      if (data.type !== 'attachment') return;
      data.content.resume();
      data.release();
    });
    parser.once('error', reject);
    parser.once('end', () => resolve(found));
    parser.end(head);
  });
  return lines.map(({ line }) => {
    const colon = line.indexOf(':');
    return field(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1));
  });
}

function isWellFormed(block: string): boolean {
  return /^(?:>?From .*\r?\n)?(?:[!-9;-~]+:.*\r?\n(?:[ \t].*\r?\n)*)+\r?\n$/.test(block);
}

function field(name: string, value: string): string {
  return `${name}: ${value.replace(/\s+/g, ' ').trim()}`;
}

/** Picks a uniform random sample of the stored messages. Picks all of them if there are no more than `count`. */
export function pickSample(
  segments: readonly StoredSegment[],
  messagesIn: (segment: number, from: number) => readonly StoredMessage[],
  count: number,
  random: () => number,
): MessageId[] {
  const total = segments.reduce((sum, { messages }) => sum + messages, 0);
  const ranks = pickRanks(Math.min(count, total), total, random);
  const sample: MessageId[] = [];
  let before = 0;
  for (const { segment, messages } of segments) {
    const matches = ranks.filter((rank) => rank >= before && rank < before + messages);
    if (matches.length > 0) {
      const stored = messagesIn(segment, 0);
      sample.push(...matches.flatMap((rank) => stored[rank - before]?.id ?? []));
    }
    before += messages;
  }
  return sample;
}

/** Picks distinct sorted numbers below `total` (Floyd's algorithm, with one random number each). */
function pickRanks(count: number, total: number, random: () => number): number[] {
  const ranks = new Set<number>();
  for (let last = total - count; last < total; last += 1) {
    const rank = Math.floor(random() * (last + 1));
    ranks.add(ranks.has(rank) ? last : rank);
  }
  return [...ranks].sort((a, b) => a - b);
}

/** Generates numbers in [0, 1) from a seed, so that a test can be repeated with the same messages. */
export function seededRandom(seed: number): () => number {
  let count = 0;
  return () => {
    count += 1;
    return hash('sha256', `mailkeep drill ${seed} ${count}`, 'buffer').readUIntBE(0, 6) / 2 ** 48;
  };
}

/**
 * A message that the export did not reproduce. `lost`: its bytes could not be exported. `unlisted`: it has no place, so
 * no export would include it. `bytes`, `headers`: they differ when read back. `manifest`: the export does not match its
 * manifest.
 */
export interface ExportTestFinding {
  readonly kind: 'lost' | 'unlisted' | 'bytes' | 'headers' | 'manifest';
  readonly id: MessageId | null;
  /** Path in the export; null if the message was not exported. */
  readonly path: string | null;
}

export type ExportTestResult = Awaited<ReturnType<typeof testExport>>;

export interface ExportTestOptions {
  readonly dir: string;
  readonly catalog: Catalog;
  readonly stored: Pick<ComparedCatalog, 'segments' | 'messagesIn'>;
  readonly sources: LogReader;
  readonly wanted: number;
  /** Returns a number in [0, 1). The same numbers and archive select the same messages. */
  readonly random: () => number;
  readonly now: () => number;
  readonly signal: AbortSignal;
}

/**
 * Tests whether the archive can be exported. Exports a random sample to a work folder, reads it back with another
 * parser, and compares bytes and headers with the log. Removes the work folder.
 *
 * @returns `at`: start time, milliseconds since the epoch; `messages` and `of`: sizes of the sample and the archive
 * @throws AbortError; export-disk-full and other write errors. Damage is never thrown.
 */
export async function testExport(options: ExportTestOptions) {
  const { dir, stored, wanted, random, signal } = options;
  const at = options.now();
  const segments = stored.segments();
  const ids = pickSample(segments, (...from) => stored.messagesIn(...from), wanted, random);
  const folder = createWorkFolder(dir, tmpdir());
  try {
    const run = new Drill(options, new Set(ids));
    // An export contains either current or deleted messages, so test both.
    await run.exportTo(path.join(folder, 'present'), false);
    await run.exportTo(path.join(folder, 'ended'), true);
    signal.throwIfAborted();
    const total = segments.reduce((sum, { messages }) => sum + messages, 0);
    return { at, messages: ids.length, of: total, ...run.result() };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

class Drill {
  readonly #unmet: Set<MessageId>;
  readonly #findings: ExportTestFinding[] = [];
  readonly #compared = new Set<MessageId>();
  #files = 0;
  #bytes = 0;

  constructor(
    private readonly options: ExportTestOptions,
    private readonly ids: ReadonlySet<MessageId>,
  ) {
    this.#unmet = new Set(ids);
  }

  result() {
    const unlisted = [...this.#unmet].map((id) => ({ kind: 'unlisted', id, path: null }) as const);
    return {
      /** Number of files exported and read back, one for each place of a message, and their total size. */
      files: this.#files,
      bytes: this.#bytes,
      /** Messages whose headers were read by both parsers. Other headers have malformed lines. */
      headers: this.#compared.size,
      findings: [...this.#findings, ...unlisted],
    };
  }

  async exportTo(to: string, deleted: boolean): Promise<void> {
    const { catalog, sources, signal } = this.options;
    const docids = [...this.ids].flatMap((id) => catalog.messages.docidOf(id) ?? []);
    const { failures } = await runExport({
      ...{ to, format: 'eml', incremental: false, sidecar: false, statusHeaders: false },
      selection: { query: null, docids, deleted, asOf: null },
      ...{ catalog, sources, signal },
    });
    for (const { id } of failures) {
      if (id === null || !this.#unmet.delete(id)) continue;
      this.#findings.push({ kind: 'lost', id, path: null });
    }
    if (!existsSync(path.join(to, MANIFEST_NAME))) return;
    const check = await checkExport({ at: to, signal });
    if (!check.sound) this.#findings.push({ kind: 'manifest', id: null, path: to });
    const manifest = path.join(to, MANIFEST_NAME);
    for await (const event of manifestEvents(manifest, fileLines(realExportFiles, manifest))) {
      signal.throwIfAborted();
      if (event.what === 'entry') await this.#compare(to, event.entry);
    }
  }

  async #compare(to: string, entry: ManifestEntry): Promise<void> {
    const { sha256: id, size } = entry;
    const file = path.join(to, ...entry.path.split('/'));
    this.#unmet.delete(id);
    const [stored, exported] = [await this.#readStored(id), await read(createReadStream(file))];
    this.#files += 1;
    this.#bytes += exported.size;
    const report = (kind: 'bytes' | 'headers' | 'lost') =>
      this.#findings.push({ kind, id, path: entry.path });
    if (stored === undefined) return void report('lost');
    const isSame = stored.hash === exported.hash && stored.hash === id && exported.size === size;
    if (!isSame) return void report('bytes');
    const ours = readFieldsWithOwnParser(stored.head);
    if (ours === undefined) return;
    const theirs = await readFieldsWithMailparser(exported.head);
    this.#compared.add(id);
    if (JSON.stringify(ours) !== JSON.stringify(theirs)) report('headers');
  }

  async #readStored(id: MessageId) {
    try {
      return await read(this.options.sources.streamMessage(id));
    } catch (error) {
      if (error instanceof MailkeepError) return undefined;
      throw error;
    }
  }
}

async function read(pieces: AsyncIterable<Buffer>) {
  const hash = createHash('sha256');
  const head: Buffer[] = [];
  let size = 0;
  for await (const piece of pieces) {
    hash.update(piece);
    if (size < HEAD_BYTES) head.push(Buffer.from(piece.subarray(0, HEAD_BYTES - size)));
    size += piece.length;
  }
  return { hash: hash.digest('hex'), size, head: Buffer.concat(head) };
}
