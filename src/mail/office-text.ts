import type { Entry, ZipFile } from 'yauzl';
import yauzl from 'yauzl';
import type { AttachmentLimits } from './attachment-text.ts';
import { type MarkupRules, MarkupText, type TextSink, Unreadable } from './document-text.ts';

interface ZipEntry {
  readonly name: string;
  readonly entry: Entry;
}

export interface OpenZip {
  readonly entries: readonly ZipEntry[];
  /** Yields an entry's unpacked bytes. All entries share one limit. */
  read(entry: ZipEntry): AsyncIterable<Buffer>;
}

/**
 * Opens a zip in memory. Ignores its declared sizes, and counts bytes while unpacking.
 *
 * @throws Unreadable `bomb`, `encrypted`, `malformed`
 */
async function openZip(
  bytes: Buffer,
  limits: Pick<AttachmentLimits, 'entries' | 'inflatedBytes'>,
): Promise<OpenZip> {
  const zip = await openZipFile(bytes);
  if (zip.entryCount > limits.entries) throw new Unreadable('bomb');
  const entries = await listEntries(zip, limits.entries);
  let inflated = 0;
  return {
    entries,
    async *read({ entry }) {
      if (entry.isEncrypted()) throw new Unreadable('encrypted');
      const stream = await openEntry(zip, entry);
      try {
        for await (const piece of stream) {
          if (!Buffer.isBuffer(piece)) continue;
          inflated += piece.length;
          if (inflated > limits.inflatedBytes) throw new Unreadable('bomb');
          yield piece;
        }
      } catch (error) {
        throw error instanceof Unreadable ? error : new Unreadable('malformed');
      } finally {
        stream.destroy();
      }
    },
  };
}

function openZipFile(bytes: Buffer): Promise<ZipFile> {
  return new Promise((resolve, reject) => {
    // Odd names are harmless: they are compared, but never used as paths.
    yauzl.fromBuffer(bytes, { lazyEntries: true, validateEntrySizes: true }, (error, zip) => {
      if (error === null) resolve(zip);
      else reject(new Unreadable('malformed'));
    });
  });
}

function listEntries(zip: ZipFile, max: number): Promise<ZipEntry[]> {
  return new Promise((resolve, reject) => {
    const entries: ZipEntry[] = [];
    zip.on('entry', (entry: Entry) => {
      entries.push({ name: entry.fileName, entry });
      if (entries.length > max) reject(new Unreadable('bomb'));
      else zip.readEntry();
    });
    zip.on('end', () => resolve(entries));
    zip.on('error', () => reject(new Unreadable('malformed')));
    zip.readEntry();
  });
}

function openEntry(
  zip: ZipFile,
  entry: Entry,
): Promise<NodeJS.ReadableStream & { destroy(): void }> {
  return new Promise((resolve, reject) => {
    zip.openReadStream(entry, (error, stream) => {
      if (error === null) resolve(stream);
      else reject(new Unreadable('malformed'));
    });
  });
}

interface PartKind {
  readonly name: RegExp;
  readonly rules: MarkupRules;
}

const names = (list: string): ReadonlySet<string> => new Set(list.split(' '));

const WORDS: MarkupRules = {
  text: names('t'),
  skip: names('rPh'),
  lineEnds: names('p si br cr comment'),
  signs: { noBreakHyphen: '-' },
  blanks: names('tab ptab'),
};
/** A sheet keeps most of its text in the shared strings. In a cell of type `s`, `v` is just a string index. */
const CELLS: MarkupRules = {
  text: names('t v'),
  skip: names('rPh f'),
  skipWhen: (name, attributes) => name === 'c' && /^[sbe]$/.test(attributes.t ?? ''),
  lineEnds: names('row'),
  blanks: names('c'),
};
const SHEET_NAMES: MarkupRules = {
  text: names(''),
  skip: names(''),
  lineEnds: names('sheet'),
  blanks: names(''),
  attribute: { element: 'sheet', name: 'name' },
};
const OPEN_DOCUMENT: MarkupRules = {
  within: 'body',
  text: names('p h'),
  skip: names('tracked-changes script'),
  lineEnds: names('p h line-break table-row'),
  blanks: names('tab s'),
};

const PARTS: readonly PartKind[] = [
  {
    name: /^word\/(?:document|footnotes|endnotes|comments|header|footer)\d*\.xml$/,
    rules: WORDS,
  },
  { name: /^xl\/workbook\.xml$/, rules: SHEET_NAMES },
  { name: /^xl\/sharedstrings\.xml$/, rules: WORDS },
  { name: /^xl\/worksheets\/[^/]+\.xml$/, rules: CELLS },
  { name: /^xl\/(?:comments[^/]*|comments\/[^/]+|drawings\/[^/]+)\.xml$/, rules: WORDS },
  { name: /^ppt\/slides\/[^/]+\.xml$/, rules: WORDS },
  { name: /^ppt\/(?:notesslides|comments)\/[^/]+\.xml$/, rules: WORDS },
  { name: /^content\.xml$/, rules: OPEN_DOCUMENT },
];

/** Sorts slide 10 after slide 9. */
const collator = new Intl.Collator('en', { numeric: true });

/**
 * Adds an office document's text: OOXML (DOCX, XLSX, PPTX) or ODF. Writes no files, opens no nested zips, and resolves
 * only XML's own entities.
 *
 * @throws Unreadable `bomb`, `encrypted`, `malformed`, `unsupported`
 */
export async function officeText(
  bytes: Buffer,
  into: TextSink,
  limits: Pick<AttachmentLimits, 'entries' | 'inflatedBytes'>,
): Promise<void> {
  const zip = await openZip(bytes, limits);
  const parts = zip.entries
    .flatMap((entry) => {
      // Office names are case-insensitive (ECMA-376 part 2, 6.2.2.3).
      const kind = PARTS.findIndex(({ name }) => name.test(entry.name.toLowerCase()));
      return kind < 0 ? [] : [{ entry, kind }];
    })
    .sort((a, b) => a.kind - b.kind || collator.compare(a.entry.name, b.entry.name));
  if (parts.length === 0) throw new Unreadable('unsupported');
  const manifest = zip.entries.find(({ name }) => name === 'META-INF/manifest.xml');
  if (manifest !== undefined && (await declaresEncryption(zip.read(manifest)))) {
    throw new Unreadable('encrypted');
  }
  for (const { entry, kind } of parts) {
    const rules = PARTS[kind]?.rules;
    if (rules === undefined) continue;
    const markup = new MarkupText(rules, into);
    for await (const piece of zip.read(entry)) {
      markup.write(piece);
      if (into.full) {
        into.cut();
        return;
      }
    }
    markup.end();
    into.add('\n\n');
  }
}

/** Reports whether an OpenDocument manifest declares encryption. Entry names are not encrypted. */
async function declaresEncryption(pieces: AsyncIterable<Buffer>): Promise<boolean> {
  let before = '';
  for await (const piece of pieces) {
    const text = before + piece.toString('latin1');
    if (text.includes('encryption-data')) return true;
    before = text.slice(-20);
  }
  return false;
}
