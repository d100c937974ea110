/**
 * What a program may branch on. A family decides the exit code of a command; the code names the one
 * condition; the facts fill the sentence that `wording/` has for it.
 */
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

/** Facts are plain values: they are printed, logged and sent as JSON, so never put a secret or mail text in one. */
export type Facts = Readonly<Record<string, string | number | boolean | null | readonly string[]>>;

/**
 * The one base of every error that mailkeep raises on purpose. Anything else that reaches the top is a bug
 * and is reported as one.
 */
export class MailkeepError<Code extends string = string, F extends Facts = Facts> extends Error {
  override readonly name: string = 'MailkeepError';

  constructor(
    readonly family: ErrorFamily,
    readonly code: Code,
    readonly facts: F,
    options: { readonly cause?: unknown; readonly retryable?: boolean } = {},
  ) {
    // The message is for logs and stack traces only; users read the sentence made from code and facts.
    super(
      `${code} ${JSON.stringify(facts)}`,
      options.cause === undefined ? {} : { cause: options.cause },
    );
    this.retryable = options.retryable ?? false;
  }

  /** True when the same act may succeed later without anybody changing anything. */
  readonly retryable: boolean;
}

/**
 * Returns the function that makes the errors of a table of codes and their facts.
 *
 * @param families the family of all of them, or of each
 * @param exceptions codes of other families
 * @param retryable codes of those that may pass without anybody changing anything
 */
export function errorsOf<Table extends { readonly [Code in keyof Table]: Facts }>(
  families: ErrorFamily | { readonly [Code in keyof Table]: ErrorFamily },
  exceptions: { readonly [Code in keyof Table]?: ErrorFamily } = {},
  retryable: readonly (keyof Table)[] = [],
) {
  return <Code extends keyof Table & string>(
    code: Code,
    facts: Table[Code],
    cause?: unknown,
  ): MailkeepError<Code, Table[Code]> => {
    const family = exceptions[code] ?? (typeof families === 'string' ? families : families[code]);
    return new MailkeepError(family, code, facts, { cause, retryable: retryable.includes(code) });
  };
}

/** True for an error with this code, whatever its family. */
export function hasCode<C extends string>(error: unknown, code: C): error is MailkeepError<C> {
  return error instanceof MailkeepError && error.code === code;
}

/** An error on its way between threads, which keep no class and no code. */
export interface Thrown {
  readonly message: string;
  readonly code: string;
  /** Of an error of ours. */
  readonly ours?: { readonly family: ErrorFamily; readonly facts: Facts };
}

/** Returns what is left of an error when it is sent to another thread. */
export function thrownBy(error: unknown): Thrown {
  const thrown = {
    message: error instanceof Error ? error.message : String(error),
    code: errnoName(error),
  };
  if (!(error instanceof MailkeepError)) return thrown;
  const { family, facts } = error;
  return { ...thrown, ours: { family, facts } };
}

/** Returns an error of ours again, or one like the system's own: with its message and code. */
export function rethrown({ message, code, ours }: Thrown): Error {
  if (ours !== undefined) return new MailkeepError(ours.family, code, ours.facts);
  return Object.assign(new Error(message), { code });
}

/** The errno name of a file system error (`EACCES`), or undefined for any other error. */
export function errnoOf(error: unknown): string | undefined {
  const code = codeOf(error);
  return code !== undefined && /^E[A-Z0-9]+$/.test(code) ? code : undefined;
}

/** An error while there is no configuration yet: what to do about it is something else. */
export class BeforeConfiguration extends MailkeepError {
  constructor(error: MailkeepError) {
    super(error.family, error.code, error.facts, { cause: error });
  }
}

/** The code that an error of the system or of Node.js carries (`ENOSPC`, `ERR_…`); `unknown` when it has none. */
export function errnoName(error: unknown): string {
  return codeOf(error) ?? 'unknown';
}

function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}
