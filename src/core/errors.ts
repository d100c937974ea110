import { fitColumns, terminalLine, terminalSafe } from './terminal-safe.ts';

/** The family determines the exit code, the code identifies the condition, and the facts complete the sentence. */
export const ERROR_FAMILIES = [
  'usage',
  'config',
  'damage',
  'held',
  'in-use',
  'auth',
  'origin',
  'disk',
  'mail',
  'interrupted',
] as const;

export type ErrorFamily = (typeof ERROR_FAMILIES)[number];

/** Facts are printed, logged and sent as JSON, so they must never contain a secret or mail text. */
export type Facts = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

/** Base class of errors that mailkeep raises deliberately. Any other error at the top level is reported as a bug. */
export class MailkeepError<Code extends string = string, F extends Facts = Facts> extends Error {
  override readonly name: string = 'MailkeepError';

  constructor(
    readonly family: ErrorFamily,
    readonly code: Code,
    readonly facts: F,
    options: { readonly cause?: unknown; readonly retryable?: boolean } = {},
  ) {
    // The message is for logs and stack traces only. Users see the sentence built from the code and facts.
    super(
      `${code} ${JSON.stringify(facts)}`,
      options.cause === undefined ? {} : { cause: options.cause },
    );
    this.retryable = options.retryable ?? false;
  }

  /** True if simply retrying may succeed. */
  readonly retryable: boolean;
}

/** A sentence that states what happened, and a hint: a command to type or something to change. */
interface ErrorText {
  readonly message: string;
  readonly hint: string | null;
}

function say(message: string, hint: string | null = null): ErrorText {
  return { message, hint };
}

export type Sentence = string | readonly [message: string, hint: string | null];

export type Strings<Name extends string> = Readonly<Record<Name, string>>;
/** Names to suggest in place of a mistyped one: all or some of the known names, and the most similar one. */
export type Known = { readonly known: readonly string[]; readonly suggestion: string | null };

type ErrorTable = {
  readonly [Family in ErrorFamily]?: Readonly<Record<string, (facts: never) => Sentence>>;
};
type CodeOf<Table> = {
  [Family in keyof Table & ErrorFamily]: keyof Table[Family];
}[keyof Table & ErrorFamily] &
  string;
type FactsOf<Table, Code> = {
  [Family in keyof Table & ErrorFamily]: Code extends keyof Table[Family]
    ? FactsOfSentence<Table[Family][Code]>
    : never;
}[keyof Table & ErrorFamily];
type FactsOfSentence<Say> = Say extends () => Sentence
  ? Readonly<Record<never, never>>
  : Say extends (facts: infer F) => Sentence
    ? Readonly<F>
    : never;

const SENTENCES = new Map<string, unknown>();

/** Returns a function that creates the errors in a table. `retryable` lists codes that a retry may resolve. */
export function defineErrors<Table extends ErrorTable>(
  table: Table & { readonly retryable?: readonly CodeOf<Table>[] },
) {
  const families = new Map<string, ErrorFamily>();
  for (const family of ERROR_FAMILIES) {
    for (const [code, sentence] of Object.entries(table[family] ?? {})) {
      families.set(code, family);
      SENTENCES.set(code, sentence);
    }
  }
  return <Code extends CodeOf<Table>>(
    code: Code,
    facts: FactsOf<Table, Code>,
    cause?: unknown,
    retryable = table.retryable?.includes(code) ?? false,
  ): MailkeepError<Code, FactsOf<Table, Code>> =>
    new MailkeepError(families.get(code) as ErrorFamily, code, facts, { cause, retryable });
}

export function hasCode<C extends string>(error: unknown, code: C): error is MailkeepError<C> {
  return error instanceof MailkeepError && error.code === code;
}

/** Reports whether an error indicates damaged data, which does not prevent other data from being read. */
export function isDamage(error: unknown): error is MailkeepError {
  return error instanceof MailkeepError && error.family === 'damage';
}

/** The form in which an error is sent between threads, because its class and code would otherwise be lost. */
export interface TransferredError {
  readonly message: string;
  readonly code: string;
  /** Present only for mailkeep's own errors. */
  readonly ours?: { readonly family: ErrorFamily; readonly facts: Facts };
}

export function serializeError(error: unknown): TransferredError {
  const thrown = {
    message: error instanceof Error ? error.message : String(error),
    code: errnoName(error),
  };
  if (!(error instanceof MailkeepError)) return thrown;
  const { family, facts } = error;
  return { ...thrown, ours: { family, facts } };
}

/** Restores a mailkeep error, or creates an Error with the same message and code. */
export function deserializeError({ message, code, ours }: TransferredError): Error {
  if (ours !== undefined) return new MailkeepError(ours.family, code, ours.facts);
  return Object.assign(new Error(message), { code });
}

/** Returns the errno name of a file system error (`EACCES`), or undefined for any other error. */
export function errnoOf(error: unknown): string | undefined {
  const code = codeOf(error);
  return code !== undefined && /^E[A-Z0-9]+$/.test(code) ? code : undefined;
}

/** An error raised before a configuration exists, when different advice applies. */
export class UnconfiguredError extends MailkeepError {
  constructor(
    error: MailkeepError,
    readonly hint: string,
  ) {
    super(error.family, error.code, error.facts, { cause: error });
  }
}

/** Returns the code of a system or Node.js error (`ENOSPC`, `ERR_…`), or `unknown` if it has none. */
export function errnoName(error: unknown): string {
  return codeOf(error) ?? 'unknown';
}

function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

export const EXIT = {
  done: 0,
  failures: 1,
  usage: 2,
  damage: 3,
  held: 4,
  inUse: 5,
  refused: 6,
  interrupted: 130,
} as const;
export type ExitCode = (typeof EXIT)[keyof typeof EXIT];

export const EXIT_OF_FAMILY: Readonly<Record<ErrorFamily, ExitCode>> = {
  usage: EXIT.usage,
  config: EXIT.usage,
  damage: EXIT.damage,
  held: EXIT.held,
  'in-use': EXIT.inUse,
  auth: EXIT.refused,
  origin: EXIT.failures,
  disk: EXIT.failures,
  mail: EXIT.failures,
  interrupted: EXIT.interrupted,
};

const PRECEDENCE: readonly ExitCode[] = [
  EXIT.interrupted,
  EXIT.usage,
  EXIT.inUse,
  EXIT.damage,
  EXIT.refused,
  EXIT.held,
  EXIT.failures,
];

export function combineExitCodes(codes: Iterable<ExitCode>): ExitCode {
  const all = new Set(codes);
  return PRECEDENCE.find((code) => all.has(code)) ?? EXIT.done;
}

export function exitCodeFor(error: unknown): ExitCode {
  return error instanceof MailkeepError ? EXIT_OF_FAMILY[error.family] : EXIT.failures;
}

export const EXIT_STATUS_HELP = `
EXIT STATUS
  0    done
  1    done, with failures that the output lists
  2    wrong usage or configuration
  3    damage found in the archive
  4    pending deletions: messages disappeared at the service
  5    the archive is in use by another process
  6    the token, password or sign-in was refused
  130  interrupted`;

/** Error code for a pipe, socket or device where a file is expected, for which there is no errno. */
export const NOT_REGULAR = 'ENOTREG';

/** Maximum width of a name in a list, in columns. */
const MOST = 200;

/** Returns a readable list: `a, b and 3 more`. */
export function shortList(names: readonly string[], limit = 3): string {
  const others = names.length - limit;
  const cut = (others > 1 ? names.slice(0, limit) : names).map((name) => fitColumns(name, MOST));
  return others > 1 ? `${cut.join(', ')} and ${others} more` : cut.join(', ');
}

/** Describes SQLite result codes that concern the disk. Returns undefined for those that concern a statement. */
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

/** Returns `Did you mean "from:"? …`, or only `otherwise` if there is no suggestion. Truncates long names. */
export function didYouMean(suggestion: string | null, otherwise = ''): string {
  if (suggestion === null) return otherwise;
  return `Did you mean "${fitColumns(suggestion, MOST)}"? ${otherwise}`.trimEnd();
}

const NO_TLS =
  'this port does not speak TLS: the address must begin with http, or have another port';

/** Returns somebody else's words as the end of a sentence, to which the caller adds the full stop. */
export function endOfSentence(words: string): string {
  const line = terminalLine(words);
  let end = line.length;
  while ('.!? '.includes(line[end - 1] ?? '-')) end -= 1;
  return line.slice(0, end);
}

/** Describes an errno in plain words, and appends its name to help web searches. */
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
    ERR_SSL_WRONG_VERSION_NUMBER: NO_TLS,
    ERR_SSL_PACKET_LENGTH_TOO_LONG: NO_TLS,
    UND_ERR_SOCKET: 'the connection was closed; a port that expects https does that to http',
    HPE_INVALID_CONSTANT:
      'the answer is not HTTP; a port that expects https answers http like that',
  };
  if (errno === NOT_REGULAR) return 'it is not a regular file';
  const text = words[errno] ?? sqliteText(errno);
  return text === undefined ? endOfSentence(errno) : `${text} (${errno})`;
}

export function capitalise(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}

const CHECK = 'Check the permissions, and whether the file system is read-only or full.';

const DONE: Readonly<Record<string, string>> = {
  open: 'opened',
  read: 'read',
  scandir: 'read',
  opendir: 'read',
  stat: 'read',
  lstat: 'read',
  access: 'used',
  mkdir: 'created',
  mkdtemp: 'created',
  unlink: 'removed',
  rmdir: 'removed',
  rm: 'removed',
  rename: 'renamed',
  chmod: 'changed',
  copyfile: 'copied',
};

/** Describes a system or SQLite error that has no mailkeep code. Returns undefined for any other error. */
function describeSystem(error: unknown): (ErrorText & { readonly code: string }) | undefined {
  if (!(error instanceof Error)) return undefined;
  const code = 'system-error';
  if (error.name === 'SqliteError' && 'code' in error) {
    const reason = reasonText(String(error.code));
    // A code without a description means a faulty SQL statement, which is a bug.
    if (reason === String(error.code)) return undefined;
    return { code, ...say(`A database of the archive cannot be used: ${reason}.`, CHECK) };
  }
  const errno = errnoOf(error);
  if (errno === undefined || !('syscall' in error)) return undefined;
  const syscall = String(error.syscall);
  const reason = reasonText(errno);
  return 'path' in error && typeof error.path === 'string'
    ? { code, ...say(`${error.path} cannot be ${DONE[syscall] ?? 'written'}: ${reason}.`, CHECK) }
    : { code, ...say(`The system refused "${syscall}": ${reason}.`, CHECK) };
}

const BUG_HINT =
  'This is a bug in mailkeep. Please report it with the command line; MAILKEEP_DEBUG=1 shows where it happened.';

/** Hint for errors received from another program, such as a fleet node. */
const OTHER_VERSION_HINT =
  'This version of mailkeep has other facts in this error. If another node sent it, use the same version on both.';

/** Returns the code, sentence and hint for any thrown value. */
export function describeError(error: unknown): { code: string } & ErrorText {
  if (error instanceof MailkeepError) {
    const text = describeFacts(error.code, error.facts);
    const hint = error instanceof UnconfiguredError ? error.hint : text.hint;
    return { code: error.code, ...text, hint };
  }
  const system = describeSystem(error);
  if (system !== undefined) return { ...system, message: terminalSafe(system.message) };
  const what = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return { code: 'bug', ...say(terminalSafe(`Unexpected error: ${what}`), BUG_HINT) };
}

export function describeFacts(code: string, facts: MailkeepError['facts']): ErrorText {
  const sentence = SENTENCES.get(code);
  const raw = terminalSafe(`${code} ${JSON.stringify(facts)}`);
  if (typeof sentence !== 'function') return say(raw, BUG_HINT);
  const text = tryText(() => sentence(facts));
  if (text === null) return say(raw, OTHER_VERSION_HINT);
  return {
    message: terminalSafe(text.message),
    hint: text.hint === null ? null : terminalSafe(text.hint),
  };
}

/** Returns null if the sentence does not fit the facts. */
function tryText(sentence: () => Sentence): ErrorText | null {
  try {
    const text = sentence();
    const [message, hint = null] = typeof text === 'string' ? [text] : text;
    return typeof message === 'string' ? { message, hint } : null;
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}
