/** Servers turn dates outside these into others: Dovecot 1901 into 2037, Cyrus 1970-01-01 into now. */
const FIRST_DATE = Date.UTC(1970, 0, 2);
const LAST_DATE = Date.UTC(2038, 0, 18);

/** A received date as servers keep it; milliseconds since the epoch. */
export function fitDate(received: number): { readonly date: number; readonly clamped: boolean } {
  const date = Math.min(LAST_DATE, Math.max(FIRST_DATE, received));
  return { date, clamped: date !== received };
}

/** Flags of a message that are sent with it, and those that are not. */
export interface FittedFlags {
  readonly kept: readonly string[];
  /** `\Recent`, which only servers set, and `\Deleted`, with which a client would expunge the message. */
  readonly leftOut: readonly string[];
  /** Flags that the folder does not store, and keywords that IMAP cannot say. */
  readonly refused: readonly string[];
}

const NEVER_SENT: ReadonlySet<string> = new Set(['\\recent', '\\deleted']);
/** A keyword is an atom (RFC 9051, 9): no spaces, quotes, brackets, wildcards or letters outside ASCII. */
const FLAG = /^\\?[!#$&'+,\-./0-9:;<=>?@A-Z[^_`a-z|}~]+$/;

/** @param permanent the folder's PERMANENTFLAGS; null where the server sent none, which allows all (RFC 3501, 7.1) */
export function fitFlags(
  flags: readonly string[],
  permanent: readonly string[] | null,
): FittedFlags {
  const allowed = permanent === null ? null : new Set(permanent.map((flag) => flag.toLowerCase()));
  const [kept, leftOut, refused]: [string[], string[], string[]] = [[], [], []];
  for (const flag of flags) {
    const folded = flag.toLowerCase();
    const isKeyword = !flag.startsWith('\\');
    const isAllowed =
      FLAG.test(flag) &&
      (allowed === null || allowed.has(folded) || (isKeyword && allowed.has('\\*')));
    if (NEVER_SENT.has(folded)) leftOut.push(flag);
    else if (isAllowed) kept.push(flag);
    else refused.push(flag);
  }
  return { kept, leftOut, refused };
}

/** What of a message can be sent, besides its bytes, and what of it the server will not have as the archive has it. */
export function fitMessage(
  { flags, received }: { readonly flags: readonly string[]; readonly received: number | null },
  permanent: readonly string[] | null,
): {
  readonly flags: readonly string[];
  /** Null lets the server take the present. */
  readonly date: Date | null;
  readonly altered: readonly Alteration[];
} {
  const altered: Alteration[] = [];
  const { kept, refused } = fitFlags(flags, permanent);
  if (refused.length > 0) altered.push('flags');
  const fitted = received === null ? null : fitDate(received);
  if (fitted === null || fitted.clamped) altered.push('date');
  return { flags: kept, date: fitted === null ? null : new Date(fitted.date), altered };
}

/** What is not on the server as it is in the archive. */
export type Alteration =
  /** Lines that end in LF alone were sent with CRLF. */
  | 'line-endings'
  /** The server left out a CR that stood within a line, or added one. */
  | 'carriage-returns'
  /** The server replaced NUL bytes. */
  | 'nul'
  /** The server replaced bytes above 127 in the header. */
  | 'header-bytes'
  /** The server has other bytes, and nothing about the message explains it. */
  | 'bytes'
  /** The received date is outside what servers keep, or missing. */
  | 'date'
  /** The server does not keep all flags and keywords. */
  | 'flags';

/** Sizes that the server announces, in bytes; null where it announces none. */
export interface SizeLimits {
  readonly appendLimit: number | null;
  /** Bytes left of the quota. */
  readonly quotaLeft: number | null;
}

export type SizeRefusal = 'append-limit' | 'quota';

/**
 * Returns why the server will refuse each message, or null. A message that does not fit into the quota leaves its room to
 * smaller ones after it.
 *
 * @param sizes bytes of the messages as they are sent, in the order in which they are
 */
export function fitSizes(
  sizes: readonly number[],
  { appendLimit, quotaLeft }: SizeLimits,
): (SizeRefusal | null)[] {
  let left = quotaLeft ?? Number.POSITIVE_INFINITY;
  return sizes.map((size) => {
    if (appendLimit !== null && size > appendLimit) return 'append-limit';
    if (size > left) return 'quota';
    left -= size;
    return null;
  });
}
