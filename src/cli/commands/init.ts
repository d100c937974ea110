import { existsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { testWriting } from '../../archive/file-system.ts';
import { isLoopback, parseServiceUrl, withScheme } from '../../core/address.ts';
import { DEFAULT_DATA_DIR, locateConfig } from '../../core/config-locate.ts';
import type { ConfigInput, TokenSource } from '../../core/config-schema.ts';
import { configError, usageError } from '../../core/error-tables.ts';
import { describeError, errnoOf, MailkeepError, UnconfiguredError } from '../../core/errors.ts';
import { makeFolders } from '../../core/files.ts';
import { DEFAULT_REQUESTS_PER_MINUTE, MAX_REQUESTS_PER_MINUTE } from '../../core/quantities.ts';
import { readToken, Secret } from '../../core/secrets.ts';
import { shellWord } from '../../core/terminal-safe.ts';
import { count, counted, span } from '../../core/text.ts';
import { originError } from '../../service/errors.ts';
import { AccountOrigins } from '../../sync/account-origins.ts';
import { type Forecast, forecast } from '../../sync/plan/plan-folder.ts';
import { type Prompter, readStdinText, terminalPrompter } from '../ask.ts';
import {
  action,
  type CommandContext,
  type Flags,
  invalidUsage,
  type Register,
  refuse,
  type Values,
} from '../context.ts';
import type { ImapInitOptions } from '../init-imap.ts';
import { wholeNumber } from '../option-values.ts';
import { displayName, joinReport } from '../output.ts';
import { forecastText, isLong, timeText } from '../progress.ts';

const EVERYTHING = { include: ['*'], exclude: [] };

/**
 * Returns the mailboxes within a token's scope, with their folders and message counts. Sends one request, plus one per
 * mailbox.
 * @throws errors from the service, such as auth.refused
 */
async function reachOf(context: CommandContext, baseUrl: string, secret: Secret) {
  const token = { kind: 'literal', secret, name: 'given to init' } as const;
  const origins = new AccountOrigins({
    accounts: [
      {
        ...{ kind: 'api', name: 'main', baseUrl, insecure: false, token, platform: null },
        ...{ mailboxes: EVERYTHING, folders: EVERYTHING },
      },
    ],
    rateLimit: { requestsPerMinute: 60, concurrency: 1 },
    env: context.environment.env,
    spoolDir: tmpdir(),
    dataDir: tmpdir(),
    // Fails early: the user is waiting, and the address may be mistyped.
    retries: { attempts: 2 },
  });
  const [origin] = origins.all().map((account) => origins.fresh(account));
  try {
    const reach = [];
    const mailboxes = await origin?.mailboxes(context.signal);
    for (const { resourceId, address } of mailboxes ?? []) {
      const entries = (await origin?.folders(resourceId, context.signal))?.folders ?? [];
      const folders = entries.map(({ path: folder, messageCount: messages }) => {
        return { folder, messages };
      });
      reach.push({ resourceId, address, folders });
    }
    return reach;
  } finally {
    await origins.close();
  }
}

type Reach = Awaited<ReturnType<typeof reachOf>>;

const FASTER = [120, 300];

function firstSync(reach: Reach, requestsPerMinute: number): Forecast {
  return forecast({
    mailboxes: reach.length,
    folders: reach.flatMap(({ folders }) =>
      folders.map(({ messages }) => ({ messages, known: 0 })),
    ),
    sizes: { count: 0, bytes: 0 },
    requestsPerMinute,
  });
}

/** Prompts for the request rate if the first sync would take a long time at the default rate. */
async function chooseRate(
  { notices }: CommandContext,
  reach: Reach,
  prompter: Prompter | undefined,
): Promise<number> {
  const fallback = DEFAULT_REQUESTS_PER_MINUTE;
  if (prompter === undefined || !isLong(firstSync(reach, fallback))) return fallback;
  const times = [fallback, ...FASTER].map(
    (rate) => `${count(rate)}: ${span(firstSync(reach, rate).hours * 3_600_000)}`,
  );
  notices.say(
    `Time of the first sync by requests a minute: ${times.join('; ')}. A service may block an address for a while after too many requests: if you do not know its limit, begin with ${fallback}.`,
  );
  for (;;) {
    const typed = await prompter.line('Requests a minute', String(fallback));
    const rate = Number(typed);
    if (/^\d+$/.test(typed) && rate > 0 && rate <= MAX_REQUESTS_PER_MINUTE) return rate;
    notices.stream.write(
      `"${typed}" is not a whole number from 1 to ${MAX_REQUESTS_PER_MINUTE}.\n`,
    );
  }
}

type InitOptions = Values<'baseUrl' | 'tokenEnv' | 'tokenFile'> &
  Values<'rate', number> &
  Flags<'yes'> &
  ImapInitOptions;

/**
 * Collects values from the options, and prompts for missing ones on a terminal. Tests the token at the service first.
 * Prompts again after a typing error; throws if an option is wrong.
 * @param onReach called with the token's mailboxes as soon as they are known
 * @throws config-exists before any prompt; usage-not-interactive listing all missing options; errors from the service
 */
async function collectInputs(
  context: CommandContext,
  options: InitOptions,
  onReach: (reach: Reach) => void,
) {
  const file = newConfigFile(context);
  const prompter = terminalPrompter(context);
  const kept = givenToken(options, context.environment.cwd);
  const newTokenFile = kept === null ? newFileNextTo(file, 'token') : null;
  const piped = kept === null && prompter === undefined ? await readStdinText(context.stdin()) : '';
  if (prompter === undefined) {
    const needsToken = kept === null && piped === '';
    const missing = joinReport([
      options.baseUrl === undefined && '--base-url (or --imap for a mailbox on an IMAP server)',
      needsToken && 'a token (--token-env, --token-file, or on standard input)',
    ]);
    if (missing.length > 0) throw usageError('usage-not-interactive', { command: 'init', missing });
  }
  const access = await accessTo(context, prompter, options.baseUrl, kept ?? piped);
  onReach(access.reach);
  const quiet = options.yes === true ? undefined : prompter;
  const dataDir = await dataDirectory(context, file, quiet);
  const requestsPerMinute = options.rate ?? (await chooseRate(context, access.reach, quiet));
  return { prompter, inputs: { file, newTokenFile, ...access, dataDir, requestsPerMinute } };
}

/**
 * Returns the path of the configuration to write.
 * @throws config-exists
 */
function newConfigFile({ environment: { cwd, env }, globals }: CommandContext): string {
  const file = path.resolve(cwd, globals.config ?? env.MAILKEEP_CONFIG ?? 'config.json');
  if (existsSync(file)) throw configError('config-exists', { file });
  return file;
}

/** @throws config-exists */
function newFileNextTo(config: string, name: string): string {
  const file = path.join(path.dirname(config), name);
  if (existsSync(file)) throw configError('config-exists', { file });
  return file;
}

type Inputs = Awaited<ReturnType<typeof collectInputs>>['inputs'];

async function accessTo(
  context: CommandContext,
  prompter: Prompter | undefined,
  givenUrl: string | undefined,
  given: TokenSource | string,
) {
  const { env } = context.environment;
  let baseUrl = givenUrl === undefined ? undefined : serviceAddress(givenUrl);
  let token = typeof given === 'string' ? (given === '' ? undefined : literalToken(given)) : given;
  const typed = { url: baseUrl === undefined, token: token === undefined };
  for (;;) {
    baseUrl ??= await promptForAddress(context, prompter);
    token ??= await promptForToken(context, prompter);
    try {
      const secret = await readToken(token, env);
      const reach = await reachOf(context, baseUrl, secret);
      return { baseUrl, token, secret, reach };
    } catch (error) {
      const about = prompter === undefined ? undefined : classifyMistake(error);
      if (about === undefined || !typed[about]) {
        const hint = error instanceof MailkeepError ? ADVICE.get(error.family) : undefined;
        throw error instanceof MailkeepError && hint !== undefined
          ? new UnconfiguredError(error, hint)
          : error;
      }
      showMistake(context, error);
      if (about === 'token') token = undefined;
      else baseUrl = undefined;
    }
  }
}

/** Advice by family of the error. The usual advice refers to a configuration, which does not exist yet. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  [
    'auth',
    'Check that the token was copied whole and belongs to this service, or create a new one in the panel of your mail service.',
  ],
  [
    'origin',
    'Check the address of the service and the network, and run "mailkeep init" again. Nothing was written.',
  ],
]);

/** Returns whether the URL or the token caused an error; undefined if neither did. */
function classifyMistake(error: unknown): 'url' | 'token' | undefined {
  if (!(error instanceof MailkeepError)) return undefined;
  if (error.family === 'auth' || error.code.startsWith('token-')) return 'token';
  return error.family === 'origin' ? 'url' : undefined;
}

async function promptForAddress(
  context: CommandContext,
  prompter: Prompter | undefined,
): Promise<string> {
  let suggestion: string | undefined;
  context.notices.say('For a mailbox on an IMAP server: mailkeep init --imap ADDRESS');
  for (;;) {
    const typed = (await prompter?.line('Address of the mail service', suggestion)) ?? '';
    try {
      return serviceAddress(typed);
    } catch (error) {
      if (prompter === undefined) throw error;
      showMistake(context, error);
      suggestion = withScheme(typed.trim()) ?? undefined;
    }
  }
}

async function promptForToken(
  context: CommandContext,
  prompter: Prompter | undefined,
): Promise<TokenSource> {
  for (;;) {
    const typed = (await prompter?.secret('Token')) ?? '';
    if (typed !== '' || prompter === undefined) return literalToken(typed);
    context.notices.stream.write(
      'Enter the token that the panel of your mail service showed once.\n',
    );
  }
}

function literalToken(text: string): TokenSource {
  return { kind: 'literal', secret: new Secret(text), name: 'given to init' };
}

/** Shown even with --quiet, because another prompt follows. */
function showMistake({ notices }: CommandContext, error: unknown): void {
  notices.stream.write(`${describeError(error).message}\n`);
}

function givenToken({ tokenEnv, tokenFile }: InitOptions, cwd: string): TokenSource | null {
  if (tokenEnv !== undefined && tokenFile !== undefined)
    throw invalidUsage('init', 'only one of --token-env and --token-file can be given.');
  if (tokenEnv !== undefined) return { kind: 'env', name: tokenEnv };
  return tokenFile === undefined ? null : { kind: 'file', name: path.resolve(cwd, tokenFile) };
}

function serviceAddress(text: string): string {
  const url = text.trim();
  const refuse = (problem: 'no-url' | 'scheme' | 'extras' | 'insecure', shown = url) =>
    originError('base-url-invalid', { url: shown, problem });
  if (!URL.canParse(url)) throw refuse('no-url');
  const { protocol, hostname } = new URL(url);
  if (protocol !== 'https:' && protocol !== 'http:') throw refuse('scheme');
  if (parseServiceUrl(url) === undefined) throw refuse('extras', hostname);
  if (protocol === 'http:' && !isLoopback(hostname)) throw refuse('insecure');
  return url.replace(/\/+$/, '');
}

/** Returns a writable folder, from `--data` or a prompt. */
async function dataDirectory(
  context: CommandContext,
  file: string,
  prompter: Prompter | undefined,
): Promise<string> {
  const { globals, environment } = context;
  const fallback = `./${DEFAULT_DATA_DIR}`;
  const folder = path.dirname(file);
  if (globals.data !== undefined) {
    const { error } = testWriting(path.resolve(environment.cwd, globals.data));
    if (error !== undefined) throw error;
    return rebasePath(globals.data, environment.cwd, folder);
  }
  if (prompter === undefined) return fallback;
  for (;;) {
    const typed = await prompter.line(
      'Folder of the archive, relative to the configuration',
      fallback,
    );
    const { error } = testWriting(path.resolve(folder, typed));
    if (error === undefined) return typed === fallback ? typed : rebasePath(typed, folder, folder);
    showMistake(context, error);
  }
}

/** Returns a relative folder as it must appear in the configuration, where paths are relative to the file's folder. */
function rebasePath(folder: string, base: string, configured: string): string {
  if (path.isAbsolute(folder)) return folder;
  const relative = path.relative(configured, path.resolve(base, folder));
  return relative.startsWith('..') || path.isAbsolute(relative) ? relative : `./${relative}`;
}

const HELP = `
For a mailbox on an IMAP server, give its address with --imap. Without it, the account is one of the hosted mail
service: its address and a token.

On a terminal, asks for whatever is missing, and asks again after an invalid answer. Elsewhere, everything must
be given as options, and nothing is asked, so --yes is not needed; the token or password comes from standard input,
from the environment or from a file. It is tried before init asks or writes anything else.

At the hosted service, the first sync takes one request for each message: 50,000 messages take 14 hours at 60
requests a minute, the default that init proposes. Ask your provider for the service's limit. When the service refuses requests,
mailkeep slows down, and "mailkeep status" shows the rate it learned. You can change
rateLimit.requestsPerMinute at any time.

With --imap, init finds the server in DNS, knows those of large providers, or asks. It asks before it sends the
password to a server in another domain than the address; with --yes, name that server with --host. The password is
that of the mailbox, or an app password. For OAuth, write the configuration as docs/imap.md shows.

The configuration is written to ./config.json or the file given with --config, and the token or password to a file
next to it. Only you can read them. No file is ever overwritten.

EXAMPLES
  mailkeep init
  mailkeep init --imap ada@example.org
  mailkeep init --imap ada@example.org --host imap.example.org --yes <password.txt
  mailkeep init --base-url https://mail-api.example.com --data ~/mail --yes <token.txt
  mailkeep init --base-url https://mail-api.example.com --token-env MAIL_TOKEN --yes`;

export const register: Register = (command, run) => {
  command
    .option('--base-url <url>', 'address of the hosted mail service')
    .option('--token-env <name>', 'environment variable that holds the token')
    .option('--token-file <file>', 'file that holds the token')
    .option(
      '--rate <n>',
      'maximum requests per minute (default: 60)',
      wholeNumber(1, MAX_REQUESTS_PER_MINUTE),
    )
    .option('--imap <address>', 'address of a mailbox on an IMAP server')
    .option('--host <name>', 'with --imap: the IMAP server (default: found in DNS)')
    .option('--port <n>', 'with --imap: its port', wholeNumber(1, 65_535))
    .option('--tls <mode>', 'with --imap: implicit, starttls or none (default: implicit)')
    .option('--user <name>', 'with --imap: the user to sign in (default: the address)')
    .option('--password-env <name>', 'with --imap: environment variable that holds the password')
    .option('--password-file <file>', 'with --imap: file that holds the password')
    .option('--yes', 'write without asking')
    .addHelpText('after', HELP)
    .action(action(run, initialise));
};

async function initialise(context: CommandContext, options: InitOptions): Promise<void> {
  const { baseUrl, tokenEnv, tokenFile } = options;
  const ofApi = [baseUrl, tokenEnv, tokenFile, options.rate];
  const { host, port, tls, user, passwordEnv, passwordFile } = options;
  const ofImap = [host, port, tls, user, passwordEnv, passwordFile];
  const isGiven = (one: unknown): boolean => one !== undefined;
  refuse('init', {
    '--base-url, --token-env, --token-file and --rate do not go with --imap.':
      options.imap !== undefined && ofApi.some(isGiven),
    '--host, --port, --tls, --user, --password-env and --password-file need --imap.':
      options.imap === undefined && ofImap.some(isGiven),
  });
  if (options.imap !== undefined) return initialiseImap(context, options);
  const rate = options.rate ?? DEFAULT_REQUESTS_PER_MINUTE;
  const { inputs, prompter } = await collectInputs(context, options, (reach) => {
    context.notices.say(reachText(reach));
    context.notices.say(forecastText(firstSync(reach, rate)));
  });
  const { reach, secret, requestsPerMinute } = inputs;
  const ahead = firstSync(reach, requestsPerMinute);
  if (requestsPerMinute !== rate) context.notices.say(timeText(ahead));
  if (options.yes !== true) await prompter?.agree(`Write ${inputs.file}?`);
  if (inputs.newTokenFile !== null) writeNewFile(inputs.newTokenFile, `${secret.reveal()}\n`);
  writeNewFile(inputs.file, `${JSON.stringify(configuration(inputs), null, 2)}\n`);
  const { mailboxes, messages, requests, hours } = ahead;
  await context.output.object(
    {
      config: inputs.file,
      tokenFile: inputs.newTokenFile,
      dataDir: path.resolve(path.dirname(inputs.file), inputs.dataDir),
      mailboxes: reach,
      requestsPerMinute,
      firstSync: { mailboxes, folders: ahead.folders, messages, requests, hours },
    },
    () => summaryText(inputs, context),
  );
}

async function initialiseImap(context: CommandContext, options: InitOptions): Promise<void> {
  const file = newConfigFile(context);
  const folder = path.dirname(file);
  const prompter = terminalPrompter(context);
  const { passwordEnv, passwordFile } = options;
  const isNew = passwordEnv === undefined && passwordFile === undefined;
  const newFile = isNew ? newFileNextTo(file, 'main.password') : null;
  const { collectImapAccount, imapEntry, imapReachText } = await import('../init-imap.ts');
  const input = await collectImapAccount(context, options, prompter);
  const { server, user, folders, firstSync, given, secret } = input;
  context.notices.say(imapReachText(input, context));
  const quiet = options.yes === true ? undefined : prompter;
  const dataDir = await dataDirectory(context, file, quiet);
  await quiet?.agree(`Write ${file}?`);
  const password = { file: relativeTo(folder, newFile ?? given?.name ?? '') };
  const accounts = [imapEntry(input, password)];
  if (newFile !== null) writeNewFile(newFile, `${secret.reveal()}\n`);
  writeNewFile(file, `${JSON.stringify({ dataDir, accounts }, null, 2)}\n`);
  await context.output.object(
    {
      config: file,
      passwordFile: newFile,
      dataDir: path.resolve(folder, dataDir),
      ...{ server, user, folders, firstSync },
    },
    () => summaryText({ file, newTokenFile: newFile }, context),
  );
}

function reachText(reach: Reach): string {
  const lines = reach.map(({ address, folders }) => {
    const messages = folders.reduce((sum, folder) => sum + folder.messages, 0);
    return `  ${displayName(address)}: ${counted(messages, 'message')} in ${counted(folders.length, 'folder')}`;
  });
  return [
    `The token is valid. It reaches ${counted(reach.length, 'mailbox', 'mailboxes')}:`,
    ...lines,
  ].join('\n');
}

function configuration(inputs: Inputs): ConfigInput {
  const { baseUrl, token, newTokenFile, dataDir, file, requestsPerMinute } = inputs;
  const folder = path.dirname(file);
  const tokenFile = newTokenFile ?? (token.kind === 'env' ? null : token.name);
  return {
    dataDir,
    accounts: [
      {
        name: 'main',
        baseUrl,
        token: tokenFile === null ? { env: token.name } : { file: relativeTo(folder, tokenFile) },
      },
    ],
    ...(requestsPerMinute === DEFAULT_REQUESTS_PER_MINUTE
      ? {}
      : { rateLimit: { requestsPerMinute } }),
  };
}

/** Returns a path as it appears in a configuration in `folder`. */
function relativeTo(folder: string, target: string): string {
  const relative = path.relative(folder, target);
  return relative.startsWith('..') || path.isAbsolute(relative) ? target : `./${relative}`;
}

function summaryText(
  { file, newTokenFile }: Pick<Inputs, 'file' | 'newTokenFile'>,
  { globals, environment }: CommandContext,
): string {
  const written = newTokenFile === null ? file : `${file} and ${newTokenFile}`;
  // Without --config, the next command would find another configuration or none.
  const isFound = locateConfig(undefined, environment) === file;
  const option = globals.config === undefined || isFound ? '' : ` --config ${shellWord(file)}`;
  return `Written: ${written}.\nNow run "mailkeep sync${option}".`;
}

/**
 * Durably writes a new file with mode 0600.
 * @throws config-exists if it exists; usage-save-failed if it cannot be written
 */
function writeNewFile(file: string, text: string): void {
  try {
    makeFolders(path.dirname(file), 0o700);
    writeFileSync(file, text, { mode: 0o600, flag: 'wx', flush: true });
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    if (reason === 'EEXIST') throw configError('config-exists', { file });
    throw usageError('usage-save-failed', { file, reason });
  }
}
