import { createHash, hash } from 'node:crypto';
import { createReadStream, existsSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { MailParser } from 'mailparser';
import type { LogReader } from '../archive/read/log-reader.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { ComparedCatalog, StoredMessage, StoredSegment } from '../catalog/implied.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { checkExport } from '../export/check.ts';
import { realExportFiles } from '../export/export-files.ts';
import { MANIFEST_NAME, type ManifestEntry } from '../export/manifest.ts';
import { runExport } from '../export/run-export.ts';
import { fileLines, manifestEvents } from '../export/target.ts';
import type { MessageId } from '../mail/words.ts';
import { readHeaderBlock } from '../mime/header-block.ts';
import { createWorkFolder } from './work-folder.ts';

/** Bytes of a message that are read for its header. */
export const HEAD_BYTES = 1024 * 1024;

/** Fields of a header in order, `name: value`, white space made one space. */
export type Fields = readonly string[];

/**
 * The fields of a header as this project reads them; undefined where the header has lines that are no fields, or no
 * empty line ends it within `HEAD_BYTES`: no two readers take those alike, and so a difference would say nothing.
 */
export function ownFields(head: Buffer): Fields | undefined {
  const { fields, end, cut } = readHeaderBlock(head, HEAD_BYTES);
  if (cut || !isWellFormed(head.toString('latin1', 0, end))) return undefined;
  return fields.map(({ name, value }) => field(name, value));
}

/** The same by mailparser, which reads MIME for many other programs. */
export async function parserFields(head: Buffer): Promise<Fields> {
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

/** Some of the stored messages, each as likely as any other; all of them where there are not more than wanted. */
export function pickSample(
  segments: readonly StoredSegment[],
  messagesIn: (segment: number, from: number) => readonly StoredMessage[],
  wanted: number,
  random: () => number,
): MessageId[] {
  const of = segments.reduce((sum, { messages }) => sum + messages, 0);
  const ranks = pickRanks(Math.min(wanted, of), of, random);
  const picked: MessageId[] = [];
  let before = 0;
  for (const { segment, messages } of segments) {
    const here = ranks.filter((rank) => rank >= before && rank < before + messages);
    if (here.length > 0) {
      const stored = messagesIn(segment, 0);
      picked.push(...here.flatMap((rank) => stored[rank - before]?.id ?? []));
    }
    before += messages;
  }
  return picked;
}

/** Distinct numbers below `of`, sorted (Floyd's way: as many draws as numbers). */
function pickRanks(wanted: number, of: number, random: () => number): number[] {
  const picked = new Set<number>();
  for (let last = of - wanted; last < of; last += 1) {
    const drawn = Math.floor(random() * (last + 1));
    picked.add(picked.has(drawn) ? last : drawn);
  }
  return [...picked].sort((a, b) => a - b);
}

/** Numbers from 0 up to 1 that depend on the seed alone, so that a drill can be run again with the same messages. */
export function seededRandom(seed: number): () => number {
  let drawn = 0;
  return () => {
    drawn += 1;
    return hash('sha256', `mailkeep drill ${seed} ${drawn}`, 'buffer').readUIntBE(0, 6) / 2 ** 48;
  };
}

/**
 * A message that did not come back as it is in the archive.
 * - `lost`: its bytes could not be exported; `unlisted`: no place has it, so no export would
 * - `bytes`, `headers`: what was exported, read back, has others
 * - `manifest`: the export does not agree with its own manifest
 */
export interface DrillFinding {
  readonly kind: 'lost' | 'unlisted' | 'bytes' | 'headers' | 'manifest';
  /** Null for `manifest`. */
  readonly id: MessageId | null;
  /** In the export; null where there is none. */
  readonly path: string | null;
}

export interface Drilled {
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** Messages that were drawn, and how many there are. */
  readonly messages: number;
  readonly of: number;
  /** Files that were exported and read back (a message has one for each of its places), and their bytes. */
  readonly files: number;
  readonly bytes: number;
  /** Messages whose header two parsers were compared on; others have lines in it that are no fields. */
  readonly headers: number;
  readonly findings: readonly DrillFinding[];
}

export interface DrillOptions {
  readonly dir: string;
  readonly catalog: Catalog;
  readonly stored: Pick<ComparedCatalog, 'segments' | 'messagesIn'>;
  readonly sources: LogReader;
  /** How many messages. */
  readonly wanted: number;
  /** From 0 up to 1; with the same numbers and the same archive, the same messages. */
  readonly random: () => number;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  readonly signal: AbortSignal;
}

/**
 * Does what one does on the worst day: exports a random sample into a folder of its own, reads it back with another
 * parser, and compares bytes and headers with those in the log. Nothing of it stays.
 *
 * @throws AbortError; export-disk-full and the other errors of writing. Damage is never thrown.
 */
export async function drill(options: DrillOptions): Promise<Drilled> {
  const { dir, stored, wanted, random, signal } = options;
  const at = options.now();
  const segments = stored.segments();
  const ids = pickSample(segments, (...from) => stored.messagesIn(...from), wanted, random);
  const folder = createWorkFolder(dir, tmpdir());
  try {
    const run = new Drill(options, new Set(ids));
    // What is at the service, and what is not any more: exports never mix them.
    await run.exportTo(path.join(folder, 'present'), false);
    await run.exportTo(path.join(folder, 'ended'), true);
    signal.throwIfAborted();
    const of = segments.reduce((sum, { messages }) => sum + messages, 0);
    return { at, messages: ids.length, of, ...run.result() };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

class Drill {
  /** Not met in any export so far. */
  readonly #unmet: Set<MessageId>;
  readonly #findings: DrillFinding[] = [];
  readonly #compared = new Set<MessageId>();
  #files = 0;
  #bytes = 0;

  constructor(
    private readonly options: DrillOptions,
    private readonly ids: ReadonlySet<MessageId>,
  ) {
    this.#unmet = new Set(ids);
  }

  result(): Pick<Drilled, 'files' | 'bytes' | 'headers' | 'findings'> {
    const unlisted = [...this.#unmet].map((id) => ({ kind: 'unlisted', id, path: null }) as const);
    return {
      files: this.#files,
      bytes: this.#bytes,
      headers: this.#compared.size,
      findings: [...this.#findings, ...unlisted],
    };
  }

  async exportTo(to: string, deleted: boolean): Promise<void> {
    const { catalog, sources, signal } = this.options;
    const docids = [...this.ids].flatMap((id) => catalog.messages.docidOf(id) ?? []);
    const { failures } = await runExport({
      to,
      format: 'eml',
      // The sample stands for what a query would find.
      selection: {
        query: { text: 'drill', node: { kind: 'all', span: { start: 0, end: 0 } } },
        deleted,
        asOf: null,
      },
      incremental: false,
      sidecar: false,
      statusHeaders: false,
      catalog: { ...catalog, foundDocids: () => docids.values() },
      sources,
      signal,
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
    const [stored, exported] = [await this.#stored(id), await read(createReadStream(file))];
    this.#files += 1;
    this.#bytes += exported.size;
    const report = (kind: 'bytes' | 'headers' | 'lost') =>
      this.#findings.push({ kind, id, path: entry.path });
    if (stored === undefined) return void report('lost');
    const same = stored.hash === exported.hash && stored.hash === id && exported.size === size;
    if (!same) return void report('bytes');
    const ours = ownFields(stored.head);
    if (ours === undefined) return;
    const theirs = await parserFields(exported.head);
    this.#compared.add(id);
    if (JSON.stringify(ours) !== JSON.stringify(theirs)) report('headers');
  }

  async #stored(id: MessageId): Promise<ReadBack | undefined> {
    try {
      return await read(this.options.sources.streamMessage(id));
    } catch (error) {
      if (error instanceof MailkeepError) return undefined;
      throw error;
    }
  }
}

interface ReadBack {
  readonly hash: string;
  readonly size: number;
  /** Its first bytes. */
  readonly head: Buffer;
}

async function read(pieces: AsyncIterable<Buffer>): Promise<ReadBack> {
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
