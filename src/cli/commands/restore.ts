import { readFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Reader, refuseUnknownFolder } from '../../catalog/open-reader.ts';
import { isLoopback } from '../../core/address.ts';
import { usageError } from '../../core/error-tables.ts';
import {
  combineExitCodes,
  describeError,
  EXIT,
  type ExitCode,
  errnoName,
  exitCodeFor,
  MailkeepError,
} from '../../core/errors.ts';
import { Secret } from '../../core/secrets.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { bytes, count, counted, localTime, span } from '../../core/text.ts';
import { fixYoungGeneration } from '../../core/worker-thread.ts';
import type { Credential, ImapServer } from '../../imap/connection.ts';
import type { ConnectionsOptions } from '../../imap/connections.ts';
import { imapError } from '../../imap/errors.ts';
import { restoreError } from '../../transfer/errors.ts';
import type {
  Destination,
  NamedMessage,
  RefusalReason,
  RestoreProgress,
} from '../../transfer/plan-restore.ts';
import type { Alteration } from '../../transfer/restore-comparison.ts';
import { openJournal, readJournal } from '../../transfer/restore-journal.ts';
import type { RestoreSelection } from '../../transfer/restore-selection.ts';
import { type RestoredFolder, type RestoreResult, runRestore } from '../../transfer/run-restore.ts';
import { readSelection, refuseUnknown, warnBeforeFirstCommit, withReader } from '../archive.ts';
import { terminalPrompter } from '../ask.ts';
import {
  action,
  type CommandContext,
  type Flags,
  invalidUsage,
  type Register,
  type Values,
} from '../context.ts';
import { collect, exclude, FOLDERS, wholeNumber } from '../option-values.ts';
import { firstLines, joinReport, type Output, type Report, shortId, tableText } from '../output.ts';
import { openActivity } from '../progress.ts';

const PORTS = { 'imaps:': 993, 'imap:': 143 } as const;

/** Parses the server part of an IMAP URL (RFC 5092). @throws restore-target-invalid, restore-needs-tls */
function imapAddress(text: string): ImapServer {
  const url = URL.canParse(text) ? new URL(text) : null;
  const found = withoutSecret(text);
  const invalid = (problem: string) => restoreError('restore-target-invalid', { found, problem });
  if (url === null || (url.protocol !== 'imaps:' && url.protocol !== 'imap:'))
    throw invalid('it does not begin with imaps://');
  if (url.password !== '')
    throw invalid('a password in it can be read by every user of this machine');
  if (url.username === '') throw invalid('it names no user');
  if (url.hostname === '') throw invalid('it names no host');
  if (!['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '')
    throw invalid('something follows the host');
  const tls = url.protocol === 'imaps:' ? 'implicit' : 'none';
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (tls === 'none' && !isLoopback(host)) throw restoreError('restore-needs-tls', { host });
  const port = url.port === '' ? PORTS[url.protocol] : Number(url.port);
  return { host, port, user: decodedUser(url.username, invalid), tls };
}

function addressText({ host, port, user, tls }: ImapServer): string {
  const name = host.includes(':') ? `[${host}]` : host;
  return `${tls === 'none' ? 'imap' : 'imaps'}://${encodeURIComponent(user)}@${name}:${port}`;
}

function decodedUser(user: string, invalid: (problem: string) => Error): string {
  try {
    return decodeURIComponent(user);
  } catch {
    throw invalid('its user has a % that is no escape');
  }
}

/** Text between a colon and the last @ may be a password. */
function withoutSecret(text: string): string {
  const [scheme] = /^[a-z]*:\/\//i.exec(text) ?? [''];
  const at = text.lastIndexOf('@');
  return text.slice(scheme.length, at).includes(':') ? `${scheme}…${text.slice(at)}` : text;
}

type CredentialLine = Values<'passwordFile' | 'passwordEnv' | 'oauthTokenEnv'>;

/**
 * Reads the user's credential from the given file or variable, or prompts for it on a terminal. A command-line argument
 * would be visible to every local user.
 * @throws restore-no-password, restore-password-unreadable
 */
async function credentialFor(
  context: CommandContext,
  { user, host }: ImapServer,
  { passwordFile, passwordEnv, oauthTokenEnv }: CredentialLine,
): Promise<Credential> {
  const { cwd, env } = context.environment;
  const password = (text: string): Credential => ({ kind: 'password', secret: new Secret(text) });
  if (passwordFile !== undefined) return password(fromFile(path.resolve(cwd, passwordFile)));
  if (passwordEnv !== undefined) return password(fromEnvironment(env, passwordEnv));
  if (oauthTokenEnv !== undefined) {
    return { kind: 'token', secret: new Secret(fromEnvironment(env, oauthTokenEnv)) };
  }
  const prompter = context.globals.json ? undefined : terminalPrompter(context);
  if (prompter === undefined) throw restoreError('restore-no-password', { user });
  const label = `Password of ${terminalLine(user)} at ${terminalLine(host)}`;
  return password(await prompter.secret(label));
}

/** Returns the first line only, because editors add a line break. */
function fromFile(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw restoreError(
      'restore-password-unreadable',
      { source: file, reason: errnoName(error) },
      error,
    );
  }
  const [first = ''] = text.split(/\r?\n/, 1);
  if (first === '')
    throw restoreError('restore-password-unreadable', { source: file, reason: 'it is empty' });
  return first;
}

function fromEnvironment(env: Readonly<Record<string, string | undefined>>, name: string): string {
  const value = env[name] ?? '';
  if (value === '')
    throw restoreError('restore-password-unreadable', { source: name, reason: 'it is not set' });
  return value;
}

/** Maximum number of messages listed as text. `--json` lists them all. */
const MAX_SHOWN = 20;

const WHY: Readonly<Record<RefusalReason, string>> = {
  quarantined: 'in quarantine: it could not be fetched completely',
  damaged: 'DAMAGED: its stored bytes were changed',
  purged: 'its bytes were removed on purpose',
  'append-limit': 'larger than the server takes',
  quota: 'no room in the quota',
  folder: 'the server does not take its folder',
  server: 'refused',
};

const ALTERED: Readonly<Record<Alteration, string>> = {
  'line-endings': 'lines that ended in LF alone now end in CRLF',
  'carriage-returns': 'the server left out CR bytes within lines, or added some',
  nul: 'the server replaced NUL bytes',
  'header-bytes': 'the server replaced bytes above 127 in the header',
  bytes: 'the server stored other bytes',
  date: 'the server keeps another received date',
  flags: 'the server does not keep all flags',
};

function restoreText(
  result: RestoreResult,
  output: Pick<Output, 'interactive' | 'columns' | 'colours'>,
): Report {
  if (result.planned === 0 && result.folders.length === 0)
    return 'Nothing to restore: the selection has no message and no folder.';
  const table = tableText(...folderTable(result.folders, result.dryRun), output);
  return [
    table,
    '',
    result.dryRun ? plannedText(result) : doneText(result),
    [...notes(result)],
    messageLines(
      result.failures,
      ({ reason, text }) => WHY[reason] + (text === null ? '' : `: ${terminalLine(text)}`),
      result.refused,
    ),
    messageLines(result.lost, () => 'MISSING: the server accepted it, but does not list it'),
    messageLines(
      result.doubled,
      ({ doubleUid }) => `there twice; the second copy is uid ${doubleUid}`,
    ),
  ];
}

function folderTable(folders: readonly RestoredFolder[], dryRun: boolean) {
  const headings = [
    'FOLDER',
    'GOES TO',
    'MESSAGES',
    dryRun ? 'TO SEND' : 'APPENDED',
    'THERE',
    'REFUSED',
  ];
  const rows = folders.map((one) => [
    `${one.mailbox} ${one.folder}`,
    one.to ?? '-',
    ...[one.planned, dryRun ? one.due : one.appended, one.present, one.refused].map(count),
  ]);
  return [headings, rows, 0] as const;
}

function plannedText(result: RestoreResult): string[] {
  const { due, bytes: size, present: there, refused, rate, to } = result;
  const times =
    rate === null
      ? []
      : [due / rate.messagesPerSecond, size / rate.bytesPerSecond].toSorted((x, y) => x - y);
  return joinReport([
    continuedText(result),
    `Would append ${counted(due, 'message')} (${bytes(size)}) to ${to}; ${count(there)} already there, ${count(refused)} cannot be sent.`,
    due > 0 &&
      (times.length === 0
        ? 'The duration is unknown until a restore to this server has been measured.'
        : `At the rates of the last restore there, that takes ${betweenTimes(times)}.`),
    'Nothing was changed.',
  ]);
}

/** Formats a duration as a range, from two estimates in seconds: by message count and by bytes. */
function betweenTimes([least = 0, most = 0]: readonly number[]): string {
  const [from, to] = [span(least * 1000), span(most * 1000)];
  return from === to ? from : `between ${from} and ${to}`;
}

function continuedText({ continued, begun }: RestoreResult): string | false {
  return (
    continued &&
    begun !== null &&
    `This continues the restore that began ${localTime(Date.parse(begun))}; --new begins another.`
  );
}

function doneText(result: RestoreResult): string[] {
  const { appended, present: there, refused, due, interrupted, ended, rate, looked } = result;
  return joinReport([
    continuedText(result),
    `${interrupted ? 'Interrupted: ' : ''}appended ${counted(appended, 'message')}; ${count(there)} already there, ${count(refused)} refused${due > 0 ? `, ${count(due)} left` : ''}.`,
    appended > 0 &&
      rate !== null &&
      `Speed: ${rate.messagesPerSecond < 1 ? '' : `${count(rate.messagesPerSecond)} messages or `}${bytes(rate.bytesPerSecond)} a second.`,
    looked.compared > 0 &&
      `Checked at the server: ${counted(looked.compared, 'message')} by size, flags and date, ${count(looked.fetched)} of them byte by byte.`,
    ended !== null && describeError(ended).message,
    (interrupted || ended !== null) &&
      'Run the same command again: it continues where it stopped, and sends nothing twice.',
  ]);
}

function* notes(result: RestoreResult): Generator<string> {
  const { expected, limits, altered, leftOut, folders, dryRun } = result;
  if (dryRun && expected['append-limit'] > 0)
    yield `The server takes messages up to ${bytes(limits.appendLimit ?? 0)}: ${counted(expected['append-limit'], 'larger message')} will be refused.`;
  if (dryRun && expected.quota > 0)
    yield `The quota has ${bytes(limits.quotaLeft ?? 0)} left: ${counted(expected.quota, 'message')} will not fit.`;
  for (const { mailbox, folder, to, replaced, numbered, remade } of folders) {
    const name = terminalLine(`${mailbox} ${folder}`);
    if (replaced)
      yield `${name} goes to ${terminalLine(to ?? '')}: the server refuses characters of its name.`;
    if (numbered) yield `${name} goes to ${terminalLine(to ?? '')}: another folder has its name.`;
    if (remade > 0)
      yield `${terminalLine(to ?? name)} was made again since the last run: what it had then (${counted(remade, 'message')}) no longer counts.`;
  }
  if (altered.messages > 0) {
    const verb = altered.messages === 1 ? 'is' : 'are';
    yield `${counted(altered.messages, 'message')} ${dryRun ? 'will' : verb} not ${dryRun ? 'be ' : ''}exactly as in the archive:`;
    const reasons = Object.entries(ALTERED) as [Alteration, string][];
    for (const [reason, words] of reasons) {
      const messages = altered.reasons[reason] ?? 0;
      if (messages > 0) yield `  ${count(messages)}: ${words}`;
    }
  }
  if (leftOut.deleted > 0)
    yield `The flag \\Deleted of ${counted(leftOut.deleted, 'message')} was left out: a client would remove them.`;
}

function messageLines<M extends NamedMessage>(
  messages: readonly M[],
  why: (message: M) => string,
  all = messages.length,
): string[] {
  const line = (message: M): string => {
    const { id, mailbox, folder, uid } = message;
    const short = id === null ? '-' : shortId(id);
    return `  ${short}  ${terminalLine(mailbox)} ${terminalLine(folder)} uid ${uid}: ${why(message)}`;
  };
  const rest = (more: number) => `  … and ${count(more)} more; --json names them`;
  return firstLines(messages, MAX_SHOWN, line, rest, all);
}

/** Returns 3 for damage, the code of the error that stopped the run, or 1 for refused, lost or duplicate messages. */
function exitOfRestore(result: RestoreResult): ExitCode {
  const { refusals, refused, lost, doubled, interrupted, ended } = result;
  return combineExitCodes([
    ...(interrupted ? [EXIT.interrupted] : []),
    ...(ended instanceof MailkeepError ? [exitCodeFor(ended)] : []),
    ...((refusals.damaged ?? 0) > 0 ? [EXIT.damage] : []),
    ...(refused + lost.length + doubled.length > 0 ? [EXIT.failures] : []),
  ]);
}

function progressText(progress: RestoreProgress): string {
  if (progress.step === 'looking') return `looking at ${terminalLine(progress.folder)}`;
  const { done: sent, of, bytes: written, ofBytes, elapsed } = progress;
  const left = written > 0 ? ((ofBytes - written) / written) * elapsed : null;
  const rest = left === null || elapsed < 5_000 ? '' : `, about ${span(left)} left`;
  return `appended ${count(sent)} of ${counted(of, 'message')}, ${bytes(written)} of ${bytes(ofBytes)}${rest}`;
}

interface RestoreTarget {
  readonly server: ImapServer;
  readonly credential: ConnectionsOptions['credential'];
  /** Connections at most, unless the command line says otherwise. */
  readonly jobs: number;
}

/** @throws usage-unknown-account, imap.no-imap, and errors of `imapAddress` and `credentialFor` */
async function targetOf(context: CommandContext, line: RestoreLine): Promise<RestoreTarget> {
  const { to, toAccount } = line;
  if (to !== undefined) {
    const server = imapAddress(to);
    let known: Promise<Credential> | undefined;
    const credential = () => (known ??= credentialFor(context, server, line));
    return { server, credential, jobs: DEFAULT_JOBS };
  }
  if (toAccount === undefined) {
    throw invalidUsage('restore', '--to or --to-account is needed: the mailbox to restore to.');
  }
  const { loadSettings } = await import('../../catalog/archive-settings.ts');
  const { imapCredential } = await import('../../imap/credential.ts');
  const { chooseAccounts } = await import('../../sync/selection.ts');
  const settings = loadSettings(context);
  const [account] = chooseAccounts(settings, toAccount);
  if (account?.kind !== 'imap')
    throw imapError('imap.no-imap', { account: toAccount, canName: 'address' });
  const { server, connections: jobs } = account.imap;
  const { dataDir } = settings;
  const credential = imapCredential(account, { env: context.environment.env, dataDir });
  return { server, credential, jobs };
}

/** Servers allow at least ten connections per user, and other programs need some of them. */
const DEFAULT_JOBS = 4;
const MAX_JOBS = 16;

interface RestoreLine
  extends CredentialLine,
    Flags<'deleted' | 'inPlace' | 'new' | 'dryRun'>,
    Values<'to' | 'toAccount' | 'query' | 'asOf' | 'into' | 'journal'>,
    Values<'jobs', number>,
    Values<'mailbox' | 'folder', readonly string[]> {}

const HELP = `
Puts messages back into a mailbox, over IMAP, with their folders, flags and received dates. Nothing at the server is
changed or removed: the command creates folders, subscribes to them and appends messages. It compares what is
there first, so that no message is there twice, and looks again once all is there.

Without --into and --in-place, everything goes below a new folder, Restored/DATE. Several mailboxes get a folder each
in it. An interrupted restore is continued by the same command, under its own folder; --new begins another. The
journal is in the archive's state.sqlite, or in --journal FILE where the archive is read-only.

EXAMPLES
  mailkeep restore --to imaps://anna%40example.org@mail.example.org --dry-run
  mailkeep restore --to imaps://anna@mail.example.org --folder Projects --as-of 2026-03-01
  mailkeep restore --to imaps://anna@mail.example.org --deleted --query 'from:landlord'
  mailkeep restore --to-account anna --mailbox anna@example.org --in-place`;

export const register: Register = (command, run) => {
  command
    .option('--to <url>', 'the server and the user there: imaps://USER@HOST[:PORT]')
    .option('--to-account <name>', 'an IMAP account of the configuration, in place of --to')
    .option('--password-file <file>', 'read the password from the first line of this file')
    .option('--password-env <name>', 'read it from this variable of the environment')
    .option('--oauth-token-env <name>', 'sign in with the OAuth access token in this variable')
    .option('--query <Q>', 'only messages that this query finds')
    .option('--mailbox <address>', 'only this mailbox; repeatable', collect)
    .option(...FOLDERS)
    .option('--as-of <T>', 'what existed at that time')
    .option(
      '--deleted',
      'messages that are nowhere in their mailbox now, each from its last folder',
    )
    .option('--into <prefix>', 'the folder below which everything goes; / parts its levels')
    .option('--in-place', 'into the folders that they were in')
    .option('--new', 'begin another restore, also where one is unfinished')
    .option(
      '--jobs <n>',
      `connections at most (default: ${DEFAULT_JOBS}, or as many as the account allows)`,
      wholeNumber(1, MAX_JOBS),
    )
    .option('--journal <file>', 'keep the journal in this file')
    .option('--dry-run', 'print what would be done, and do nothing')
    .addHelpText('after', HELP)
    .action(action(run, restore));
  exclude(
    command,
    ['passwordEnv', 'passwordFile'],
    ['oauthTokenEnv', 'passwordFile', 'passwordEnv'],
    ['toAccount', 'to', 'passwordFile', 'passwordEnv', 'oauthTokenEnv'],
    ['inPlace', 'into'],
  );
};

async function restore(context: CommandContext, line: RestoreLine): Promise<ExitCode> {
  const { output, signal, environment, now } = context;
  const { server, credential, jobs } = await targetOf(context, line);
  const destination = destinationOf(line);
  return withReader(context, async (reader) => {
    const selection = selectionOf(context, reader, line);
    // Asks for a password before anything else.
    await credential(null);
    const dryRun = line.dryRun ?? false;
    const file = line.journal === undefined ? null : path.resolve(environment.cwd, line.journal);
    const place = { dataDir: reader.dataDir, file };
    const journal = dryRun ? readJournal(place) : openJournal(place);
    const { connectImap } = await import('../../transfer/imap-connection.ts');
    // Most allocations here are short-lived, and by default the heap would grow to retain them.
    fixYoungGeneration();
    const activity = openActivity(context, `connecting to ${server.host}`);
    try {
      const result = await runRestore({
        target: addressText(server),
        host: server.host,
        connect: () => connectImap(server, credential, signal),
        selection,
        destination,
        fresh: line.new ?? false,
        dryRun,
        jobs: line.jobs ?? jobs,
        catalog: reader.catalog,
        sources: reader.sources(),
        journal,
        signal,
        now,
        sleep: (ms) => delay(ms, undefined, { signal }).catch(() => {}),
        onProgress: (progress) => activity.show(() => progressText(progress)),
      });
      activity.stop();
      const { ended } = result;
      await output.object({ ...result, ended: ended === null ? null : describeError(ended) }, () =>
        restoreText(result, output),
      );
      return exitOfRestore(result);
    } finally {
      activity.stop();
      journal?.close();
    }
  });
}

function destinationOf({ into, inPlace }: RestoreLine): Destination {
  if (inPlace === true) return { kind: 'in-place' };
  if (into === undefined) return { kind: 'dated' };
  const levels = into.split('/').filter((level) => level !== '');
  if (levels.length === 0) {
    const expected = 'the path of a folder, such as Old/Mail';
    throw usageError('usage-option', { option: '--into', found: into, expected });
  }
  return { kind: 'into', levels };
}

function selectionOf(context: CommandContext, reader: Reader, line: RestoreLine): RestoreSelection {
  const { mailbox: mailboxes = [], folder: folders = [], deleted = false } = line;
  refuseUnknownFolder(reader, line);
  const { query, asOf, unknown } = readSelection(context, reader, line);
  warnBeforeFirstCommit(reader.catalog, asOf, context.notices);
  refuseUnknown(unknown, context.notices);
  return { query, mailboxes, folders, asOf, asOfText: line.asOf ?? null, deleted };
}
