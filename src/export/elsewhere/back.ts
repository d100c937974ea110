import { Hono } from 'hono';
import { z } from 'zod';
import { parseJson } from '../../archive/format/json-shape.ts';
import type { UnknownName } from '../../catalog/search/resolve.ts';
import { scratchDatabase } from '../../disk/scratch-database.ts';
import { thrownBy } from '../../errors/mailkeep-error.ts';
import type { MessageId } from '../../mail/words.ts';
import { archiveOrigin } from '../archive-origin.ts';
import type { ExportArchive, ExportSelection } from '../export-options.ts';
import { openSource, type SourceReader } from '../source.ts';
import { linesOf } from '../target.ts';
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

export interface BackOptions extends Pick<ExportArchive, 'catalog' | 'sources'> {
  /**
   * Understands a selection.
   *
   * @param ids lines with ids of messages, where these are named
   */
  readonly choose: (
    typed: TypedSelection,
    ids: AsyncIterable<string> | undefined,
  ) => Promise<{ readonly selection: ExportSelection; readonly unknown: readonly UnknownName[] }>;
}

const askedBytes = z.object({
  size: z.coerce.number().int().min(0),
  from: z.coerce.number().int(),
});

/**
 * Returns what answers for an archive to the node that writes an export of it: see `SELECTION_PATH`.
 *
 * @param breakOff breaks off the answer to the request, so that it is not taken for a whole one
 */
export function exportBack({
  catalog,
  sources,
  choose,
}: BackOptions): (request: Request, breakOff: () => void) => Promise<Response> {
  const app = new Hono<{ Bindings: { breakOff: () => void } }>();
  app.onError((error, context) => context.json({ thrown: thrownBy(error) }, 500));

  app.post(SELECTION_PATH, async (context) => {
    const { body } = context.req.raw;
    const lines = linesOf(buffersOf(body));
    const first = await lines.next();
    const { typed, named } = askedShape.parse(parseJson(first.value ?? ''));
    const chosen = choose(typed, named ? lines : undefined);
    const { selection, unknown } = await chosen.finally(async () => {
      // Also what is not read after an error: an answer comes after all of its request.
      for await (const _ of lines);
    });
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
    const items: Buffer[] = [];
    for (const { id, size } of sourcesShape.parse(await context.req.json()))
      items.push(batchItem(await wholeOrNothing(sources, id, size)));
    return new Response(new Uint8Array(Buffer.concat(items)));
  });

  app.get('/messages/:id', async (context) => {
    const { size, from } = askedBytes.parse(context.req.query());
    const source = await openSource(sources, context.req.param('id'), size, true);
    const rest = bytesFrom(source.pieces(), from);
    return new Response(bodyOf(rest, context.env.breakOff));
  });

  app.get('/messages/:id/history', (context) =>
    context.json(catalog.history(context.req.param('id'))),
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

const PAGE = 500;

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
      const page = this.#db.prepare<[number, number], { n: number; line: string }>(
        'SELECT n, line FROM lines WHERE n > ? ORDER BY n LIMIT ?',
      );
      for (let after = 0; ; ) {
        const rows = page.all(after, PAGE);
        if (rows.length === 0) return;
        yield Buffer.from(rows.map(({ line }) => `${line}\n`).join(''));
        after = rows.at(-1)?.n ?? after;
      }
    } finally {
      this.close();
    }
  }

  close(): void {
    this.#db.close();
  }
}
