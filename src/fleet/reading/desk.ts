import type { IncomingMessage, ServerResponse } from 'node:http';
import { parseJson } from '../../archive/format.ts';
import { MailkeepError } from '../../core/errors.ts';
import {
  BadFrame,
  FRAME,
  type Frame,
  frame,
  framesOf,
  framesWith,
  jsonFrame,
} from '../link/frames.ts';
import { ReaderProcess } from './reader-process.ts';
import type { Reading } from './readings.ts';
import {
  type End,
  isTimeZone,
  LASTING,
  lineOf,
  MOST_REQUEST_BYTES,
  type ReadingRequest,
  type Refusal,
  readingShape,
} from './request.ts';
import { Slots } from './slots.ts';

/** What has archives to read: a session of a worker. */
export interface ReadingHost {
  readonly session: string;
  /** An archive, opened until `done` is called; or why there is none. */
  reading(archive: number, mayClaim: boolean): Promise<Reading | Refusal>;
}

export interface DeskOptions {
  /** The program that reads: see `ReaderProcess`. */
  readonly reader: URL;
  readonly onFailed: (error: unknown) => void;
}

/** Where all requests of a link go. */
export const READING_PATH = '/v1/read';
/** Milliseconds. */
const REQUEST_MS = 10_000;
const ALIVE_MS = 5_000;
/** For an asker that takes nothing, such as a pager that somebody forgot. */
const TAKE_MS = 600_000;
/** Readers at the same time: each is a process. */
const READERS = 8;
const WAITING = 64;
/** Those that last as long as somebody may ask them something; nobody waits until another one leaves. */
const LASTING_READERS = 16;

/** Answers what other nodes ask to read. It outlives sessions, and answers for the one that there is. */
export class ReadingDesk {
  #host: ReadingHost | undefined;
  readonly #slots = new Slots(READERS, WAITING);
  readonly #lasting = new Slots(LASTING_READERS, 0);

  constructor(private readonly options: DeskOptions) {}

  /** Answers for a session from now on, or for none. */
  serve(host: ReadingHost | undefined): void {
    this.#host = host;
  }

  /** Answers one request, until its end or that of its connection. */
  readonly answer = (request: IncomingMessage, response: ServerResponse): void => {
    this.#answer(request, response).catch((error: unknown) => {
      this.options.onFailed(error);
      response.destroy();
    });
  };

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== 'POST' || request.url !== READING_PATH) {
      response.writeHead(404).end();
      return;
    }
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    request.on('error', () => gone.abort());
    const asker = new Asker(response, gone);
    response.writeHead(200, { 'content-type': 'application/octet-stream' });
    const frames = framesOf(request);
    const asked = await within(REQUEST_MS, firstOf(frames), gone);
    const outcome =
      asked === undefined
        ? ({ because: 'request' } as const)
        : await this.#read(asked, frames, asker);
    const isEnd = 'code' in outcome;
    await asker.send(jsonFrame(isEnd ? FRAME.end : FRAME.refused, outcome));
    response.end();
    // Whatever else is sent is of no interest.
    request.resume();
  }

  async #read(
    asked: ReadingRequest,
    frames: AsyncGenerator<Frame>,
    asker: Asker,
  ): Promise<Refusal | End> {
    const host = this.#host;
    const isOther = asked.session !== null && asked.session !== host?.session;
    if (host === undefined || isOther) return { because: 'not-holder' };
    const alive = setInterval(() => asker.alive(), ALIVE_MS);
    const slots = LASTING.has(asked.command) ? this.#lasting : this.#slots;
    const slot = await slots.take(asker.gone).catch(() => undefined);
    if (slot === undefined) {
      clearInterval(alive);
      return { because: 'busy' };
    }
    try {
      const reading = await host.reading(asked.archive, asked.session === null);
      if ('because' in reading) return reading;
      try {
        return await this.#run(asked, reading, frames, asker);
      } finally {
        reading.done();
      }
    } finally {
      slot();
      clearInterval(alive);
    }
  }

  async #run(
    asked: ReadingRequest,
    { dataDir, segments, ended }: Reading,
    frames: AsyncGenerator<Frame>,
    asker: Asker,
  ): Promise<Refusal | End> {
    const { columns, colours, timeZone } = asked;
    await asker.send(frame(FRAME.begun));
    const child = new ReaderProcess({
      program: this.options.reader,
      order: { dataDir, args: lineOf(asked), columns, colours },
      ...{ timeZone, segments },
      signal: AbortSignal.any([asker.gone, ended]),
      output: (bytes) => asker.sendAll(FRAME.output, bytes),
      errors: (bytes) => asker.sendAll(FRAME.errors, bytes),
    });
    // What is no input ends the link: an answer to it would be none to anything that was asked.
    passOn(frames, child).catch(() => asker.leave());
    const code = await child.ended;
    return code === undefined ? { because: 'ended' } : { code };
  }
}

/** What is sent to an asker, as fast as it takes it. */
class Asker {
  constructor(
    private readonly response: ServerResponse,
    private readonly controller: AbortController,
  ) {}

  get gone(): AbortSignal {
    return this.controller.signal;
  }

  leave(): void {
    this.response.destroy();
    this.controller.abort();
  }

  alive(): void {
    if (!this.response.writableNeedDrain) this.response.write(frame(FRAME.alive));
  }

  async send(bytes: Buffer): Promise<void> {
    const { response } = this;
    if (response.destroyed || response.write(bytes)) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(() => this.leave(), TAKE_MS);
      const over = (): void => {
        clearTimeout(timer);
        response.off('drain', over);
        response.off('close', over);
        resolve();
      };
      response.once('drain', over);
      response.once('close', over);
    });
  }

  async sendAll(kind: Frame['kind'], bytes: Buffer): Promise<void> {
    for (const one of framesWith(kind, bytes)) await this.send(one);
  }
}

/** Undefined for what is no request that may be answered. */
async function firstOf(frames: AsyncGenerator<Frame>): Promise<ReadingRequest | undefined> {
  try {
    const { value } = await frames.next();
    if (value?.kind !== FRAME.ask || value.bytes.length > MOST_REQUEST_BYTES) return undefined;
    const asked = readingShape.safeParse(parseJson(value.bytes.toString('utf8')));
    if (!asked.success || !isTimeZone(asked.data.timeZone)) return undefined;
    lineOf(asked.data);
    return asked.data;
  } catch (error) {
    if (error instanceof MailkeepError || error instanceof BadFrame) return undefined;
    throw error;
  }
}

async function passOn(frames: AsyncGenerator<Frame>, child: ReaderProcess): Promise<void> {
  for await (const { kind, bytes } of frames) {
    if (kind === FRAME.input) await child.write(bytes);
    else if (kind === FRAME.inputEnd) child.endInput();
    else throw new Error('no input');
  }
}

/** Undefined if it takes longer, or the asker leaves. */
async function within<T>(
  ms: number,
  act: Promise<T>,
  gone: AbortController,
): Promise<T | undefined> {
  let stop = (): void => undefined;
  const over = new Promise<undefined>((resolve) => {
    stop = () => resolve(undefined);
  });
  const timer = setTimeout(stop, ms);
  gone.signal.addEventListener('abort', stop);
  try {
    return await Promise.race([act, over]);
  } finally {
    clearTimeout(timer);
    act.catch(() => undefined);
  }
}
