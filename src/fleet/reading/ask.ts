import { fleetLinkError } from '../errors.ts';
import { FRAME, frame } from '../link/frames.ts';
import {
  type Asked,
  type AskedLink,
  type AskOptions,
  askedOf,
  atHolder,
  type Elsewhere,
  parsed,
  type Question,
  refusedBy,
} from './at-holder.ts';
import { type End, endShape } from './request.ts';

/** Takes an answer as it comes; each resolves when more is taken. */
export interface AnswerSink {
  output(bytes: Buffer): Promise<void>;
  errors(bytes: Buffer): Promise<void>;
}

/** Bytes that are kept until more come or the answer ends: a shorter one that is cut off is asked for again. */
const KEPT_BYTES = 256 * 1024;

/**
 * Lets the holder of an archive run a reading command, and passes on what it writes.
 *
 * @returns the exit code
 * @throws what `atHolder` and `refusedBy` throw; fleet-answer-cut after a part of the answer was passed on; the errors of
 *   the sink
 */
export async function askHolder(
  options: AskOptions,
  question: Question,
  sink: AnswerSink,
  signal: AbortSignal,
): Promise<number> {
  const { code } = await atHolder(options, question, signal, async (asked) => {
    const link = await askedOf(options, asked, signal);
    try {
      await link.send(frame(FRAME.inputEnd));
      return await new Answer(sink, asked).from(link, signal);
    } finally {
      link.close();
    }
  });
  return code;
}

/** One answer of one node. */
class Answer {
  #kept: { readonly isOutput: boolean; readonly bytes: Buffer }[] = [];
  #bytes = 0;
  #isPassedOn = false;

  constructor(
    private readonly sink: AnswerSink,
    private readonly asked: Asked,
  ) {}

  /** Returns how it ended, or why another node has to be asked: then nothing was passed on. */
  async from(link: AskedLink, signal: AbortSignal): Promise<End | Elsewhere> {
    for (;;) {
      const next = await link.next();
      signal.throwIfAborted();
      if (next === undefined) return this.#cut();
      const { kind, bytes } = next;
      if (kind === FRAME.output || kind === FRAME.errors) await this.#take(kind, bytes);
      else if (kind === FRAME.end) {
        await this.#passOn();
        return parsed(endShape, bytes) ?? this.#cut();
      } else if (kind === FRAME.refused) {
        const why = refusedBy(bytes, this.asked);
        return why === 'cut' ? this.#cut() : why;
      }
    }
  }

  async #take(kind: number, bytes: Buffer): Promise<void> {
    this.#kept.push({ isOutput: kind === FRAME.output, bytes });
    this.#bytes += bytes.length;
    if (this.#bytes > KEPT_BYTES) await this.#passOn();
  }

  async #passOn(): Promise<void> {
    for (const { isOutput, bytes } of this.#kept) {
      this.#isPassedOn = true;
      await (isOutput ? this.sink.output(bytes) : this.sink.errors(bytes));
    }
    this.#kept = [];
    this.#bytes = 0;
  }

  #cut(): 'cut' {
    if (this.#isPassedOn)
      throw fleetLinkError('fleet-answer-cut', { node: this.asked.target.node });
    return 'cut';
  }
}
