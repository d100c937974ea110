import { createHash } from 'node:crypto';
import type { z } from 'zod';
import { archiveError } from '../../archive/errors.ts';
import { parseJson } from '../../archive/format.ts';
import type { HistoryLine } from '../../catalog/messages.ts';
import type { UnknownName } from '../../catalog/resolve-query.ts';
import { deserializeError } from '../../core/errors.ts';
import type { MessageId } from '../../core/types.ts';
import type { ExportOrigin, Selected, SelectionConsumer } from '../../transfer/export-manifest.ts';
import type { NamedFolder } from '../../transfer/export-names.ts';
import { linesOf } from '../../transfer/export-target.ts';
import type { Expected } from '../../transfer/plan-export.ts';
import { type Batch, batchOf, ExpectedSources } from './batches.ts';
import { bodyOf, buffersOf } from './bodies.ts';
import { BroughtFiles } from './brought-files.ts';
import {
  historyShape,
  LONGEST_LINE_BYTES,
  SELECTION_PATH,
  SOURCES_PATH,
  selectionLineShape,
  type TypedSelection,
  thrownShape,
} from './wire.ts';

/** Without another byte for so long, no other try is made: a takeover takes less. Milliseconds. */
const GIVE_UP_MS = 90_000;
/** Between two tries. */
const PAUSE_MS = 2_000;
/** What happened to one message: a name or flags may have changed ten thousand times. */
const MOST_HISTORY_BYTES = 64 * 1024 * 1024;

/** Whoever has the archive cannot answer, or answers what is not understood. */
export class UnusableAnswer extends Error {
  override readonly name = 'UnusableAnswer';
}

export interface FrontOptions {
  /** Has a request answered by whoever has the archive now. */
  readonly ask: (request: Request) => Promise<Response>;
  /** Returns whether what was not answered, or not to its end, may be answered later, by another node. */
  readonly isPassing: (error: unknown) => boolean;
  /** Returns milliseconds of a clock that never jumps. */
  readonly clock: () => number;
  /** Waits for so many milliseconds. */
  readonly pause: (ms: number) => Promise<void>;
  /** Ends what is being asked. */
  readonly signal: AbortSignal;
  readonly typed: TypedSelection;
  /** Ids of messages, or their beginnings, where these are named. */
  readonly ids: readonly string[] | undefined;
  /** Called with what a query names that is not known; throws where that is to be refused. */
  readonly onUnknown: (names: readonly UnknownName[]) => void;
}

/** An archive at another node. */
export interface ElsewhereOrigin extends ExportOrigin {
  /** Removes what was brought here and not used. */
  close(): Promise<void>;
}

/**
 * Returns an archive at another node as an origin of an export. A source that is cut off is asked for again, from where it
 * ended: whoever has the archive then has the same bytes under its id. Errors of that node are thrown here.
 *
 * @throws from its methods: what `ask` throws, UnusableAnswer
 */
export function elsewhereOrigin(options: FrontOptions): ElsewhereOrigin {
  const elsewhere = new Elsewhere(options);
  const files = new BroughtFiles();
  const expected = new ExpectedSources((sources) => elsewhere.batch(sources));
  return {
    sources: {
      readMessage: async (id, size) => (await expected.take(id)) ?? elsewhere.whole(id, size),
      streamMessage: (id, size) => elsewhere.pieces(id, size),
      bring: (id, size) => files.bring(elsewhere.pieces(id, size)),
      expect: (sources) => expected.expect(sources),
    },
    history: (id) => elsewhere.history(id),
    select: (taker) => elsewhere.select(taker),
    close: () => files.close(),
  };
}

class Elsewhere {
  constructor(private readonly options: FrontOptions) {}

  async select(taker: SelectionConsumer): Promise<Selected> {
    const { typed, ids, onUnknown } = this.options;
    async function* asked() {
      yield Buffer.from(`${JSON.stringify({ typed, named: ids !== undefined })}\n`);
      for (const id of ids ?? []) yield Buffer.from(`${id}\n`);
    }
    const sent = bodyOf(asked(), () => undefined);
    const init = { method: 'POST', body: sent, duplex: 'half' } as const;
    return selectedFrom(await this.#answered(SELECTION_PATH, init), taker, onUnknown);
  }

  async whole(id: MessageId, size: number): Promise<Buffer> {
    return allOf(this.pieces(id, size), size);
  }

  /** The pieces of a source. Once they have ended, all of them were what they should be. */
  async *pieces(id: MessageId, size: number): AsyncGenerator<Buffer, void, undefined> {
    const hash = createHash('sha256');
    let from = 0;
    const wait = this.#waiting();
    for (;;) {
      try {
        const path = `/messages/${id}?size=${size}&from=${from}`;
        for await (const piece of await this.#answered(path)) {
          from += piece.length;
          if (from > size) throw archiveError('message-damaged', { message: id, reason: 'bytes' });
          hash.update(piece);
          if (piece.length > 0) wait.begins();
          yield piece;
        }
        break;
      } catch (error) {
        await wait.orThrow(error);
      }
    }
    if (hash.digest('hex') !== id)
      throw archiveError('message-damaged', { message: id, reason: 'hash' });
  }

  async history(id: MessageId): Promise<readonly HistoryLine[]> {
    const wait = this.#waiting();
    for (;;) {
      try {
        const answer = await this.#answered(`/messages/${id}/history`);
        const text = (await allOf(answer, MOST_HISTORY_BYTES)).toString('utf8');
        return understood(historyShape, text);
      } catch (error) {
        await wait.orThrow(error);
      }
    }
  }

  /** Whatever goes wrong, each source is asked for again alone: then it counts. */
  async batch(sources: readonly Expected[]): Promise<Batch> {
    const most = sources.reduce((sum, { size }) => sum + 4 + size, 0);
    try {
      const init = { method: 'POST', body: JSON.stringify(sources) };
      return batchOf(sources, await allOf(await this.#answered(SOURCES_PATH, init), most));
    } catch {
      return new Map();
    }
  }

  /** Waits between the tries of one request. */
  #waiting() {
    const { isPassing, clock, pause, signal } = this.options;
    let since = clock();
    let isFirst = true;
    return {
      /** What comes from now on is waited for again. */
      begins(): void {
        since = clock();
        isFirst = true;
      },
      /** @throws the error where another try would not help, or enough of them were made */
      async orThrow(error: unknown): Promise<void> {
        signal.throwIfAborted();
        if (!isPassing(error) || clock() - since >= GIVE_UP_MS) throw error;
        // The first one asks the next holder at once.
        if (!isFirst) await pause(PAUSE_MS);
        isFirst = false;
      },
    };
  }

  async #answered(path: string, init: RequestInit = {}): Promise<AsyncIterable<Buffer>> {
    const { ask, signal } = this.options;
    const answer = await ask(new Request(new URL(path, 'http://archive'), { ...init, signal }));
    if (answer.status === 200) return buffersOf(answer.body);
    const text = (await allOf(buffersOf(answer.body), LONGEST_LINE_BYTES)).toString('utf8');
    const { thrown } = understood(thrownShape, text);
    // Errors of its system say nothing about the system here.
    throw thrown.ours === undefined ? new UnusableAnswer(thrown.message) : deserializeError(thrown);
  }
}

/** Passes on what an answer has: the head stands before all else. */
async function selectedFrom(
  body: AsyncIterable<Buffer>,
  taker: SelectionConsumer,
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
  if (selected === undefined) throw new UnusableAnswer('an answer without a head');
  return selected;
}

/** Both sides are this program: what is not understood comes from another version of it, or from a mistake. */
function understood<T>(shape: z.ZodType<T>, text: string): T {
  const { success, data } = shape.safeParse(parseJson(text));
  if (!success) throw new UnusableAnswer('an answer that is not understood');
  return data;
}

/** @throws UnusableAnswer for more bytes than `most` */
async function allOf(answer: AsyncIterable<Buffer>, most: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let length = 0;
  for await (const piece of answer) {
    length += piece.length;
    if (length > most) throw new UnusableAnswer('an answer that is too long');
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}
