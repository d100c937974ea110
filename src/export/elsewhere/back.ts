import { Hono } from 'hono';
import { z } from 'zod';
import { parseJson } from '../../archive/format.ts';
import type { UnknownName } from '../../catalog/resolve-query.ts';
import { serializeError } from '../../core/errors.ts';
import { scratchDatabase } from '../../core/sqlite.ts';
import type { MessageId } from '../../core/types.ts';
import { archiveOrigin } from '../../transfer/export-manifest.ts';
import { linesOf } from '../../transfer/export-target.ts';
import type { ExportArchive, ExportSelection } from '../../transfer/plan-export.ts';
import { openSource, type SourceReader } from '../../transfer/plan-export.ts';
import { batchItem } from './batches.ts';
import { bodyOf, buffersOf } from './bodies.ts';
import {
  askedShape,
  SELECTION_PATH,
  type SelectionLine,
  SOURCES_PATH,
  sourcesShape,
  type TypedSelection,
} from './wire.ts';

/** An archive that answers. */
export interface BackArchive extends Pick<ExportArchive, 'catalog' | 'sources'> {
  /**
   * Understands a selection.
   *
   * @param ids lines with ids of messages, where these are named
   */
  readonly choose: (
    typed: TypedSelection,
    ids: readonly string[] | undefined,
  ) => Promise<{ readonly selection: ExportSelection; readonly unknown: readonly UnknownName[] }>;
}

const askedBytes = z.object({
  size: z.coerce.number().int().min(0),
  from: z.coerce.number().int().min(0),
});

/**
 * Returns what answers for an archive to the node that writes an export of it: see `SELECTION_PATH`. What goes wrong is an
 * answer as well.
 *
 * @param archive opens the archive, if it is not open yet
 * @returns answers a request; `breakOff` breaks off its answer, so that it is not taken for a whole one
 */
export function exportBack(
  archive: () => BackArchive,
): (request: Request, breakOff: () => void) => Promise<Response> {
  const app = new Hono<{ Bindings: { breakOff: () => void } }>();
  app.onError((error, context) => {
    const isAsked = !(error instanceof z.ZodError);
    const told = isAsked ? error : new Error('a request that is not understood');
    return context.json({ thrown: serializeError(told) }, isAsked ? 500 : 400);
  });

  app.post(SELECTION_PATH, async (context) => {
    // All of the request first: whoever sends it hears no error before.
    const lines: string[] = [];
    for await (const line of linesOf(buffersOf(context.req.raw.body))) lines.push(line);
    const [first = '', ...ids] = lines;
    const { typed, named } = askedShape.parse(parseJson(first));
    const { catalog, sources, choose } = archive();
    const { selection, unknown } = await choose(typed, named ? ids : undefined);
    const spool = new LineSpool();
    try {
      const origin = archiveOrigin({ catalog, sources, selection });
      const head = await origin.select({
        folders(met) {
          for (const folder of met) spool.add({ folder });
        },
        place: (place) => spool.add({ place }),
      });
      const answer: SelectionLine = { head, unknown: [...unknown] };
      return new Response(bodyOf(spool.pieces(answer), context.env.breakOff));
    } catch (error) {
      spool.close();
      throw error;
    }
  });

  app.post(SOURCES_PATH, async (context) => {
    const { sources } = archive();
    const items: Buffer[] = [];
    for (const { id, size } of sourcesShape.parse(await context.req.json()))
      items.push(batchItem(await wholeOrNothing(sources, id, size)));
    return new Response(bodyOf(piecesOf(items), context.env.breakOff));
  });

  app.get('/messages/:id', async (context) => {
    const { size, from } = askedBytes.parse(context.req.query());
    const source = await openSource(archive().sources, context.req.param('id'), size, true);
    const rest = bytesFrom(source.pieces(), from);
    return new Response(bodyOf(rest, context.env.breakOff));
  });

  app.get('/messages/:id/history', (context) =>
    context.json(archive().catalog.history(context.req.param('id'))),
  );

  return async (request, breakOff) => app.fetch(request, { breakOff });
}

/** What is wrong with a source is told to whoever asks for it alone. */
async function wholeOrNothing(
  sources: SourceReader,
  id: MessageId,
  size: number,
): Promise<Buffer | undefined> {
  try {
    const pieces: Buffer[] = [];
    const source = await openSource(sources, id, size, true);
    for await (const piece of source.pieces()) pieces.push(piece);
    return Buffer.concat(pieces);
  } catch {
    return undefined;
  }
}

async function* bytesFrom(
  pieces: AsyncIterable<Buffer> | Iterable<Buffer>,
  from: number,
): AsyncGenerator<Buffer> {
  let toSkip = from;
  for await (const piece of pieces) {
    const rest = piece.subarray(Math.min(toSkip, piece.length));
    toSkip -= piece.length - rest.length;
    if (rest.length > 0) yield rest;
  }
}

async function* piecesOf(items: Iterable<Buffer>): AsyncGenerator<Buffer> {
  yield* items;
}

/** What is read of a spool at a time: mail says how long a line is. */
const PAGE_BYTES = 256 * 1024;

/** Lines of an answer, kept apart until they are taken: a snapshot of the archive is not held open for a slow network. */
class LineSpool {
  readonly #db = scratchDatabase(
    'CREATE TABLE lines (n INTEGER PRIMARY KEY, line TEXT NOT NULL); BEGIN',
  );
  readonly #add = this.#db.prepare<[string]>('INSERT INTO lines (line) VALUES (?)');

  add(line: SelectionLine): void {
    this.#add.run(JSON.stringify(line));
  }

  /** Yields all lines behind a first one; closes this. */
  async *pieces(first: SelectionLine): AsyncGenerator<Buffer> {
    try {
      yield Buffer.from(`${JSON.stringify(first)}\n`);
      let page: string[] = [];
      let bytes = 0;
      const lines = this.#db.prepare<[], { line: string }>('SELECT line FROM lines ORDER BY n');
      for (const { line } of lines.iterate()) {
        page.push(line);
        bytes += line.length;
        if (bytes < PAGE_BYTES) continue;
        yield Buffer.from(`${page.join('\n')}\n`);
        page = [];
        bytes = 0;
      }
      if (page.length > 0) yield Buffer.from(`${page.join('\n')}\n`);
    } finally {
      this.close();
    }
  }

  close(): void {
    this.#db.close();
  }
}
