import { type Command, InvalidArgumentError, type Option } from 'commander';
import { readDate } from '../catalog/query-dates.ts';
import { fromBase64, KEY_BYTES } from '../core/ed25519.ts';
import { usageError } from '../core/error-tables.ts';
import { parseDuration, parseRate } from '../core/quantities.ts';
import type { SampleSize } from '../verify/verify.ts';

/** Prefix of words that must not be parsed as options. Process arguments cannot contain it. */
const MARK = '\0';

/**
 * Marks words that start with a minus, such as `-news`, which excludes a word from a search. The parser would read it
 * as `-n ews`. A minus followed by one character remains an option, as does `-n50`.
 * @param options all options on the line, whose values are left unchanged
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

/** Collects unmarked words, for a Commander argument with several values. */
export function minusWords(word: string, before: readonly string[] = []): string[] {
  return [...before, word.startsWith(MARK) ? word.slice(MARK.length) : word];
}

const ISO_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?$/;

/**
 * Parses a time: ISO 8601 (local without a zone), an age such as `3d`, or a date. Like `asof:` in a query, a date means
 * its last moment in the user's time zone. Returns milliseconds since the epoch.
 * @throws usage-bad-date
 */
export function parseTime(option: string, text: string, now: number): number {
  const ago = parseDuration(text);
  if (ago !== undefined) return now - ago;
  const exact = ISO_TIME.test(text) ? Date.parse(text) : Number.NaN;
  if (!Number.isNaN(exact)) return exact;
  const date = readDate(text, { now });
  if ('problem' in date) throw usageError('usage-bad-date', { option, found: text });
  return date.period.to - 1;
}

/**
 * Parses the value of `--after` or `--before`, like `after:` and `before:` in a query. A date means its first moment in
 * the user's time zone. Returns milliseconds since the epoch.
 * @throws usage-bad-date
 */
export function parseStart(option: string, text: string, now: number): number {
  const ago = parseDuration(text);
  if (ago !== undefined) return now - ago;
  const date = readDate(text, { now });
  if ('problem' in date) throw usageError('usage-bad-date', { option, found: text });
  return date.period.from;
}

/** Returns a Commander parser for whole numbers within bounds. */
export function wholeNumber(from: number, to: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < from || value > to) {
      throw new InvalidArgumentError(`It takes a whole number from ${from} to ${to}.`);
    }
    return value;
  };
}

/** Parses a duration such as 90s or 7d to milliseconds. */
export function duration(text: string): number {
  const value = parseDuration(text);
  if (value === undefined) {
    throw new InvalidArgumentError('It takes a duration such as 90s, 15m, 26h or 7d.');
  }
  return value;
}

/** Parses a rate such as 500k or 2M to bytes per second. */
export function rate(text: string): number {
  const value = parseRate(text);
  if (value === undefined) {
    throw new InvalidArgumentError('It takes a number of bytes a second, such as 500k or 2M.');
  }
  return value;
}

/** Parses an Ed25519 public key in base64. */
export function signerKey(text: string): Buffer {
  const key = fromBase64(text, KEY_BYTES);
  if (key === undefined) {
    throw new InvalidArgumentError('It takes a key as "copy init" prints it: 44 digits of base64.');
  }
  return key;
}

export function collect(text: string, before: readonly string[] = []): string[] {
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

/** Arguments to `Command.option` for options shared by several commands. */
export const MAILBOXES = [
  '--mailbox <address>',
  'only this mailbox (address or resource id); repeatable',
  collect,
] as const;
export const FOLDERS = [
  '--folder <path>',
  'only this folder: a path, a pattern, or a purpose such as sent; repeatable',
  collect,
] as const;

/** Makes options conflict: in each list of attribute names, the first conflicts with all the others. */
export function exclude(command: Command, ...refusals: readonly (readonly string[])[]): void {
  for (const [name, ...others] of refusals) {
    const option = command.options.find((one) => one.attributeName() === name);
    if (option === undefined) throw new Error(`no option ${name}`);
    option.conflicts(others);
  }
}

const REPEATABLE: readonly unknown[] = [collect, recipients];

/**
 * Makes a command and its subcommands refuse empty values and repeated options, of which the parser would keep only the
 * last. Query words may be empty, and switches may be repeated.
 * @param refuse throws an error with the problem
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

/** Drops undefined values, so that defaults apply. */
export function withoutUndefined<T extends object>(
  values: T,
): { [K in keyof T]?: Exclude<T[K], undefined> } {
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

/** A command line to run on another node: options by long name, and positional words. */
export interface ForwardedCommand {
  readonly command: string;
  readonly options: readonly (readonly [name: string, value: string | null])[];
  readonly words: readonly string[];
}

export interface AccountOption {
  readonly account: string;
  readonly tenant: string | undefined;
}

/** A number of messages or other parts, or a share of them. */
export function sampleSize(text: string): SampleSize {
  const share = /^(\d{1,3}(?:\.\d+)?)%$/.exec(text);
  if (share !== null && Number(share[1]) > 0 && Number(share[1]) <= 100) {
    return { share: Number(share[1]) / 100 };
  }
  if (/^[1-9]\d{0,14}$/.test(text)) return { messages: Number(text) };
  throw new InvalidArgumentError('It takes a number of messages, or a share such as 5%.');
}
