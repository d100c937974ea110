import type { Seeded } from '../../bench/seeded.ts';

/** What goes wrong with one request. */
export type HttpFault =
  /** The server gets nothing, and the client this answer. */
  | { readonly do: 'answer'; readonly status: number; readonly code: string }
  /** The server has carried out the request, and the client gets this answer instead of its own. */
  | { readonly do: 'answer-late'; readonly status: number; readonly code: string }
  /** The server gets nothing, and the client 200 with this body. */
  | { readonly do: 'answer-with'; readonly body: string }
  /** The server gets nothing, and the connection ends. */
  | { readonly do: 'cut-before' }
  /** The connection ends when the first bytes of the request's body have come. */
  | { readonly do: 'cut-within' }
  /** The server has carried out the request, and the connection ends without an answer. */
  | { readonly do: 'lose-answer' }
  /** The connection ends in the body of the answer, if it has one. */
  | { readonly do: 'cut-answer'; readonly part: number }
  /** The first byte of the answer's body is another one. */
  | { readonly do: 'change-answer' }
  /** The answer takes its time. */
  | { readonly do: 'slow-answer'; readonly ms: number }
  /** The connection ends, and the server gets the request later: see `deliver`. */
  | { readonly do: 'hold' }
  /** The server gets the request, and once more later. */
  | { readonly do: 'double' }
  /** The server gets nothing, and the client no answer either, until it goes. */
  | { readonly do: 'silence' }
  /** The answer stops in its body, until the client goes. */
  | { readonly do: 'silence-within' };

const ANSWERS = [
  [500, 'InternalError'],
  [503, 'SlowDown'],
  [503, ''],
  [429, ''],
  [502, ''],
  [400, 'RequestTimeout'],
] as const;

/** Draws a fault, or none. */
export function randomHttpFault(random: Seeded): HttpFault | undefined {
  const [status, code] = ANSWERS[random.below(ANSWERS.length)] ?? [500, ''];
  switch (random.below(16)) {
    case 0:
      return { do: 'answer', status, code };
    case 1:
      return { do: 'answer-late', status, code };
    case 2:
      return { do: 'cut-before' };
    case 3:
      return { do: 'cut-within' };
    case 4:
      return { do: 'lose-answer' };
    case 5:
      return { do: 'cut-answer', part: random.next() };
    case 6:
      return { do: 'silence' };
    case 7:
      return { do: 'silence-within' };
    default:
      return undefined;
  }
}
