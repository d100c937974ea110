import type { Option } from 'commander';

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
