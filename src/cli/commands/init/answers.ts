import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { isLoopback, parseServiceUrl, withScheme } from '../../../config/address.ts';
import { DEFAULT_DATA_DIR } from '../../../config/located-fields.ts';
import { DEFAULT_REQUESTS_PER_MINUTE, MOST_REQUESTS_PER_MINUTE } from '../../../config/rate.ts';
import { Secret } from '../../../config/secret.ts';
import type { TokenSource } from '../../../config/settings.ts';
import { readToken } from '../../../config/token.ts';
import { AccountOrigins } from '../../../engine/origins/account-origins.ts';
import { configError } from '../../../errors/config.ts';
import { BeforeConfiguration, MailkeepError } from '../../../errors/mailkeep-error.ts';
import { originError } from '../../../errors/origin.ts';
import { usageError } from '../../../errors/usage.ts';
import { type Forecast, forecast } from '../../../sync/plan/forecast.ts';
import { count, span } from '../../../wording/amounts.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import { type Asker, pipedText, terminalAsker } from '../../ask.ts';
import type { CommandContext } from '../../context.ts';
import { isLong } from '../../progress/progress-text.ts';
import { tryWriting } from '../../writable-folder.ts';

/** What a token shows of one mailbox: its folders and how many messages each says it has. */
export interface Reach {
  readonly resourceId: string;
  readonly address: string;
  readonly folders: readonly { readonly folder: string; readonly messages: number }[];
}

/**
 * Asks the service what the token reaches: one request, and one for each mailbox.
 *
 * @throws what the service refuses, such as auth.refused
 */
export async function reachOf(
  context: CommandContext,
  baseUrl: string,
  secret: Secret,
): Promise<Reach[]> {
  const token = { kind: 'literal', secret, name: 'given to init' } as const;
  const origins = new AccountOrigins({
    accounts: [{ name: 'main', baseUrl, insecure: false, token }],
    rateLimit: { requestsPerMinute: 60, concurrency: 1 },
    env: context.surroundings.env,
    spoolDir: tmpdir(),
    // Somebody waits, and the address may be mistyped.
    retries: { attempts: 2 },
  });
  const [origin] = origins.all().map((account) => origins.fresh(account));
  try {
    const reach: Reach[] = [];
    const listed = await origin?.mailboxes(context.signal);
    for (const { resourceId, address } of listed ?? []) {
      const { folders = [] } = (await origin?.folders(resourceId, context.signal)) ?? {};
      reach.push({
        resourceId,
        address,
        folders: folders.map(({ path: folder, messageCount: messages }) => ({ folder, messages })),
      });
    }
    return reach;
  } finally {
    await origins.close();
  }
}

/** Shown for comparison. */
const FASTER = [120, 300];

/** What a first sync of these mailboxes takes at a rate. */
export function firstSync(reach: readonly Reach[], requestsPerMinute: number): Forecast {
  return forecast({
    mailboxes: reach.length,
    folders: reach.flatMap(({ folders }) =>
      folders.map(({ messages }) => ({ messages, known: 0 })),
    ),
    sizes: { count: 0, bytes: 0 },
    requestsPerMinute,
  });
}

/** Asks how many requests a minute to make, where the usual rate makes the first sync long; else returns that rate. */
export async function chosenRate(
  { notices }: CommandContext,
  reach: readonly Reach[],
  asker: Asker | undefined,
): Promise<number> {
  const usual = DEFAULT_REQUESTS_PER_MINUTE;
  if (asker === undefined || !isLong(firstSync(reach, usual))) return usual;
  const times = [usual, ...FASTER].map(
    (rate) => `${count(rate)}: ${span(firstSync(reach, rate).hours * 3_600_000)}`,
  );
  notices.say(
    `Time of the first sync by requests a minute: ${times.join('; ')}. A service may block an address for a while after too many requests: if you do not know its limit, begin with ${usual}.`,
  );
  for (;;) {
    const typed = await asker.line('Requests a minute', String(usual));
    const rate = Number(typed);
    if (/^\d+$/.test(typed) && rate > 0 && rate <= MOST_REQUESTS_PER_MINUTE) return rate;
    notices.stream.write(
      `"${typed}" is not a whole number from 1 to ${MOST_REQUESTS_PER_MINUTE}.\n`,
    );
  }
}

export interface InitOptions {
  readonly baseUrl?: string;
  readonly tokenEnv?: string;
  readonly tokenFile?: string;
  /** Requests a minute. */
  readonly rate?: number;
  readonly yes?: boolean;
}

/** All that a configuration is made of, with nothing written yet. */
export interface Answers {
  /** Absolute path of the configuration to be. */
  readonly file: string;
  readonly baseUrl: string;
  readonly token: TokenSource;
  /** The token itself. */
  readonly secret: Secret;
  /** Where a token that was typed or piped will be kept; null when it stays where it is. */
  readonly newTokenFile: string | null;
  /** What the service showed for the token. */
  readonly reach: readonly Reach[];
  /** As it will be written to the configuration. */
  readonly dataDir: string;
  readonly requestsPerMinute: number;
}

/**
 * Takes answers from the options, asks for the rest on a terminal, and refuses elsewhere. The token is tried at the
 * service before anything else is asked. What was typed by mistake is asked again; a mistake in an option is an error.
 *
 * @param onReach hears what the token reaches as soon as it is known, with what it was answered for
 * @throws config-exists before anything is asked; usage-not-interactive naming all that is missing; what the service refuses
 */
export async function collectAnswers(
  context: CommandContext,
  options: InitOptions,
  onReach: (reach: readonly Reach[]) => void,
): Promise<{ answers: Answers; asker: Asker | undefined }> {
  const { cwd, env } = context.surroundings;
  const named = context.globals.config ?? env.MAILKEEP_CONFIG;
  const file = path.resolve(cwd, named ?? 'config.json');
  if (existsSync(file)) throw configError('config-exists', { file });
  const asker = terminalAsker(context);
  const kept = givenToken(options, cwd);
  const newTokenFile = kept === null ? path.join(path.dirname(file), 'token') : null;
  if (newTokenFile !== null && existsSync(newTokenFile)) {
    throw configError('config-exists', { file: newTokenFile });
  }
  const piped = kept === null && asker === undefined ? await pipedText(context.stdin()) : '';
  if (asker === undefined) {
    const missing = [
      ...(options.baseUrl === undefined ? ['--base-url'] : []),
      ...(kept === null && piped === ''
        ? ['a token (--token-env, --token-file, or on standard input)']
        : []),
    ];
    if (missing.length > 0) throw usageError('usage-not-interactive', { command: 'init', missing });
  }
  const access = await accessTo(context, asker, options.baseUrl, kept ?? piped);
  onReach(access.reach);
  const quiet = options.yes === true ? undefined : asker;
  const dataDir = await dataDirectory(context, file, quiet);
  const requestsPerMinute = options.rate ?? (await chosenRate(context, access.reach, quiet));
  return { asker, answers: { file, newTokenFile, ...access, dataDir, requestsPerMinute } };
}

type Access = Pick<Answers, 'baseUrl' | 'token' | 'secret' | 'reach'>;

/** An address and a token that work together. What was typed is asked again until they do. */
async function accessTo(
  context: CommandContext,
  asker: Asker | undefined,
  givenUrl: string | undefined,
  given: TokenSource | string,
): Promise<Access> {
  const { env } = context.surroundings;
  let baseUrl = givenUrl === undefined ? undefined : serviceAddress(givenUrl);
  let token = typeof given === 'string' ? (given === '' ? undefined : literalToken(given)) : given;
  const typed = { url: baseUrl === undefined, token: token === undefined };
  for (;;) {
    baseUrl ??= await askedAddress(context, asker);
    token ??= await askedToken(context, asker);
    try {
      const secret = await readToken(token, env);
      const reach = await reachOf(context, baseUrl, secret);
      return { baseUrl, token, secret, reach };
    } catch (error) {
      const about = asker === undefined ? undefined : mistakeIn(error);
      if (about === undefined || !typed[about]) {
        const isOfService =
          error instanceof MailkeepError && ['auth', 'origin'].includes(error.family);
        throw isOfService ? new BeforeConfiguration(error) : error;
      }
      showMistake(context, error);
      if (about === 'token') token = undefined;
      else baseUrl = undefined;
    }
  }
}

/** Which answer an error speaks against; undefined for none. */
function mistakeIn(error: unknown): 'url' | 'token' | undefined {
  if (!(error instanceof MailkeepError)) return undefined;
  if (error.family === 'auth' || error.code.startsWith('token-')) return 'token';
  return error.family === 'origin' ? 'url' : undefined;
}

async function askedAddress(context: CommandContext, asker: Asker | undefined): Promise<string> {
  let meant: string | undefined;
  for (;;) {
    const typed = (await asker?.line('Address of the mail service', meant)) ?? '';
    try {
      return serviceAddress(typed);
    } catch (error) {
      if (asker === undefined) throw error;
      showMistake(context, error);
      meant = withScheme(typed.trim()) ?? undefined;
    }
  }
}

async function askedToken(context: CommandContext, asker: Asker | undefined): Promise<TokenSource> {
  for (;;) {
    const typed = (await asker?.secret('Token')) ?? '';
    if (typed !== '' || asker === undefined) return literalToken(typed);
    context.notices.stream.write(
      'Enter the token that the panel of your mail service showed once.\n',
    );
  }
}

function literalToken(text: string): TokenSource {
  return { kind: 'literal', secret: new Secret(text), name: 'given to init' };
}

/** Shown with --quiet as well: a question follows, which is what to do. */
function showMistake({ notices }: CommandContext, error: unknown): void {
  notices.stream.write(`${sentenceOf(error).message}\n`);
}

function givenToken({ tokenEnv, tokenFile }: InitOptions, cwd: string): TokenSource | null {
  if (tokenEnv !== undefined && tokenFile !== undefined) {
    throw usageError('usage-invalid', {
      command: 'init',
      problem: 'only one of --token-env and --token-file can be given.',
    });
  }
  if (tokenEnv !== undefined) return { kind: 'env', name: tokenEnv };
  return tokenFile === undefined ? null : { kind: 'file', name: path.resolve(cwd, tokenFile) };
}

function serviceAddress(text: string): string {
  const url = text.trim();
  if (!URL.canParse(url)) throw originError('base-url-invalid', { url, problem: 'no-url' });
  const { protocol, hostname } = new URL(url);
  if (protocol !== 'https:' && protocol !== 'http:') {
    throw originError('base-url-invalid', { url, problem: 'scheme' });
  }
  if (parseServiceUrl(url) === undefined) {
    throw originError('base-url-invalid', { url: hostname, problem: 'extras' });
  }
  if (protocol === 'http:' && !isLoopback(hostname)) {
    throw originError('base-url-invalid', { url, problem: 'insecure' });
  }
  return url.replace(/\/+$/, '');
}

/** A folder that can be written: the one of `--data`, or the answer. */
async function dataDirectory(
  context: CommandContext,
  file: string,
  asker: Asker | undefined,
): Promise<string> {
  const { globals, surroundings } = context;
  const fallback = `./${DEFAULT_DATA_DIR}`;
  const folder = path.dirname(file);
  if (globals.data !== undefined) {
    const { error } = tryWriting(path.resolve(surroundings.cwd, globals.data));
    if (error !== undefined) throw error;
    return asWritten(globals.data, surroundings.cwd, folder);
  }
  if (asker === undefined) return fallback;
  for (;;) {
    const given = await asker.line(
      'Folder of the archive, relative to the configuration',
      fallback,
    );
    const { error } = tryWriting(path.resolve(folder, given));
    if (error === undefined) return given === fallback ? given : asWritten(given, folder, folder);
    showMistake(context, error);
  }
}

/** A relative folder is written relative to the configuration, which is what it will be read as. */
function asWritten(given: string, base: string, configured: string): string {
  if (path.isAbsolute(given)) return given;
  const relative = path.relative(configured, path.resolve(base, given));
  return relative.startsWith('..') || path.isAbsolute(relative) ? relative : `./${relative}`;
}
