import { Duplex } from 'node:stream';
import { fleetLinkError } from '../errors.ts';
import { FRAME, frame, framesWith } from '../link/frames.ts';
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
import { endShape } from './request.ts';

/** A command that runs at the holder, and answers what it is sent for as long as it runs. */
export interface Conversation {
  /** The node that runs it. */
  readonly node: string;
  /** Its standard input and output. Destroying it ends the command. */
  readonly stream: Duplex;
  /**
   * Resolves with its exit code when it ended by itself; rejects with fleet-answer-cut where its node, its hold of the archive or
   * the link has ended.
   */
  readonly ended: Promise<number>;
}

/**
 * Begins a command at the holder of an archive, which runs until its input ends. What it writes comes at once; what it was
 * told is lost with its node, so that it is for the caller to begin again.
 *
 * @param errors takes what it writes on its standard error
 * @throws what `atHolder` and `refusedBy` throw
 */
export async function converse(
  options: AskOptions,
  question: Question,
  errors: (bytes: Buffer) => Promise<void>,
  signal: AbortSignal,
): Promise<Conversation> {
  return atHolder(options, question, signal, async (asked) => {
    const link = await askedOf(options, asked, signal);
    let isBegun = false;
    try {
      const refused = await begun(link, asked);
      signal.throwIfAborted();
      if (refused !== undefined) return refused;
      isBegun = true;
      return conversationOver(link, asked, errors);
    } finally {
      if (!isBegun) link.close();
    }
  });
}

/** Resolves when the command runs, or with why another node has to be asked. */
async function begun(link: AskedLink, asked: Asked): Promise<Elsewhere | undefined> {
  for (;;) {
    const next = await link.next();
    if (next === undefined) return 'cut';
    if (next.kind === FRAME.begun) return undefined;
    if (next.kind === FRAME.refused) return refusedBy(next.bytes, asked);
  }
}

function conversationOver(
  link: AskedLink,
  { target: { node } }: Asked,
  errors: (bytes: Buffer) => Promise<void>,
): Conversation {
  let wanted = (): void => undefined;
  const stream = new Duplex({
    read: () => wanted(),
    write: (bytes: Buffer, _encoding, done) => {
      const send = async (): Promise<void> => {
        for (const one of framesWith(FRAME.input, bytes)) await link.send(one);
      };
      send().then(() => done(), done);
    },
    final: (done) => {
      link.send(frame(FRAME.inputEnd)).then(() => done(), done);
    },
    destroy: (error, done) => {
      link.close();
      wanted();
      done(error);
    },
  });
  // Whoever uses the stream hears of it by `ended`.
  stream.on('error', () => undefined);
  const pump = async (): Promise<number | undefined> => {
    for (;;) {
      const next = await link.next();
      if (next === undefined || stream.destroyed) return undefined;
      const { kind, bytes } = next;
      if (kind === FRAME.errors) await errors(bytes);
      if (kind === FRAME.end) return parsed(endShape, bytes)?.code;
      if (kind === FRAME.refused) return undefined;
      if (kind !== FRAME.output || stream.push(bytes)) continue;
      await new Promise<void>((resolve) => {
        wanted = resolve;
      });
    }
  };
  const ended = pump().then((code) => {
    if (code === undefined) throw fleetLinkError('fleet-answer-cut', { node });
    return code;
  });
  ended
    .then(
      () => stream.push(null),
      (error: Error) => stream.destroy(error),
    )
    .finally(() => link.close());
  return { node, stream, ended };
}
