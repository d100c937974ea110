import { accessSync, closeSync, constants, existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { Pool } from 'undici';
import { archiveError, describeHolder } from '../../archive/errors.ts';
import {
  allowsNetworkFileSystem,
  fileSystemOf,
  freeBytes,
  holdsArchive,
  systemRefusal,
  testWriting,
} from '../../archive/file-system.ts';
import { formatPath, logFolder, parseSegmentName, segmentName } from '../../archive/format.ts';
import { readHolder, tryLock } from '../../archive/lock.ts';
import { loadSettings } from '../../catalog/archive-settings.ts';
import { catalogFile } from '../../catalog/database.ts';
import { readCatalogHead } from '../../catalog/implied.ts';
import { copiesError } from '../../copies/errors.ts';
import { systemClock } from '../../core/concurrency.ts';
import { configHome, locateDataDir } from '../../core/config-locate.ts';
import {
  type AccountSettings,
  type ApiAccount,
  type CopySettings,
  type ImapAccount,
  type Settings,
  tokenSources,
} from '../../core/config-schema.ts';
import {
  combineExitCodes,
  describeError,
  EXIT,
  EXIT_OF_FAMILY,
  type ExitCode,
  errnoOf,
  hasCode,
  MailkeepError,
} from '../../core/errors.ts';
import { openRegularFile } from '../../core/files.ts';
import { selects } from '../../core/names.ts';
import { readToken, storedWebhooks } from '../../core/secrets.ts';
import { stateFile } from '../../core/state.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { bytes, counted, span } from '../../core/text.ts';
import { errorOf, watchDeliveries } from '../../daemon/delivery-watch.ts';
import { imapCredential } from '../../imap/credential.ts';
import { selectionWarnings } from '../../sync/selection.ts';
import { type CopyStatus, copyStatuses } from '../../verify/copy-facts.ts';
import { damageError } from '../../verify/errors.ts';
import { recallVerification, verificationStatus } from '../../verify/verification.ts';
import { type Clients, orderOf, SHORT_RETRIES, withClients } from '../account-clients.ts';
import { withState } from '../archive.ts';
import type { CommandContext, Register } from '../context.ts';
import type { Colours } from '../output.ts';
import { verifiedText } from '../warnings.ts';

interface Check {
  /** Stable name for programs, such as `config`, `token` or `clock`. */
  readonly name: string;
  /** The account, webhook or copy that was checked; null for the whole installation. */
  readonly about: string | null;
  /** `warning`: works but should be fixed. `skipped`: cannot be checked or is not used. */
  readonly state: 'ok' | 'warning' | 'failed' | 'skipped';
  readonly message: string;
  readonly remedy: string | null;
  /** Exit code if no other check is worse. */
  readonly exit: ExitCode;
}

type Finding = Omit<Check, 'name' | 'about'>;

const well = (message: string): Finding => ({ state: 'ok', message, remedy: null, exit: 0 });
const warned = (message: string, remedy: string | null = null): Finding => ({
  ...well(message),
  state: 'warning',
  remedy,
});
const skipped = (message: string, remedy: string | null = null): Finding => ({
  ...warned(message, remedy),
  state: 'skipped',
});

function failed(error: MailkeepError): Finding {
  const { message, hint } = describeError(error);
  return { state: 'failed', message, remedy: hint, exit: EXIT_OF_FAMILY[error.family] };
}

class Checks {
  readonly all: Check[] = [];

  add(name: string, about: string | null, finding: Finding): void {
    this.all.push({ name, about, ...finding });
  }

  /** Adds the finding returned by `act`, or the error that it throws. Returns false if it threw. */
  async run(
    name: string,
    about: string | null,
    act: () => Finding | Promise<Finding>,
  ): Promise<boolean> {
    try {
      this.add(name, about, await act());
      return true;
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      this.add(name, about, failed(error));
      return false;
    }
  }
}

/** A reading of a service's clock, and of ours before and after the request. */
interface ClockReading {
  readonly theirs: number;
  readonly before: number;
  readonly after: number;
}

/** A larger skew affects schedules and "as of". */
const MAX_SKEW_MS = 60_000;

/** Checks an account's token, service, clock and webhooks. Sends about five requests and changes nothing. */
async function checkAccount(
  checks: Checks,
  unitContext: CommandContext,
  settings: Settings,
  account: AccountSettings,
): Promise<void> {
  const { name } = account;
  const context = withCredentials(unitContext, account);
  if (context === null) {
    const secret = account.kind === 'api' ? 'token' : 'secret';
    const message = `systemd passes the ${secret} to the unit only, so the ${account.kind === 'api' ? 'service' : 'server'} was not asked.`;
    const remedy = `Run "doctor" as root, which may read the ${secret} where systemd takes it from.`;
    checks.add('token', name, skipped(message, remedy));
    return;
  }
  const { env } = context.environment;
  const hasToken = await checks.run('token', name, async () => {
    if (account.kind === 'api') await readToken(account.token, env);
    else await imapCredential(account, { env, dataDir: settings.dataDir })(null);
    const kind = account.kind === 'api' ? 'token' : account.imap.signIn.kind;
    return well(`The ${kind === 'oauth' ? 'access token' : kind} can be read.`);
  });
  if (!hasToken) return;
  if (account.kind === 'imap') {
    return checkImap(checks, context, settings, account);
  }
  await withClients(context, settings, account, SHORT_RETRIES, async (clients) => {
    const isReached = await checks.run('service', name, async () => {
      const { mailboxes } = await clients.reach();
      const message = `${clients.mailbox.host} accepts the token, which reaches ${counted(mailboxes.length, 'mailbox', 'mailboxes')}.`;
      return mailboxes.length > 0
        ? well(message)
        : warned(message, 'Create a token that may read the mailboxes.');
    });
    if (isReached) {
      await checkSelection(checks, clients);
      checks.add('clock', name, await clockFinding(context, account));
    }
    await checkWebhooks(checks, context, settings, clients);
    return EXIT.done;
  });
}

/** Each costs a request. With more mailboxes, a pattern may match in one that was not asked. */
const ASKED_MAILBOXES = 20;

/** Warns of patterns in the configuration that match nothing. Asks for folders only if some of them are named. */
async function checkSelection(
  checks: Checks,
  { account, mailbox, reach, options }: Clients,
): Promise<void> {
  const { name, mailboxes, folders } = account;
  const warn = (warnings: ReturnType<typeof selectionWarnings>): void => {
    for (const { message, remedy } of warnings)
      checks.add('folders', name, warned(message, remedy));
  };
  const reached = (await reach()).mailboxes;
  warn(
    selectionWarnings(
      account,
      'mailboxes',
      reached.map(({ address }) => address),
    ),
  );
  const wanted = reached.filter(({ address }) => selects(mailboxes, address));
  const isPlain =
    folders.include.every((pattern) => pattern === '*') && folders.exclude.length === 0;
  if (isPlain || wanted.length > ASKED_MAILBOXES) return;
  try {
    const paths = new Set<string>();
    for (const { resourceId } of wanted)
      for await (const { path } of mailbox.eachFolder(resourceId, options)) paths.add(path);
    warn(selectionWarnings(account, 'folders', [...paths]));
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    checks.add('folders', name, failed(error));
  }
}

/** Signs in to an IMAP account. */
async function checkImap(
  checks: Checks,
  { environment, signal, now }: CommandContext,
  settings: Settings,
  account: ImapAccount,
): Promise<void> {
  const { checkImapAccount } = await import('../check-imap.ts');
  const { env } = environment;
  const { dataDir } = settings;
  const options = { env, dataDir, clock: { ...systemClock, now } };
  let found: Awaited<ReturnType<typeof checkImapAccount>> = [];
  await checks.run('service', account.name, async () => {
    found = await checkImapAccount(account, settings, options, signal);
    return well(found.find(({ name }) => name === 'service')?.message ?? '');
  });
  for (const { name, message, remedy } of found) {
    if (name === 'service') continue;
    checks.add(name, account.name, remedy === null ? well(message) : warned(message, remedy));
  }
}

/**
 * Returns the context with the folder of systemd credentials, which systemd itself sets only for the unit. Returns null
 * if the account needs a credential that this user cannot read.
 */
function withCredentials(context: CommandContext, account: AccountSettings): CommandContext | null {
  const { environment } = context;
  const { env } = environment;
  const names = tokenSources([account]).flatMap(({ kind, name }) =>
    kind === 'credential' ? name : [],
  );
  if (names.length === 0 || env.CREDENTIALS_DIRECTORY !== undefined) return context;
  // Where units from "daemon install" look for credentials, as root and as any other user.
  const folder = ['/etc/mailkeep', path.join(configHome(env), 'mailkeep')].find((one) =>
    names.every((name) => isReadable(path.join(one, name))),
  );
  if (folder === undefined) return null;
  return {
    ...context,
    environment: { ...environment, env: { ...env, CREDENTIALS_DIRECTORY: folder } },
  };
}

function isReadable(file: string): boolean {
  try {
    accessSync(file, constants.R_OK);
    return true;
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return false;
  }
}

async function clockFinding(
  { now, signal }: CommandContext,
  { baseUrl }: ApiAccount,
): Promise<Finding> {
  const reading = await clockOf(baseUrl, now, signal);
  if (reading === null) return skipped('The service does not report the time.');
  const skew = clockSkew(reading);
  if (Math.abs(skew) <= MAX_SKEW_MS) return well("This machine's clock agrees with the service's.");
  return warned(
    `This machine's clock is ${span(Math.abs(skew))} ${skew > 0 ? 'ahead of' : 'behind'} the service's.`,
    'Synchronise it over the network: "timedatectl set-ntp true".',
  );
}

/** Reads the service's clock from its Date header (RFC 9110, 6.6.1). Sends no token. */
async function clockOf(
  baseUrl: string,
  now: () => number,
  signal: AbortSignal,
): Promise<ClockReading | null> {
  const before = now();
  const { origin, pathname, search } = new URL(baseUrl);
  const pool = new Pool(origin);
  try {
    const answer = await pool
      .request({
        method: 'HEAD',
        path: `${pathname}${search}`,
        signal: AbortSignal.any([signal, AbortSignal.timeout(10_000)]),
      })
      .catch(() => null);
    // The service has just responded, so a failure here says nothing about the clock.
    if (answer === null) return null;
    await answer.body.dump();
    const theirs = Date.parse(String(answer.headers.date ?? ''));
    return Number.isNaN(theirs) ? null : { theirs, before, after: now() };
  } finally {
    await pool.destroy();
  }
}

/** Returns how many milliseconds our clock is ahead. Allows for transit time and the header's one-second resolution. */
export function clockSkew({ theirs, before, after }: ClockReading): number {
  if (before > theirs + 1_000) return before - theirs - 1_000;
  return after < theirs ? after - theirs : 0;
}

async function checkWebhooks(
  checks: Checks,
  { now, signal }: CommandContext,
  { dataDir, webhook }: Settings,
  clients: Clients,
): Promise<void> {
  const { account, platform, mailbox } = clients;
  const about = account.name;
  await checks.run('webhook', about, async () => {
    const stored = await storedWebhooks(dataDir);
    const webhooks = stored.filter((one) => one.account === about && one.host === mailbox.host);
    if (webhooks.length === 0) {
      const message = 'This archive created no webhook.';
      if (webhook === null) return skipped(message);
      const remedy =
        '"mailkeep webhooks create --mailbox M" makes one; until then the schedule finds new mail.';
      return warned(message, remedy);
    }
    if (platform === null) {
      const message = `${counted(webhooks.length, 'webhook')}; only the platform surface reports whether they deliver.`;
      return skipped(message, 'Add accounts[].platform to the configuration.');
    }
    const findings = await watchDeliveries({
      account: about,
      orderId: await orderOf(clients),
      platform,
      own: webhooks,
      // Only the archive's writer may store the delivery log.
      memory: { get: () => undefined, set: () => {} },
      now,
      signal,
    });
    for (const finding of findings) {
      const error = errorOf(finding);
      if (error !== null) checks.add('webhook', finding.webhook.id, failed(error));
    }
    const fine = findings.filter(({ state }) => state === 'well').length;
    const message = `${counted(fine, 'webhook')} of ${findings.length} active and not failing.`;
    return fine > 0 ? well(message) : skipped(message);
  });
}

/** Checks an archive's file system, free space, files, lock and last verification. Leaves nothing behind. */
async function checkArchive(
  checks: Checks,
  dataDir: string,
  minFreeBytes: number,
  allowNetwork: boolean,
  now: number,
): Promise<void> {
  checks.add('file-system', null, fileSystemFinding(dataDir, allowNetwork));
  checks.add('free-space', null, await spaceFinding(dataDir, minFreeBytes));
  const { folder, error } = testWriting(dataDir);
  checks.add('write', null, error ? failed(error) : well(`${folder} can be written.`));
  try {
    if (!holdsArchive(dataDir, true)) {
      const message = `There is no archive in ${dataDir} yet: the first sync creates it.`;
      checks.add('lock', null, skipped(message));
      return;
    }
  } catch (thrown) {
    if (!(thrown instanceof MailkeepError)) throw thrown;
    checks.add('log', null, failed(thrown));
    return;
  }
  checks.add('log', null, logFinding(dataDir));
  await checks.run('lock', null, () => lockFinding(dataDir));
  await checks.run('verification', null, () =>
    withState(dataDir, (state) => {
      const last = recallVerification(state);
      const shown = verificationStatus(last);
      if (last === null || shown === null)
        return skipped('The archive was never verified.', '"mailkeep verify" reads every byte.');
      if (last.damage !== null) return failed(damageError(last.damage));
      return well(`The archive was ${verifiedText(shown, now)}.`);
    }),
  );
}

function fileSystemFinding(dataDir: string, allowNetwork: boolean): Finding {
  const volume = fileSystemOf(dataDir);
  if (volume === null) return skipped('The file system type cannot be determined on this system.');
  const { type, mountPoint, network } = volume;
  if (!network) return well(`${dataDir} is on ${type} (${mountPoint}).`);
  const refused = failed(archiveError('network-file-system', { dir: dataDir, type, mountPoint }));
  return allowNetwork ? warned(refused.message) : refused;
}

async function spaceFinding(dataDir: string, minFreeBytes: number): Promise<Finding> {
  let folder = dataDir;
  while (!existsSync(folder)) folder = path.dirname(folder);
  const free = await freeBytes(folder);
  if (free < minFreeBytes)
    return failed(new MailkeepError('disk', 'disk.low', { free, minFreeBytes }));
  const until = minFreeBytes > 0 ? `, and fetching stops below ${bytes(minFreeBytes)}` : '';
  const message = `${bytes(free)} are free${until}.`;
  // A first sync and a catalog rewrite need temporary space.
  return free < 2 * minFreeBytes
    ? warned(message, 'Free some space, or lower minFreeBytes.')
    : well(message);
}

/** Opens the files that a sync reads (FORMAT, segments), and tests those it writes (last segment, catalog, state). */
function logFinding(dataDir: string): Finding {
  const folder = logFolder(dataDir);
  let names: string[] = [];
  const listing = systemRefusal(
    () => {
      closeSync(openRegularFile(formatPath(dataDir)));
      names = readdirSync(folder).filter((name) => name.endsWith('.seg'));
    },
    (errno, cause) => archiveError('archive-unreadable', { dir: dataDir, errno }, cause),
  );
  if (listing !== undefined) return failed(listing);
  for (const name of names) {
    const file = path.join(folder, name);
    const error = systemRefusal(
      // Sealing may have replaced the file since the listing.
      () => existsSync(file) && closeSync(openRegularFile(file)),
      (errno, cause) => archiveError('archive-unreadable', { dir: file, errno }, cause),
    );
    if (error !== undefined) return failed(error);
  }
  const databases = [catalogFile(dataDir), stateFile(dataDir)];
  const written = [
    folder,
    ...appendedTo(names).map((name) => path.join(folder, name)),
    ...databases.flatMap((file) => [file, `${file}-wal`, `${file}-shm`]),
  ];
  for (const file of written.filter((name) => existsSync(name))) {
    // Not opened, because closing a database file would release the locks of this process's connections.
    const error = systemRefusal(
      () => accessSync(file, constants.R_OK | constants.W_OK),
      (errno, cause) => archiveError('archive-unwritable', { file, errno }, cause),
    );
    // Segments can be sealed, and SQLite can remove its write-ahead log, at any time.
    if (error !== undefined && existsSync(file)) return failed(error);
  }
  return well('The log, the catalog and the state can be read and written.');
}

/** Returns the segment that a writer would append to: the last one, unless it is sealed. */
function appendedTo(names: readonly string[]): string[] {
  const segments = names.map(parseSegmentName).filter((name) => name !== undefined);
  const last = Math.max(...segments.map(({ segment }) => segment));
  const files = segments.filter(({ segment }) => segment === last);
  return files.every(({ generation }) => generation === 1) ? files.map(segmentName) : [];
}

function lockFinding(dataDir: string): Finding {
  try {
    tryLock(dataDir);
    return well('No process is writing to the archive.');
  } catch (error) {
    if (!hasCode(error, 'archive-in-use')) throw error;
    const holder = readHolder(dataDir);
    const holderText =
      holder === null
        ? 'a daemon, or a sync'
        : describeHolder(holder.pid, holder.command, holder.since, holder.host);
    return well(`Another process is writing to the archive: ${holderText}.`);
  }
}

/** Checks the configured copies using the archive's state. Does not contact their targets. */
async function checkCopies(
  checks: Checks,
  dataDir: string,
  copies: readonly CopySettings[],
  now: number,
): Promise<void> {
  if (copies.length === 0) return;
  try {
    await withState(dataDir, (state) => {
      const statuses = copyStatuses(state, readCatalogHead(dataDir)?.number ?? 0, now);
      for (const { to } of copies) {
        const copy = statuses.find((one) => one.to === to);
        checks.add('copy', to, copyFinding(to, copy, now));
      }
    });
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    checks.add('copy', null, failed(error));
  }
}

function copyFinding(to: string, copy: CopyStatus | undefined, now: number): Finding {
  if (copy === undefined || (copy.copiedAt === null && copy.failure === null && !copy.stale)) {
    const remedy = 'A running daemon makes it; an encrypted one begins with "mailkeep copy init".';
    return skipped('The copy was not made yet.', remedy);
  }
  const { damage, stale, failure, copiedAt, behind } = copy;
  if (damage !== null)
    return failed(copiesError('offsite-damaged', { to, found: damage.findings }));
  if (stale) {
    const finding = failed(copiesError('offsite-stale', { to, behind, copiedAt }));
    return failure === null ? finding : { ...finding, remedy: failure.message };
  }
  if (failure !== null) return warned(failure.message);
  const age = span(Math.max(0, now - Date.parse(copiedAt ?? '')));
  const lacks = behind === null || behind === 0 ? 'nothing' : counted(behind, 'commit');
  return well(`The copy was made ${age} ago, and lacks ${lacks}.`);
}

const HELP = `
Checks everything that a sync needs, and prints one line for each check, with what to do if it fails. It checks the
configuration; the archive's file system, free space, write access, log, lock and last verification; how old the
copies of the configuration are, and whether they fail. For each account of the hosted service, it checks the token,
the service, the clocks and the webhooks, in about five requests, and if the configuration selects folders, in one more
for each of up to 20 mailboxes. For each IMAP account, it signs in once, and checks the
password or token, TLS, the folders, and which extensions of the server make syncs cheap. It leaves nothing behind.

The exit code is 0 if nothing failed, even with warnings; otherwise it is the code of a sync.

EXAMPLES
  mailkeep doctor
  mailkeep doctor --json | jq '.checks[] | select(.state != "ok")'`;

export const register: Register = (command, run) => {
  command.addHelpText('after', HELP).action(() => run(examine));
};

async function examine(context: CommandContext): Promise<ExitCode> {
  const { output, environment } = context;
  const checks = new Checks();
  let settings: Settings | undefined;
  await checks.run('config', null, () => {
    settings = loadSettings(context);
    return well(`${settings.file} is in order.`);
  });
  const dataDir = settings?.dataDir ?? fallbackDataDir(context);
  if (dataDir !== null) {
    const minFree = settings?.minFreeBytes ?? 0;
    const allowed = allowsNetworkFileSystem(environment.env);
    await checkArchive(checks, dataDir, minFree, allowed, context.now());
    await checkCopies(checks, dataDir, settings?.copies ?? [], context.now());
  }
  if (settings !== undefined)
    for (const account of settings.accounts) await checkAccount(checks, context, settings, account);
  const exit = combineExitCodes(checks.all.map((check) => check.exit));
  const shown = checks.all.map(({ exit: _, ...check }) => check);
  await output.object({ ok: exit === 0, checks: shown }, () =>
    shown
      .map((check) => lineOf({ ...check, name: shownName(check, settings) }, output.colours))
      .join('\n'),
  );
  return exit;
}

/** Returns the archive's folder, even if the rest of the configuration is invalid. */
function fallbackDataDir({ globals, environment }: CommandContext): string | null {
  try {
    return locateDataDir(globals, environment);
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    // The unreadable configuration has already been reported.
    return null;
  }
}

/** Returns the name of a check for people. JSON has the same names for accounts of both kinds. */
function shownName({ name, about }: Pick<Check, 'name' | 'about'>, settings?: Settings): string {
  const account = settings?.accounts.find((one) => one.name === about);
  if (account?.kind !== 'imap') return name;
  if (name === 'service') return 'server';
  return name === 'token' && account.imap.signIn.kind === 'password' ? 'password' : name;
}

function lineOf({ name, about, state, message, remedy }: Omit<Check, 'exit'>, colours: Colours) {
  const mark = {
    ok: colours.green('ok      '),
    warning: colours.yellow('warning '),
    failed: colours.red('FAILED  '),
    skipped: colours.dim('-       '),
  }[state];
  const subject = about === null ? name : `${name} (${terminalLine(about)})`;
  const advice = remedy === null || state === 'ok' ? '' : ` ${terminalLine(remedy)}`;
  return `${mark}${subject}: ${terminalLine(message)}${advice}`;
}
