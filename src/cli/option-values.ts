import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Catalog } from '../catalog/catalog.ts';
import { isMailbox, matchingFolders } from '../catalog/folders.ts';
import type { QuarantineEntry } from '../catalog/messages.ts';
import { readDate } from '../catalog/query-dates.ts';
import { fromBase64, KEY_BYTES } from '../copies/format/sealed-object.ts';
import { usageError } from '../core/error-tables.ts';
import { parseDuration, parseRate } from '../core/quantities.ts';

/** Stands before a word that must not be parsed as options. No argument of a process has it. */
const MARK = '\0';

/**
 * Marks the words that begin with a minus, such as `-news`, which a search excludes: the parser would read it as
 * `-n ews`. A minus with a single character stays an option, and so does `-n50`.
 *
 * @param options all options that the line may have: the values of these stay as they are
 */
export function markMinusWords(args: readonly string[], options: readonly Option[]): string[] {
  const end = args.indexOf('--');
  return args.map((arg, i) => {
    const isValue = options.some(
      ({ required, short, long }) => required && i > 0 && [short, long].includes(args[i - 1]),
    );
    const isWord = /^-[^-]./su.test(arg) && !/^-n\d+$/.test(arg);
    return isWord && !isValue && (end < 0 || i < end) ? `${MARK}${arg}` : arg;
  });
}

/** Collects words as they were typed, for an argument of commander that takes several. */
export function minusWords(word: string, before: readonly string[] = []): string[] {
  return [...before, word.startsWith(MARK) ? word.slice(MARK.length) : word];
}

const ISO_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$/;

/**
 * A T of the command line: an ISO 8601 time (local where it names no zone), a span such as `3d`, which is that
 * long ago, or a date, which is its last moment in the user's time zone, as for `asof:` in a query.
 *
 * @returns milliseconds since the epoch
 * @throws usage-bad-date
 */
export function moment(option: string, text: string, now: number): number {
  const ago = parseDuration(text);
  if (ago !== undefined) return now - ago;
  const exact = ISO_TIME.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(exact)) return exact;
  const date = readDate(text, { now });
  if ('problem' in date) throw usageError('usage-bad-date', { option, found: text });
  return date.period.to - 1;
}

/**
 * Returns the moment at which a T of `--after` or `--before` begins, as `after:` and `before:` in a query take it: of a
 * date, its first moment in the user's time zone.
 *
 * @returns milliseconds since the epoch
 * @throws usage-bad-date
 */
export function beginning(option: string, text: string, now: number): number {
  const ago = parseDuration(text);
  if (ago !== undefined) return now - ago;
  const date = readDate(text, { now });
  if ('problem' in date) throw usageError('usage-bad-date', { option, found: text });
  return date.period.from;
}

/** A parser for whole numbers within bounds, for commander. */
export function wholeNumber(from: number, to: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < from || value > to) {
      throw new InvalidArgumentError(`It takes a whole number from ${from} to ${to}.`);
    }
    return value;
  };
}

/** Milliseconds of a DURATION. */
export function duration(text: string): number {
  const value = parseDuration(text);
  if (value === undefined) {
    throw new InvalidArgumentError('It takes a duration such as 90s, 15m, 26h or 7d.');
  }
  return value;
}

/** Bytes a second of a rate such as 500k or 2M. */
export function rate(text: string): number {
  const value = parseRate(text);
  if (value === undefined) {
    throw new InvalidArgumentError('It takes a number of bytes a second, such as 500k or 2M.');
  }
  return value;
}

/** The public half of an Ed25519 key, in base64. */
export function signerKey(text: string): Buffer {
  const key = fromBase64(text, KEY_BYTES);
  if (key === undefined) {
    throw new InvalidArgumentError('It takes a key as "copy init" prints it: 44 digits of base64.');
  }
  return key;
}

export function collected(text: string, before: readonly string[] = []): string[] {
  return [...before, text];
}

/** Collects addresses (`a@example.org`) and domains (`@example.org`). */
export function recipients(text: string, before: readonly string[] = []): string[] {
  if (!/^[^\s@<>]*@[^\s@<>]+$/.test(text)) {
    throw new InvalidArgumentError(
      'It takes an address (bea@example.org) or a domain (@example.org).',
    );
  }
  return [...before, text];
}

/** Options that several commands take, as arguments of `Command.option`. */
export const MAILBOXES = [
  '--mailbox <address>',
  'only this mailbox (address or resource id); repeatable',
  collected,
] as const;
export const FOLDERS = [
  '--folder <path>',
  'only this folder: a path, a pattern, or a purpose such as sent; repeatable',
  collected,
] as const;

/** An option that cannot be used with these others. */
export function exclusive(flags: string, description: string, ...others: string[]): Option {
  return new Option(flags, description).conflicts(others);
}

const REPEATABLE: readonly unknown[] = [collected, recipients];

/**
 * Makes a command, and every command below it, refuse empty values and arguments, and a second value of an option that
 * takes one: the parser would keep the last value only. Words of a query may be empty, and a switch may be repeated.
 *
 * @param refuse throws an error that states the problem
 */
export function checkValues(command: Command, refuse: (problem: string) => never): void {
  const hint = 'If it comes from a variable, that variable is not set.';
  for (const option of command.options) {
    if (!option.required && !option.optional) continue;
    const name = option.long ?? option.flags;
    let seen = false;
    command.on(`option:${option.name()}`, (value: string | null) => {
      if (value?.trim() === '') refuse(`the value of ${name} is empty. ${hint}`);
      if (seen && !REPEATABLE.includes(option.parseArg))
        refuse(`${name} takes one value, and it was given more than once.`);
      seen = true;
    });
  }
  command.hook('preAction', (_, { args, registeredArguments }) => {
    for (const [i, text] of args.entries()) {
      const argument = registeredArguments[i] ?? registeredArguments.at(-1);
      if (text.trim() === '' && argument !== undefined && argument.parseArg !== minusWords)
        refuse(`the argument <${argument.name()}> is empty. ${hint}`);
    }
  });
  for (const sub of command.commands) checkValues(sub, refuse);
}

/** Returns the values that there are: what was not given is left out, so that a default applies. */
export function given<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  const result: { [K in keyof T]?: Exclude<T[K], undefined> } = {};
  for (const name in values) {
    const value = values[name];
    if (isGiven(value)) result[name] = value;
  }
  return result;
}

function isGiven<V>(value: V): value is Exclude<V, undefined> {
  return value !== undefined;
}

/** What the options of a command line choose among what is in quarantine. */
export interface QuarantineChoice {
  /** Address or resource id. */
  readonly mailbox?: string;
  /** As for `list`: a path, a pattern or a special use. */
  readonly folder?: string;
  readonly uid?: number;
}

export function chosenEntries(
  { quarantine, folders }: Pick<Catalog, 'quarantine' | 'folders'>,
  { mailbox, folder, uid }: QuarantineChoice,
): QuarantineEntry[] {
  const keyOf = (one: { host: string; mailbox: string }, path: string): string =>
    JSON.stringify([one.host, one.mailbox, path]);
  const paths =
    folder === undefined
      ? undefined
      : new Set(
          // An entry may be of a folder that went.
          matchingFolders(folders.everNamed().folders, { folder }).map((one) =>
            keyOf(one, one.path),
          ),
        );
  return quarantine
    .open()
    .filter(
      (entry) =>
        isMailbox(entry, mailbox) &&
        (paths === undefined || paths.has(keyOf(entry, entry.folder))) &&
        (uid === undefined || uid === entry.uid),
    );
}

/** What somebody typed for a command that is answered elsewhere: options by their long names, and the rest. */
export interface TypedLine {
  readonly command: string;
  readonly options: readonly (readonly [name: string, value: string | null])[];
  readonly words: readonly string[];
}

export interface WhichAccount {
  readonly account: string;
  readonly tenant: string | undefined;
}
