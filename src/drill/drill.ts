import { createHash } from 'node:crypto';
import { createReadStream, existsSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { LogReader } from '../archive/read/log-reader.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { ComparedCatalog } from '../catalog/implied.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { checkExport } from '../export/check.ts';
import { realExportFiles } from '../export/export-files.ts';
import { MANIFEST_NAME, type ManifestEntry } from '../export/manifest.ts';
import { runExport } from '../export/run-export.ts';
import { fileLines, manifestEvents } from '../export/target.ts';
import type { MessageId } from '../mail/words.ts';
import { HEAD_BYTES, ownFields, parserFields } from './header-fields.ts';
import { pickSample } from './pick-sample.ts';
import { createWorkFolder } from './work-folder.ts';

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
  readonly #options: DrillOptions;
  readonly #ids: ReadonlySet<MessageId>;
  /** Not met in any export so far. */
  readonly #unmet: Set<MessageId>;
  readonly #findings: DrillFinding[] = [];
  readonly #compared = new Set<MessageId>();
  #files = 0;
  #bytes = 0;

  constructor(options: DrillOptions, ids: ReadonlySet<MessageId>) {
    this.#options = options;
    this.#ids = ids;
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
    const { catalog, sources, signal } = this.#options;
    const docids = [...this.#ids].flatMap((id) => catalog.messages.docidOf(id) ?? []);
    const { failures } = await runExport({
      to,
      format: 'eml',
      // The sample stands for what a query would find.
      selection: {
        query: { text: 'drill', node: { kind: 'all', span: { start: 0, end: 0 } } },
        mailbox: null,
        folder: null,
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
    const told = (kind: 'bytes' | 'headers' | 'lost') =>
      this.#findings.push({ kind, id, path: entry.path });
    if (stored === undefined) return void told('lost');
    const same = stored.hash === exported.hash && stored.hash === id && exported.size === size;
    if (!same) return void told('bytes');
    const ours = ownFields(stored.head);
    if (ours === undefined) return;
    const theirs = await parserFields(exported.head);
    this.#compared.add(id);
    if (JSON.stringify(ours) !== JSON.stringify(theirs)) told('headers');
  }

  async #stored(id: MessageId): Promise<ReadBack | undefined> {
    try {
      return await read(this.#options.sources.streamMessage(id));
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
