import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib';
import { catalogError } from '../errors/catalog.ts';
import type { Connection } from './connection.ts';
import { query } from './query.ts';

/**
 * Texts of consecutively indexed messages are packed into blocks of about this many bytes before compression:
 * large enough to compress well, small enough to unpack in a tenth of a millisecond: twenty hits may need as many blocks.
 */
const BLOCK_BYTES = 32 * 1024;
/** Text kept for snippets: of one message, bytes of UTF-8. What lies beyond is searchable, but shown by no snippet. */
export const TEXT_BYTES_PER_MESSAGE = 16 * 1024;

/**
 * Brotli at level 5 packs mail text a tenth smaller than zlib at 6, and faster. The catalog is derived and read
 * by this program alone, so it need not be what every runtime reads in thirty years; the log is.
 */
const pack = (text: Buffer): Buffer =>
  brotliCompressSync(text, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: 5,
      [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
      [constants.BROTLI_PARAM_LGWIN]: 18,
      [constants.BROTLI_PARAM_SIZE_HINT]: text.length,
    },
  });

/** Far above any block: what is larger was not written by us. */
const MOST_BYTES = 4 * 1024 * 1024;

/** @throws `catalog-damaged` for what does not unpack: a rebuild makes it anew */
function unpack(connection: Connection, data: Buffer): Buffer {
  try {
    return brotliDecompressSync(data, { maxOutputLength: MOST_BYTES });
  } catch (error) {
    throw catalogError('catalog-damaged', { file: connection.file, reason: 'text-block' }, error);
  }
}

const LAST = query()((db) =>
  db
    .selectFrom('text_blocks')
    .select(['id', 'size', 'data'])
    .orderBy('id', 'desc')
    .limit((eb) => eb.lit(1)),
);
const GET = query<{ id: number }>()((db, p) =>
  db.selectFrom('text_blocks').select('data').where('id', '=', p.id),
);
const ADD = query<{ size: number; data: Buffer }>()((db, p) =>
  db.insertInto('text_blocks').values({ size: p.size, data: p.data }),
);
const SET = query<{ id: number; size: number; data: Buffer }>()((db, p) =>
  db.updateTable('text_blocks').set({ size: p.size, data: p.data }).where('id', '=', p.id),
);
const WHERE = query<{ docid: number }>()((db, p) =>
  db.selectFrom('texts').select(['block', 'offset', 'length']).where('docid', '=', p.docid),
);
const DROP = query<{ docid: number }>()((db, p) =>
  db.deleteFrom('texts').where('docid', '=', p.docid),
);

/** Where a message's text is; a null block means it has none. */
export interface TextPosition {
  readonly block: number | null;
  readonly offset: number;
  readonly length: number;
}

/**
 * Packs texts into blocks within one transaction. `place` is told where each text went once its block is
 * written, so call `finish` before the transaction ends.
 */
export class TextPacker {
  #parts: Buffer[] = [];
  #size = 0;
  #waiting: { place: (position: TextPosition) => void; offset: number; length: number }[] = [];
  /** The last block, when it still has room and is grown in place: small batches must not make small blocks. */
  #growing: number | undefined;

  constructor(private readonly connection: Connection) {
    const last = connection.statement(LAST).get({});
    if (last !== undefined && last.size < BLOCK_BYTES / 2) {
      this.#growing = last.id;
      this.#parts.push(unpack(connection, last.data));
      this.#size = last.size;
    }
  }

  add(text: string, place: (position: TextPosition) => void): void {
    const bytes = cut(Buffer.from(text, 'utf8'));
    if (bytes.length === 0) {
      place({ block: null, offset: 0, length: 0 });
      return;
    }
    this.#waiting.push({ place, offset: this.#size, length: bytes.length });
    this.#parts.push(bytes);
    this.#size += bytes.length;
    if (this.#size >= BLOCK_BYTES) this.finish();
  }

  finish(): void {
    if (this.#waiting.length > 0) {
      const data = pack(Buffer.concat(this.#parts));
      const size = this.#size;
      const block =
        this.#growing ?? this.connection.statement(ADD).run({ size, data }).lastInsertRowid;
      if (this.#growing !== undefined)
        this.connection.statement(SET).run({ id: block, size, data });
      for (const { place, offset, length } of this.#waiting) place({ block, offset, length });
    }
    this.#parts = [];
    this.#size = 0;
    this.#waiting = [];
    this.#growing = undefined;
  }
}

/** Reads cached texts, keeping the few blocks that neighbouring hits share. */
export class TextReader {
  readonly #blocks = new Map<number, Buffer>();

  constructor(private readonly connection: Connection) {}

  /** The text at a position: empty where nothing is cached. */
  read(position: TextPosition): string {
    if (position.block === null) return '';
    let raw = this.#blocks.get(position.block);
    if (raw === undefined) {
      const row = this.connection.statement(GET).get({ id: position.block });
      if (row === undefined) return '';
      raw = unpack(this.connection, row.data);
      if (this.#blocks.size >= 8) this.#blocks.clear();
      this.#blocks.set(position.block, raw);
    }
    return raw.toString('utf8', position.offset, position.offset + position.length);
  }

  /** The block has changed. */
  drop(block: number): void {
    this.#blocks.delete(block);
  }
}

/** Where the text of a message is; undefined before it is indexed. */
export function textPosition(connection: Connection, docid: number): TextPosition | undefined {
  return connection.statement(WHERE).get({ docid });
}

/** Overwrites the cached text of a message with zeros, so that what was forgotten cannot be inflated again. */
export function eraseText(connection: Connection, docid: number): void {
  const at = textPosition(connection, docid);
  if (at === undefined) return;
  connection.statement(DROP).run({ docid });
  if (at.block === null) return;
  const row = connection.statement(GET).get({ id: at.block });
  if (row === undefined) return;
  const raw = unpack(connection, row.data);
  raw.fill(0, at.offset, at.offset + at.length);
  connection.statement(SET).run({ id: at.block, size: raw.length, data: pack(raw) });
}

/** A text as it comes back from the cache: cut at the ceiling. */
export function cachedText(text: string): string {
  // No character takes less than one byte or more than three a code unit.
  if (text.length * 3 <= TEXT_BYTES_PER_MESSAGE) return text;
  return cut(Buffer.from(text, 'utf8')).toString('utf8');
}

/** Cuts UTF-8 at the ceiling, on a character boundary. */
function cut(bytes: Buffer): Buffer {
  if (bytes.length <= TEXT_BYTES_PER_MESSAGE) return bytes;
  let end = TEXT_BYTES_PER_MESSAGE;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.subarray(0, end);
}
