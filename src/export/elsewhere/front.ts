import { createHash } from 'node:crypto';
import type { z } from 'zod';
import { parseJson } from '../../archive/format/json-shape.ts';
import type { UnknownName } from '../../catalog/search/resolve.ts';
import { messageDamaged } from '../../errors/archive.ts';
import { rethrown } from '../../errors/mailkeep-error.ts';
import type { MessageId } from '../../mail/words.ts';
import type { ExportOrigin, Selected } from '../origin.ts';
import type { NamedFolder } from '../paths.ts';
import type { Expected } from '../source.ts';
import { linesOf } from '../target.ts';
import { type Batch, batchOf, ExpectedSources } from './batches.ts';
import { bodyOf, buffersOf } from './bodies.ts';
import {
  historyShape,
  LONGEST_LINE_BYTES,
  SELECTION_PATH,
  SOURCES_PATH,
  selectionLineShape,
  type TypedSelection,
  thrownShape,
} from './wire.ts';

/** How often in a row an answer may be cut off without another byte. */
const MOST_CUTS = 3;

export interface FrontOptions {
  /** Has a request answered by whoever has the archive now. */
  readonly ask: (request: Request) => Promise<Response>;
  /** Returns whether an answer was cut off, so that it can be asked for again. */
  readonly isCut: (error: unknown) => boolean;
  readonly typed: TypedSelection;
  /** Ids of messages, a line each, where these are named. */
  readonly ids: AsyncIterable<string> | undefined;
  /** Called with what a query names that is not known; throws where that is to be refused. */
  readonly onUnknown: (names: readonly UnknownName[]) => void;
}

/**
 * Returns an archive at another node as an origin of an export. A source that is cut off is asked for again, from where it
 * ended: whoever has the archive then has the same bytes under its id. Errors of that node are thrown here.
 */
export function elsewhereOrigin(options: FrontOptions): ExportOrigin {
  const elsewhere = new Elsewhere(options);
  return {
    sources: {
      readMessage: (id, size) => elsewhere.whole(id, size),
      streamMessage: (id, size) => elsewhere.pieces(id, size),
      isProvenFirst: true,
      expect: (sources) => elsewhere.expected.expect(sources),
    },
    history: (id) => elsewhere.history(id),
    select: (taker) => elsewhere.select(taker),
  };
}

class Elsewhere {
  readonly expected = new ExpectedSources((sources) => this.#batch(sources));

  constructor(private readonly options: FrontOptions) {}

  async select(taker: Parameters<ExportOrigin['select']>[0]): Promise<Selected> {
    const { typed, ids, onUnknown } = this.options;
    async function* asked() {
      yield Buffer.from(`${JSON.stringify({ typed, named: ids !== undefined })}\n`);
      for await (const id of ids ?? []) yield Buffer.from(`${id}\n`);
    }
    let failure: unknown;
    const sent = bodyOf(asked(), (error) => {
      failure = error;
    });
    const init = { method: 'POST', body: sent, duplex: 'half' } as const;
    try {
      const body = await this.#answered(SELECTION_PATH, init);
      return await selectedFrom(body, taker, onUnknown);
    } catch (error) {
      throw failure ?? error;
    }
  }

  async whole(id: MessageId, size: number): Promise<Buffer> {
    const expected = await this.expected.take(id);
    if (expected !== undefined) return expected;
    const pieces: Buffer[] = [];
    for await (const piece of this.pieces(id, size)) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  async *pieces(id: MessageId, size: number): AsyncGenerator<Buffer, void, undefined> {
    const hash = createHash('sha256');
    let from = 0;
    for (let cuts = 0; ; cuts += 1) {
      try {
        const path = `/messages/${id}?size=${size}&from=${from}`;
        for await (const piece of await this.#answered(path)) {
          hash.update(piece);
          from += piece.length;
          if (piece.length > 0) cuts = 0;
          yield piece;
        }
        break;
      } catch (error) {
        this.#orAgain(error, cuts);
      }
    }
    if (hash.digest('hex') !== id) throw messageDamaged(id, 'hash');
  }

  async history(id: MessageId) {
    for (let cuts = 0; ; cuts += 1) {
      try {
        const pieces: Buffer[] = [];
        for await (const piece of await this.#answered(`/messages/${id}/history`)) {
          pieces.push(piece);
        }
        return understood(historyShape, Buffer.concat(pieces).toString('utf8'));
      } catch (error) {
        this.#orAgain(error, cuts);
      }
    }
  }

  /** Whatever goes wrong, each source is asked for again alone: then it counts. */
  async #batch(sources: readonly Expected[]): Promise<Batch> {
    try {
      const init = { method: 'POST', body: JSON.stringify(sources) };
      const pieces: Buffer[] = [];
      for await (const piece of await this.#answered(SOURCES_PATH, init)) pieces.push(piece);
      return batchOf(sources, Buffer.concat(pieces));
    } catch {
      return new Map();
    }
  }

  #orAgain(error: unknown, cuts: number): void {
    if (!this.options.isCut(error) || cuts >= MOST_CUTS) throw error;
  }

  async #answered(path: string, init: RequestInit = {}): Promise<AsyncIterable<Buffer>> {
    const answer = await this.options.ask(new Request(new URL(path, 'http://archive'), init));
    if (answer.status === 200) return buffersOf(answer.body);
    const { thrown } = understood(thrownShape, await answer.text());
    throw rethrown(thrown);
  }
}

/** Passes on what an answer has: the head stands before all else. */
async function selectedFrom(
  body: AsyncIterable<Buffer>,
  taker: Parameters<ExportOrigin['select']>[0],
  onUnknown: FrontOptions['onUnknown'],
): Promise<Selected> {
  let selected: Selected | undefined;
  const met: NamedFolder[] = [];
  let areMet = false;
  const givenFolders = (): void => {
    if (!areMet) taker.folders(met);
    areMet = true;
  };
  for await (const text of linesOf(body, LONGEST_LINE_BYTES)) {
    const line = understood(selectionLineShape, text);
    if ('head' in line) {
      onUnknown(line.unknown);
      selected = line.head;
    } else if ('folder' in line) met.push(line.folder);
    else {
      givenFolders();
      taker.place(line.place);
    }
  }
  givenFolders();
  if (selected === undefined) throw new Error('an answer without a head');
  return selected;
}

/** Both sides are this program: what is not understood is a mistake of it, or another version. */
function understood<T>(shape: z.ZodType<T>, text: string): T {
  return shape.parse(parseJson(text));
}
