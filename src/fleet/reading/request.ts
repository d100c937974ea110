import { z } from 'zod';
import { fleetLinkError } from '../errors.ts';

/** How an option is given. A value that is missing would be taken from what follows, a flag of this program among it. */
const VALUE = true;
const FLAG = false;

/**
 * What may be asked of a holder: commands that only read, and of their options those that name no file and change nothing.
 * Whatever is not here is refused, at the node asked and at the holder.
 */
const READABLE = {
  status: { '--max-age': VALUE },
  search: {
    ...{ '--limit': VALUE, '--format': VALUE, '--sort': VALUE, '--as-of': VALUE, '--after': VALUE },
    ...{ '--count': FLAG, '--explain': FLAG, '--saved': FLAG },
  },
  list: {
    ...{ '--mailbox': VALUE, '--folder': VALUE, '--deleted': FLAG, '--held': FLAG },
    ...{ '--as-of': VALUE, '--limit': VALUE, '--sort': VALUE, '--after': VALUE },
    ...{ '--before': VALUE, '--format': VALUE },
  },
  show: {
    ...{ '--raw': FLAG, '--headers': FLAG, '--html': FLAG, '--thread': FLAG, '--no-pager': FLAG },
  },
  attachments: {},
  history: {},
  // Over standard input and output, for as long as the asker asks: in JSON-RPC, and in HTTP.
  mcp: { '--mailbox': VALUE },
  web: {},
  export: {},
  stats: {
    ...{ '--by': VALUE, '--query': VALUE, '--largest': FLAG, '--duplicates': FLAG },
    ...{ '--limit': VALUE, '--format': VALUE },
  },
  // What it would forget, whatever is asked.
  forget: {},
} as const satisfies Readonly<Record<string, Readonly<Record<string, boolean>>>>;

/** What stands in the line of a command, whatever is asked. */
const FIXED: Readonly<Record<string, readonly string[]>> = {
  // A pager would run at the holder.
  show: ['--no-pager'],
  // Who asks records a request; a reader writes nothing.
  forget: ['--dry-run'],
};

/** What a process cannot be given as an argument, and no terminal has typed. */
const text = z
  .string()
  .max(32_768)
  .refine((value) => !value.includes('\0'));

export const readingShape = z.strictObject({
  /** The session that holds the archive by what the asker read; null where nobody does, and it is to be claimed. */
  session: z.uuid().nullable(),
  archive: z.int().positive(),
  command: z.string().max(64),
  options: z.array(z.tuple([z.string().max(64), text.nullable()])).max(64),
  words: z.array(text).max(4_096),
  json: z.boolean(),
  quiet: z.boolean(),
  /** Of the terminal at which somebody reads; null for none. */
  columns: z.int().min(1).max(10_000).nullable(),
  colours: z.boolean(),
  timeZone: z.string().max(64),
});

/** A reading command, for one archive. */
export type ReadingRequest = z.output<typeof readingShape>;

/** Commands that run for as long as somebody may ask them something. */
export const LASTING: ReadonlySet<string> = new Set(['mcp', 'web', 'export']);

/** Bytes of a request. */
export const MOST_REQUEST_BYTES = 65_536;

/** What a reader process is given. */
export interface ReaderOrder {
  /** The folder of the archive: nothing else is read. */
  readonly dataDir: string;
  readonly args: readonly string[];
  readonly columns: number | null;
  readonly colours: boolean;
}

/**
 * Returns the command line of a request. What this program adds stands first, values are joined to their options, and words
 * follow `--`, so that none of these can be taken for another.
 *
 * @throws fleet-reading-refused
 */
export function lineOf(request: ReadingRequest): readonly string[] {
  const { command, options, words, json, quiet } = request;
  const allowed = allowedFor(command);
  for (const [name, value] of options) {
    const takesValue = allowed.get(name);
    if (takesValue === undefined || takesValue !== (value !== null)) {
      throw fleetLinkError('fleet-reading-refused', { what: `${command} ${name}` });
    }
  }
  return [
    command,
    ...(FIXED[command] ?? []),
    ...(json ? ['--json'] : []),
    ...(quiet ? ['--quiet'] : []),
    ...options.map(([name, value]) => (value === null ? name : `${name}=${value}`)),
    '--',
    ...words,
  ];
}

function allowedFor(command: string): ReadonlyMap<string, boolean> {
  for (const [name, options] of Object.entries(READABLE)) {
    if (name === command) return new Map(Object.entries(options));
  }
  throw fleetLinkError('fleet-reading-refused', { what: command });
}

/** Returns whether a name is that of a time zone, and no path of a file. */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z0-9_+-]+(?:\/[A-Za-z0-9_+-]+)*$/.test(name)) return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch {
    return false;
  }
}

/** Why a holder answers nothing. */
export const refusalShape = z.discriminatedUnion('because', [
  /** Another session holds it, or nobody does: to be looked up again. */
  z.strictObject({ because: z.literal('not-holder') }),
  /** It takes nothing more: others may. */
  z.strictObject({ because: z.literal('full') }),
  z.strictObject({ because: z.literal('busy') }),
  /** It cannot be opened: `code` is the error. */
  z.strictObject({ because: z.literal('unready'), code: z.string().max(64) }),
  /** The request is none that is answered. */
  z.strictObject({ because: z.literal('request') }),
  /** The reader was ended before its time. */
  z.strictObject({ because: z.literal('ended') }),
]);
export type Refusal = z.output<typeof refusalShape>;

/** How a reader ended by itself. */
export const endShape = z.strictObject({ code: z.int().min(0).max(255) });
export type End = z.output<typeof endShape>;
