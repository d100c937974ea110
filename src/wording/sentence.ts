import { NOT_REGULAR } from '../core/files.ts';
import { fitColumns } from '../core/terminal-safe.ts';
import type { MailkeepError } from '../errors/mailkeep-error.ts';

/** Columns of a name in a list. */
const MOST = 200;

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
  const cut = (rest > 1 ? names.slice(0, shown) : names).map((name) => fitColumns(name, MOST));
  return rest > 1 ? `${cut.join(', ')} and ${rest} more` : cut.join(', ');
}

/** What SQLite means by a result code that is about the disk, and not about a statement. */
function sqliteText(code: string): string | undefined {
  const words: readonly (readonly [prefix: string, text: string])[] = [
    ['SQLITE_CANTOPEN', 'the file cannot be opened'],
    ['SQLITE_READONLY', 'the file or its file system is read-only'],
    ['SQLITE_IOERR', 'input/output error'],
    ['SQLITE_FULL', 'no space left'],
    ['SQLITE_BUSY', 'another process uses it'],
    ['SQLITE_PERM', 'permission denied'],
    ['SQLITE_AUTH', 'permission denied'],
    ['SQLITE_CORRUPT', 'the file is damaged'],
    ['SQLITE_NOTADB', 'the file is not a database'],
  ];
  return words.find(([prefix]) => code.startsWith(prefix))?.[1];
}

/** `Did you mean "from:"? …` where a name was probably meant, else what follows alone. Long names are cut. */
export function didYouMean(suggestion: string | null, otherwise = ''): string {
  if (suggestion === null) return otherwise;
  return `Did you mean "${fitColumns(suggestion, MOST)}"? ${otherwise}`.trimEnd();
}

/** What the system means by an errno name, in plain words, with the name for those who search for it. */
export function reasonText(errno: string): string {
  const words: Readonly<Record<string, string>> = {
    EACCES: 'permission denied',
    EPERM: 'operation not permitted',
    ENOENT: 'no such file or folder',
    EISDIR: 'it is a folder',
    ENOTDIR: 'a part of the path is not a folder',
    ENOSPC: 'no space left',
    EDQUOT: 'disk quota exceeded',
    EROFS: 'the file system is read-only',
    EIO: 'input/output error',
    EMFILE: 'too many open files',
    ENFILE: 'too many open files in the system',
    ELOOP: 'too many links',
    ENAMETOOLONG: 'the name is too long',
    ENOTEMPTY: 'the folder is not empty',
    EBUSY: 'it is in use',
    EFBIG: 'the file is too large',
    ESTALE: 'the network file system lost the file',
    ENODEV: 'no such device',
    ENXIO: 'no such device',
    EEXIST: 'it exists already',
    'not-a-folder': 'it is a file, not a folder',
    ECONNREFUSED: 'connection refused',
    ECONNRESET: 'connection reset',
    ENOTFOUND: 'unknown host name',
    EAI_AGAIN: 'host names cannot be resolved at the moment',
    ETIMEDOUT: 'timed out',
    EHOSTUNREACH: 'host unreachable',
    ENETUNREACH: 'network unreachable',
    ERR_SSL_WRONG_VERSION_NUMBER:
      'no TLS is spoken at this port, so the address begins with http or has another port',
    ERR_SSL_PACKET_LENGTH_TOO_LONG:
      'no TLS is spoken at this port, so the address begins with http or has another port',
    UND_ERR_SOCKET: 'the connection was closed; a port that expects https does that to http',
    HPE_INVALID_CONSTANT:
      'the answer is not HTTP; a port that expects https answers http like that',
  };
  if (errno === NOT_REGULAR) return 'it is not a regular file';
  const known = words[errno] ?? sqliteText(errno);
  return known === undefined ? errno : `${known} (${errno})`;
}

/** Returns a text that begins with a capital letter. */
export function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
