/** The part of `init` for an IMAP account: finds the server, signs in, and shows what a first sync would fetch. */
import path from 'node:path';
import { isImapHost } from '../core/address.ts';
import type { ConfigInput, TokenSource } from '../core/config-schema.ts';
import { usageError } from '../core/error-tables.ts';
import { describeError, hasCode, MailkeepError, UnconfiguredError } from '../core/errors.ts';
import { readPassword, Secret } from '../core/secrets.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import { bytes, count, counted, span } from '../core/text.ts';
import { fetchFolderBytes, fetchQuota, listFolders } from '../imap/commands.ts';
import { ImapConnections } from '../imap/connections.ts';
import { imapError } from '../imap/errors.ts';
import { type FoundServer, findServer } from '../imap/find-server.ts';
import { GMAIL_BYTES_PER_DAY } from '../imap/traffic.ts';
import { hoursOf } from '../sync/plan/plan-folder.ts';
import { type Prompter, readStdinText } from './ask.ts';
import { type CommandContext, type Flags, invalidUsage, type Values } from './context.ts';
import { displayName, tableText, wrapLine } from './output.ts';

export type ImapInitOptions = Values<
  'imap' | 'host' | 'tls' | 'user' | 'passwordEnv' | 'passwordFile'
> &
  Values<'port', number> &
  Flags<'yes'>;

type Tls = 'implicit' | 'starttls' | 'none';
type Server = Readonly<{ host: string; port: number; tls: Tls }>;

/** Per second. Most servers and lines are faster; many small messages are slower. */
const ASSUMED_SPEED = { messages: 200, bytes: 1_000_000 };
const MAX_SHOWN = 20;
const ADDRESS = /^[^\s@]+@([^\s@]+)$/;

/**
 * Collects the account's values from options, DNS and prompts, and signs in. Prompts again after a typing error; throws
 * if an option is wrong.
 *
 * @throws usage-option, usage-not-interactive, imap.server-elsewhere, and errors of the sign-in
 */
export async function collectImapAccount(
  context: CommandContext,
  options: ImapInitOptions,
  prompter: Prompter | undefined,
) {
  const { env, cwd } = context.environment;
  const address = options.imap ?? '';
  const domain = ADDRESS.exec(address)?.[1];
  if (domain === undefined) {
    throw usageError('usage-option', { option: '--imap', found: address, expected: 'an address' });
  }
  const given = givenPassword(options, cwd);
  const piped =
    given === null && prompter === undefined ? await readStdinText(context.stdin()) : '';
  let secret = given === null ? undefined : await readPassword(given, env, 'password');
  if (piped !== '') secret = new Secret(piped);
  if (secret === undefined && prompter === undefined) {
    const missing = ['a password (--password-env, --password-file, or on standard input)'];
    throw usageError('usage-not-interactive', { command: 'init', missing });
  }
  let server = await serverFor(context, options, domain, prompter);
  let user = options.user ?? address;
  const typed = secret === undefined;
  for (;;) {
    if (secret === undefined) {
      const question = `Password of ${terminalLine(user)} at ${server.host}`;
      secret = new Secret((await prompter?.secret(question)) ?? '');
      if (secret.reveal() === '' && options.user === undefined) {
        user = (await prompter?.line('User', user)) ?? user;
        secret = undefined;
        continue;
      }
    }
    try {
      const reach = await reachOf(context, { ...server, user }, secret);
      return { ...reach, address, user, server, secret, given };
    } catch (error) {
      const about = prompter === undefined ? undefined : mistakeIn(error);
      const isTyped = about === 'server' ? options.host === undefined : typed;
      if (about === undefined || !isTyped) {
        throw error instanceof MailkeepError ? withAdvice(error) : error;
      }
      const { message, hint } = describeError(error);
      const { columns } = context.output;
      const text = [message, hint].join(' ').trim();
      context.notices.stream.write(`${wrapLine(text, columns).join('\n')}\n`);
      if (about === 'server') server = await askForServer(context, prompter, server.host);
      else {
        secret = undefined;
        if (options.user === undefined)
          context.notices.say('To sign in as another user, leave the password empty.');
      }
    }
  }
}

type ImapInput = Awaited<ReturnType<typeof collectImapAccount>>;

/** Advice by code of the error. It names options, because there is no configuration yet. */
const ADVICE: ReadonlyMap<string, string> = new Map([
  ['imap.needs-tls', 'Use --tls implicit or starttls; "none" is for servers on this machine.'],
  [
    'imap.certificate',
    'Check --host. For a private certificate authority, set NODE_EXTRA_CA_CERTS.',
  ],
  ['imap.starttls-missing', 'Use --tls implicit, usually with --port 993.'],
  ['imap.starttls-injection', 'Try another network, or --tls implicit.'],
]);
const REACHING =
  'Check the network, and --host, --port and --tls (implicit, starttls or none). Nothing was written.';

function withAdvice(error: MailkeepError): MailkeepError {
  const hint = ADVICE.get(error.code) ?? (error.family === 'origin' ? REACHING : undefined);
  return hint === undefined ? error : new UnconfiguredError(error, hint);
}

function mistakeIn(error: unknown): 'server' | 'password' | undefined {
  if (hasCode(error, 'imap.sign-in-refused')) return 'password';
  const isServer = ['imap.unreachable', 'imap.certificate', 'imap.starttls-missing'].some((code) =>
    hasCode(error, code),
  );
  return isServer ? 'server' : undefined;
}

function givenPassword(
  { passwordEnv, passwordFile }: ImapInitOptions,
  cwd: string,
): TokenSource | null {
  if (passwordEnv !== undefined && passwordFile !== undefined)
    throw invalidUsage('init', 'only one of --password-env and --password-file can be given.');
  if (passwordEnv !== undefined) return { kind: 'env', name: passwordEnv };
  return passwordFile === undefined
    ? null
    : { kind: 'file', name: path.resolve(cwd, passwordFile) };
}

/** Returns the server given by options, or found for the domain, or typed. */
async function serverFor(
  context: CommandContext,
  options: ImapInitOptions,
  domain: string,
  prompter: Prompter | undefined,
): Promise<Server> {
  const { host, port } = options;
  if (host !== undefined) return serverAt(host, port, options.tls);
  const found = await findServer(domain, context.signal);
  if (found !== undefined && (await isAccepted(context, found, domain, options, prompter))) {
    return { ...serverAt(found.host, port ?? found.port, options.tls ?? found.tls) };
  }
  if (prompter === undefined) {
    throw usageError('usage-not-interactive', { command: 'init', missing: ['--host'] });
  }
  if (found === undefined) context.notices.say(`The IMAP server of ${domain} is not known.`);
  return askForServer(context, prompter, `imap.${domain}`, options);
}

function serverAt(host: string, port: number | undefined, mode = 'implicit'): Server {
  const tls = (['implicit', 'starttls', 'none'] as const).find((one) => one === mode);
  if (tls === undefined) {
    const expected = 'implicit, starttls or none';
    throw usageError('usage-option', { option: '--tls', found: mode, expected });
  }
  if (!isImapHost(host)) {
    const expected = 'a host name or IP address, without scheme and port';
    throw usageError('usage-option', { option: '--host', found: host, expected });
  }
  return { host: host.toLowerCase(), port: port ?? (tls === 'implicit' ? 993 : 143), tls };
}

/** Asks about a host outside of the address's domain, which anybody who forges DNS could have named. */
async function isAccepted(
  { notices }: CommandContext,
  { host, port, trust }: FoundServer,
  domain: string,
  { yes = false }: ImapInitOptions,
  prompter: Prompter | undefined,
): Promise<boolean> {
  if (trust !== 'elsewhere') return true;
  if (yes || prompter === undefined) throw imapError('imap.server-elsewhere', { host, domain });
  notices.say(
    `DNS names ${host}, port ${port}, as the IMAP server of ${domain}. It is in another domain, and would get your password.`,
  );
  return prompter.yes(`Is ${host} the server of your provider?`);
}

async function askForServer(
  { notices }: CommandContext,
  prompter: Prompter | undefined,
  suggestion: string,
  { port, tls }: Pick<ImapInitOptions, 'port' | 'tls'> = {},
): Promise<Server> {
  for (;;) {
    const typed = (await prompter?.line('IMAP server', suggestion)) ?? '';
    const [, host, ownPort] = /^([A-Za-z0-9_.-]{1,253})(?::(\d{1,5}))?$/.exec(typed) ?? [];
    const number = ownPort === undefined ? port : Number(ownPort);
    if (host !== undefined && (number ?? 1) > 0 && (number ?? 1) < 65_536) {
      return serverAt(host, number, tls ?? (number === 143 ? 'starttls' : undefined));
    }
    notices.stream.write(`"${terminalLine(typed)}" is not a host, such as imap.example.org.\n`);
  }
}

/** Signs in, and returns folders with their counts and sizes. */
async function reachOf(
  { signal }: CommandContext,
  server: Server & { readonly user: string },
  secret: Secret,
) {
  const connections = new ImapConnections({
    server,
    credential: async () => ({ kind: 'password', secret }),
    most: 1,
    times: { connectMs: 15_000, silenceMs: 60_000 },
    // Fails early: the user is waiting, and the host may be mistyped.
    retries: { attempts: 1, lostMs: 1, throttledMs: 1, mostMs: 1 },
  });
  try {
    return await connections.use(async (session) => {
      const { folders, refused } = await listFolders(session);
      const sizes = await fetchFolderBytes(
        session,
        folders.map(({ wireName }) => wireName),
      );
      const quota = sizes.size > 0 ? [] : await fetchQuota(session);
      const used = quota.find(({ name }) => name === 'STORAGE')?.usage ?? null;
      const all = folders.map(({ path: folder, wireName, status }) => ({
        folder,
        messages: status.messages,
        bytes: sizes.get(wireName) ?? null,
      }));
      const messages = all.reduce((sum, one) => sum + one.messages, 0);
      const total = sizes.size > 0 ? all.reduce((sum, one) => sum + (one.bytes ?? 0), 0) : used;
      const limit = session.has('X-GM-EXT-1') ? GMAIL_BYTES_PER_DAY : null;
      const pace = { limit, speed: ASSUMED_SPEED };
      const hours = hoursOf({ messages, bytes: total ?? 0 }, pace);
      const firstSync = { folders: all.length, messages, bytes: total, hours };
      return { folders: all, refused, limit, firstSync };
    }, signal);
  } finally {
    await connections.close();
  }
}

/** Describes the sign-in, the folders and the first sync. */
export function imapReachText(
  { server, user, folders, refused, limit, firstSync }: ImapInput,
  { output }: CommandContext,
): string {
  const sized = folders.some((one) => one.bytes !== null);
  const byCount = [...folders].sort((a, b) => b.messages - a.messages);
  const rows = byCount
    .slice(0, MAX_SHOWN)
    .map((one) => [
      displayName(one.folder),
      count(one.messages),
      ...(sized ? [bytes(one.bytes ?? 0)] : []),
    ]);
  const more = folders.length - rows.length;
  const { messages, bytes: total, hours } = firstSync;
  const size = total === null ? '' : `, ${sized ? '' : 'about '}${bytes(total)},`;
  const ms = hours * 3_600_000;
  const duration = ms < 60_000 ? 'less than a minute' : `about ${span(ms)}`;
  const rate = `${bytes(ASSUMED_SPEED.bytes)} and ${ASSUMED_SPEED.messages} messages a second`;
  return [
    `${server.host}, port ${server.port}, accepts ${terminalLine(user)}:`,
    tableText(['FOLDER', 'MESSAGES', ...(sized ? ['SIZE'] : [])], rows, 0, output),
    ...(more > 0 ? [`… and ${counted(more, 'more folder')}`] : []),
    ...(refused > 0 ? [`The server does not open ${counted(refused, 'more folder')}.`] : []),
    `To fetch: ${counted(messages, 'message')}${size} in ${counted(folders.length, 'folder')}. At ${rate}, that takes ${duration}.`,
    ...(limit === null
      ? []
      : [`This provider limits what is fetched a day; mailkeep stays below ${bytes(limit)}.`]),
  ].join('\n');
}

/** @param passwordFile name of the file, relative to the configuration; null if it is read from `given` */
export function imapEntry(
  { address, user, server, given }: ImapInput,
  password: { readonly file: string } | { readonly env: string },
): ConfigInput['accounts'][number] {
  const { host, port, tls } = server;
  const usual = tls === 'implicit' ? 993 : 143;
  return {
    name: 'main',
    imap: {
      host,
      ...(port === usual ? {} : { port }),
      ...(tls === 'implicit' ? {} : { tls }),
      user,
      ...(user === address ? {} : { address }),
      password: given?.kind === 'env' ? { env: given.name } : password,
    },
  };
}
