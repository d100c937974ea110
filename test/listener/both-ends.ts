import { PassThrough } from 'node:stream';
import { joinStreams, requestOverStream, serveOverStream } from '../../src/core/listener.ts';
import { randomFrom } from '../offsite/dying-store.ts';

export type Answer = Parameters<typeof serveOverStream>[1];

/** Both ends of a stream whose bytes come in pieces of any size. */
export function bothEnds(seed: number, answer: Answer, onIdle = (): void => {}) {
  const random = randomFrom(seed);
  const [there, back] = [new PassThrough(), new PassThrough()];
  const inPieces = (way: PassThrough) => async (bytes: Uint8Array) => {
    for (let at = 0; at < bytes.length; ) {
      const end = at + 1 + Math.floor(random() ** 8 * 20_000);
      way.write(bytes.subarray(at, end));
      at = end;
      if (random() < 0.3) await new Promise((resolve) => setImmediate(resolve));
    }
  };
  const ended = serveOverStream(joinStreams(there, inPieces(back)), answer);
  const over = requestOverStream(joinStreams(back, inPieces(there)), onIdle);
  return { over, ended, there, back };
}
