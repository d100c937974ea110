import { createHash, type Hash } from 'node:crypto';
import path from 'node:path';
import { exportChanged } from '../errors/export.ts';
import { LineQuotes } from '../mailfiles/mbox.ts';
import { type ExportFolder, type NewFile, writing } from './export-files.ts';
import type { FormatWriter } from './export-options.ts';
import { filePieces } from './hash-file.ts';
import type { InMbox, ManifestEntry } from './manifest.ts';
import type { NamedMessage } from './names.ts';
import type { ExportPlan, PlannedPlace } from './plan.ts';
import type { Source } from './source.ts';

const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'];
const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

/** The "From " line of a message: its sender where that is one plain word, and its received time in UTC, as asctime writes it. */
export function fromLine({ from, date }: Pick<NamedMessage, 'from' | 'date'>): string {
  const address = from?.address ?? '';
  const plain = address.includes('@', 1) && !address.endsWith('@') && /^[!-~]+$/.test(address);
  const sender = plain ? address : 'MAILER-DAEMON';
  const at = new Date(date ?? 0);
  const two = (value: number, fill = '0'): string => String(value).padStart(2, fill);
  const day = `${DAYS[at.getUTCDay()]} ${MONTHS[at.getUTCMonth()]} ${two(at.getUTCDate(), ' ')}`;
  const time = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
  return `From ${sender} ${day} ${time} ${String(at.getUTCFullYear()).padStart(4, '0')}\n`;
}

/** Letters of Status and X-Status, as mutt, Dovecot and Thunderbird's importers read them. */
const STATUS = [['\\seen', 'R']] as const;
const X_STATUS = [
  ['\\answered', 'A'],
  ['\\flagged', 'F'],
  ['\\draft', 'T'],
  ['\\deleted', 'D'],
] as const;

/** Returns the header lines for a message's flags; keywords that are not a single word are left out. */
export function statusHeaders(flags: readonly string[], lineEnd: string): string {
  const set = new Set(flags.map((flag) => flag.toLowerCase()));
  const letters = (table: readonly (readonly [string, string])[]): string =>
    table.map(([flag, letter]) => (set.has(flag) ? letter : '')).join('');
  const keywords = flags.filter((flag) => /^[!-[\]-~]+$/.test(flag));
  // O: it is no longer new.
  const lines = [`Status: ${letters(STATUS)}O`];
  if (letters(X_STATUS) !== '') lines.push(`X-Status: ${letters(X_STATUS)}`);
  if (keywords.length > 0) lines.push(`X-Keywords: ${keywords.join(' ')}`);
  return lines.map((line) => line + lineEnd).join('');
}

/** The pieces of a source with every "From " line quoted, and a line end at the end where there is none. */
export async function* quotedPieces(
  pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
): AsyncGenerator<Buffer, { readonly lineEndAdded: boolean }, undefined> {
  const quotes = new LineQuotes(1);
  let last: number | undefined;
  const noted = (piece: Buffer): Buffer => {
    if (piece.length > 0) last = piece[piece.length - 1];
    return piece;
  };
  for await (const piece of pieces) for (const settled of quotes.take(piece)) yield noted(settled);
  for (const rest of quotes.end()) yield noted(rest);
  // An empty source needs none: it ends where it begins.
  const lineEndAdded = last !== undefined && last !== 0x0a;
  if (lineEndAdded) yield Buffer.from('\n');
  return { lineEndAdded };
}

interface MboxWriterDeps {
  readonly folder: ExportFolder;
  readonly plan: ExportPlan;
  /** True to write Status, X-Status and X-Keywords before each source: it is not bit-exact then. */
  readonly statusHeaders: boolean;
  /** True when new messages are appended to those of the earlier export, false when mboxes are rewritten. */
  readonly incremental: boolean;
  readonly resumed: boolean;
}

interface OpenMbox {
  readonly relative: string;
  readonly file: NewFile;
  readonly hash: Hash;
}

/** One mbox a folder, in the mboxrd form. An mbox appears under its name only when it is whole. */
export class MboxWriter implements FormatWriter {
  readonly width = 1;
  readonly provenFirst = true;
  #open: OpenMbox | undefined;

  constructor(private readonly deps: MboxWriterDeps) {}

  async put(rank: number, place: PlannedPlace, open: () => Promise<Source>) {
    const source = await open();
    const mbox = await this.#mbox(place.path);
    const { plan } = this.deps;
    const inMbox = await writing(this.deps.folder.absolute(place.path), () =>
      this.#append(mbox, place, source),
    );
    plan.done(rank, place, inMbox);
    return 'written' as const;
  }

  /** The bytes of earlier messages stay where they are in an mbox that grows; a rewritten one has none of them. */
  async keep(rank: number, entry: ManifestEntry): Promise<void> {
    const { plan, incremental } = this.deps;
    if (!plan.hasDue(entry.path) && this.#open?.relative !== entry.path) return;
    if (!incremental) plan.failed(rank);
  }

  async finish(): Promise<void> {
    await this.#close();
    await this.deps.folder.sync();
  }

  async discard(): Promise<void> {
    const mbox = this.#open;
    this.#open = undefined;
    await mbox?.file.discard();
    await this.deps.folder.sync();
  }

  async #mbox(relative: string): Promise<OpenMbox> {
    if (this.#open?.relative === relative) return this.#open;
    await this.#close();
    const { folder, resumed } = this.deps;
    const parent = relative.split('/').slice(0, -1).join('/');
    return await writing(folder.absolute(relative), async () => {
      folder.makeFolder(parent);
      if (resumed) await folder.sweep(parent);
      const mbox = { relative, file: await folder.begin(relative), hash: createHash('sha256') };
      this.#open = mbox;
      await this.#copyEarlier(mbox);
      return mbox;
    });
  }

  /** The mbox of the earlier export, as long as its manifest says: what a killed run added is written again. */
  async #copyEarlier(mbox: OpenMbox): Promise<void> {
    const { folder, plan, incremental } = this.deps;
    const earlier = incremental ? plan.file(mbox.relative) : undefined;
    if (earlier === undefined) return;
    const whole = folder.absolute(mbox.relative);
    const range = { end: earlier.size };
    for (const piece of filePieces(folder.files, whole, range)) {
      await this.#write(mbox, Buffer.from(piece));
    }
    const same = mbox.hash.copy().digest('hex') === earlier.sha256;
    if (!same) throw exportChanged(whole);
  }

  async #append(mbox: OpenMbox, { line }: PlannedPlace, source: Source): Promise<InMbox> {
    await this.#write(mbox, Buffer.from(fromLine(line)));
    const offset = mbox.file.size;
    const pieces = source.pieces();
    let added = 0;
    if (this.deps.statusHeaders) {
      const lineEnd = await lineEndOf(source);
      const headers = Buffer.from(statusHeaders(line.flags, lineEnd));
      added = headers.length;
      await this.#write(mbox, headers);
    }
    const quoted = quotedPieces(pieces);
    let next = await quoted.next();
    for (; next.done !== true; next = await quoted.next()) await this.#write(mbox, next.value);
    const length = mbox.file.size - offset;
    await this.#write(mbox, Buffer.from('\n'));
    return { offset, length, added, lineEndAdded: next.value.lineEndAdded };
  }

  async #write({ file, hash }: OpenMbox, bytes: Buffer): Promise<void> {
    hash.update(bytes);
    await file.write(bytes);
  }

  async #close(): Promise<void> {
    const mbox = this.#open;
    if (mbox === undefined) return;
    const { folder, plan } = this.deps;
    const { relative, file, hash } = mbox;
    const final = folder.absolute(relative);
    await writing(final, () => file.finish(path.normalize(final)));
    this.#open = undefined;
    plan.addFile({ path: relative, sha256: hash.digest('hex'), size: file.size });
  }
}

/** The line end of a source, which lines put before it should have too. */
async function lineEndOf(source: Source): Promise<string> {
  for await (const piece of source.pieces()) {
    const lf = piece.indexOf(0x0a);
    return lf > 0 && piece[lf - 1] === 0x0d ? '\r\n' : '\n';
  }
  return '\n';
}
