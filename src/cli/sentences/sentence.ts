import type { MailkeepError } from '../../errors/mailkeep-error.ts';

/** What happened, and what to do about it: a hint is a command to type or a thing to change, or null. */
export interface Said {
  readonly message: string;
  readonly hint: string | null;
}

/** One sentence for each code of a room, made from the facts that the room's errors carry. */
export type Sentences<FactsByCode> = {
  readonly [Code in keyof FactsByCode]: (facts: FactsByCode[Code]) => Said;
};

/**
 * Codes and facts of a room whose errors are made by one small function each: read off the functions'
 * return types, so that a new error without a sentence does not compile.
 */
export type FactsOfModule<Module> = {
  [E in Extract<ReturnOf<Module[keyof Module]>, MailkeepError> as E['code']]: E['facts'];
};

type ReturnOf<F> = F extends (...args: never[]) => infer R ? R : never;

export function say(message: string, hint: string | null = null): Said {
  return { message, hint };
}

/** A list for people: `a, b and 3 more`. */
export function some(names: readonly string[], shown = 3): string {
  const rest = names.length - shown;
  return rest > 1 ? `${names.slice(0, shown).join(', ')} and ${rest} more` : names.join(', ');
}

/** `Did you mean "from:"? …` where a name was probably meant, else what follows alone. */
export function didYouMean(suggestion: string | null, otherwise = ''): string {
  return suggestion === null ? otherwise : `Did you mean "${suggestion}"? ${otherwise}`.trimEnd();
}

/** What the system means by an errno name, in plain words, with the name for those who search for it. */
export function reasonText(errno: string): string {
  const words: Readonly<Record<string, string>> = {
    EACCES: 'permission denied',
    EPERM: 'operation not permitted',
    ENOENT: 'no such file or folder',
    EISDIR: 'it is a folder',
    ENOTDIR: 'a part of the path is no folder',
    ENOSPC: 'no space left',
    EDQUOT: 'disk quota exceeded',
    EROFS: 'the file system is read-only',
    EIO: 'input/output error',
    EMFILE: 'too many open files',
    EEXIST: 'it exists already',
    ECONNREFUSED: 'connection refused',
    ECONNRESET: 'connection reset',
    ENOTFOUND: 'unknown host name',
    EAI_AGAIN: 'host names cannot be resolved at the moment',
    ETIMEDOUT: 'timed out',
    EHOSTUNREACH: 'host unreachable',
    ENETUNREACH: 'network unreachable',
  };
  const known = words[errno];
  return known === undefined ? errno : `${known} (${errno})`;
}
