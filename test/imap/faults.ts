import type { Seeded } from '../bench/seeded.ts';

/** Which command it happens to: the nth (from 1) of this kind since the proxy started, over all connections. */
interface OfCommand {
  readonly command: string;
  readonly nth: number;
}

/** What goes wrong between client and server. Each happens once. */
export type Fault =
  /** The connection ends after as many bytes in one direction, counted over all connections. */
  | { readonly do: 'cut'; readonly to: 'server' | 'client'; readonly afterBytes: number }
  /** The connection ends, and the server gets nothing of the command. */
  | (OfCommand & { readonly do: 'cut-before' })
  /** The server gets a part of the first literal: half, or as many bytes. */
  | (OfCommand & { readonly do: 'cut-in-literal'; readonly bytes?: number })
  /** The server has executed the command, and the client is not told. */
  | (OfCommand & { readonly do: 'cut-before-answer' })
  /** The client's connection ends once it has sent the first literal; the server gets its last bytes with `deliver`. */
  | (OfCommand & { readonly do: 'deliver-late' })
  /** The command, or its answer, and all that follows it in this direction waits until `release`. */
  | (OfCommand & { readonly do: 'hold-command' | 'hold-answer' })
  /**
   * The server gets nothing; the client gets this answer, such as `NO [LIMIT] wait`: after its literal, or instead of
   * the invitation to send it.
   */
  | (OfCommand & { readonly do: 'answer'; readonly text: string; readonly early?: boolean })
  /** The nth connection is reset, or greeted with BYE and this text. */
  | { readonly do: 'refuse'; readonly connection: number }
  | { readonly do: 'bye'; readonly connection: number; readonly text: string };

const ANSWERS = [
  'NO [LIMIT] Too many requests, try again later',
  'NO [UNAVAILABLE] Try again later',
  'NO [OVERQUOTA] Quota exceeded',
  'NO [INUSE] Mailbox is locked',
  'BAD Internal error',
];

/**
 * Draws one fault.
 *
 * @param commands how many APPEND commands there are to choose from
 * @param bytes about as many pass in all
 */
export function randomFault(
  random: Seeded,
  { commands, bytes }: { readonly commands: number; readonly bytes: number },
): Fault {
  const append = { command: 'APPEND', nth: 1 + random.below(commands) };
  switch (random.below(7)) {
    case 0:
      return { ...append, do: 'cut-before' };
    case 1:
      return { ...append, do: 'cut-in-literal' };
    case 2:
      return { ...append, do: 'cut-before-answer' };
    case 3: {
      const text = ANSWERS[random.below(ANSWERS.length)] ?? '';
      return { ...append, do: 'answer', text, early: random.below(2) === 0 };
    }
    case 4:
      return { ...append, do: 'deliver-late' };
    case 5:
      return { do: 'cut', to: 'server', afterBytes: random.below(bytes) };
    default:
      // Answers are short, compared with messages.
      return { do: 'cut', to: 'client', afterBytes: random.below(1 + commands * 60) };
  }
}
