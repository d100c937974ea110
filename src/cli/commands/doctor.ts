import { accessSync, closeSync, constants, existsSync, readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import type { Command } from 'commander';
import { Pool } from 'undici';
import { archiveError, holderText } from '../../archive/errors.ts';
import { fileSystemOf, freeBytes } from '../../archive/file-system.ts';
import { formatPath, logFolder, parseSegmentName, segmentName } from '../../archive/format.ts';
import { noteOfHolder, tryLock } from '../../archive/lock.ts';
import { settingsOf } from '../../catalog/archive-settings.ts';
import { catalogFile } from '../../catalog/database.ts';
import { reachedBy } from '../../catalog/implied.ts';
import { allowsNetwork, holdsArchive } from '../../catalog/open-reader.ts';
import { copiesError } from '../../copies/errors.ts';
import { locateDataDir } from '../../core/config-locate.ts';
import type { AccountSettings, CopySettings, Settings } from '../../core/config-schema.ts';
import {
  combinedExit,
  EXIT,
  EXIT_OF_FAMILY,
  type ExitCode,
  errnoOf,
  hasCode,
  MailkeepError,
  sentenceOf,
} from '../../core/errors.ts';
import { openRegularFile } from '../../core/files.ts';
import { readToken, type StoredWebhook, storedWebhooks } from '../../core/secrets.ts';
import { readState, stateFile } from '../../core/state.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { bytes, counted, span } from '../../core/text.ts';
import { watchDeliveries } from '../../daemon/delivery-watch.ts';
import { errorOf } from '../../daemon/notifying.ts';
import { type CopyStatus, copyStatuses } from '../../verify/copy-facts.ts';
import {
  damageError,
  recalledVerification,
  verificationStatus,
} from '../../verify/verification.ts';
import { type Clients, orderOf, SHORT_PATIENCE, withClients } from '../account-clients.ts';
import { refusal, tryWriting } from '../archive.ts';
import type { Body, CommandContext } from '../context.ts';
import { verifiedText } from '../warnings.ts';

/** One thing that was looked at. */
interface Check {
  /** Stable, for programs: `config`, `token`, `clock`. */
  readonly name: string;
  /** Which account or webhook it is about; null for the whole. */
  readonly about: string | null;
  /** `warning`: it works, and should be mended. `skipped`: it could not be looked at, or is not in use. */
  readonly state: 'ok' | 'warning' | 'failed' | 'skipped';
  readonly message: string;
  readonly remedy: string | null;
  /** How the process ends when this is the worst. */
  readonly exit: ExitCode;
}

type Plain = Omit<Check, 'state' | 'exit' | 'remedy'> & { readonly remedy?: string };

function well(check: Plain): Check {
  return { remedy: null, ...check, state: 'ok', exit: 0 };
}

function warned(check: Plain): Check {
  return { remedy: null, ...check, state: 'warning', exit: 0 };
}

function skipped(check: Plain): Check {
  return { remedy: null, ...check, state: 'skipped', exit: 0 };
}

/** What was thrown, as a check: its sentence, its hint, its exit code. */
function failed(name: string, about: string | null, error: MailkeepError): Check {
  const { message, hint } = sentenceOf(error);
  return {
    name,
    about,
    state: 'failed',
    message,
    remedy: hint,
    exit: EXIT_OF_FAMILY[error.family],
  };
}

/** What is known of a service's clock: its own word, and ours before and after it was asked. */
interface ClockReading {
  readonly theirs: number;
  readonly before: number;
  readonly after: number;
}

/** A schedule and an "as of" are as good as the clock; more than this is worth a word. */
const MOST_SKEW_MS = 60_000;

/** An account: its token, its service, the clocks, its webhooks. Asks the service some five requests, and changes nothing. */
async function accountChecks(
  given: CommandContext,
  settings: Settings,
  account: AccountSettings,
): Promise<Check[]> {
  const { name } = account;
  const checks: Check[] = [];
  const context = withCredentials(given, account);
  if (context === null) return [onlyInUnit(account)];
  const hasToken = await attempt('token', name, checks, async () => {
    await readToken(account.token, context.surroundings.env);
    return well({ name: 'token', about: name, message: 'The token can be read.' });
  });
  if (!hasToken) return checks;
  await withClients(
    context,
    settings,
    account,
    async (clients) => {
      const reached = await attempt('service', name, checks, async () => {
        const { mailboxes } = await clients.reach();
        const message = `${clients.mailbox.host} accepts the token, which reaches ${counted(mailboxes.length, 'mailbox', 'mailboxes')}.`;
        const at = { name: 'service', about: name, message };
        return mailboxes.length > 0
          ? well(at)
          : warned({ ...at, remedy: 'Create a token that may read the mailboxes.' });
      });
      if (reached) checks.push(await clockCheck(context, account));
      checks.push(...(await webhookChecks(context, settings, clients)));
      return EXIT.done;
    },
    SHORT_PATIENCE,
  );
  return checks;
}

/** Where "service install" lets units take credentials from: as root, and as another user. */
function credentialFolders(env: CommandContext['surroundings']['env']): string[] {
  return [
    '/etc/mailkeep',
    path.join(env.XDG_CONFIG_HOME ?? path.join(homedir(), '.config'), 'mailkeep'),
  ];
}

/**
 * Returns the context with the folder of credentials that systemd gives to the unit only: outside of it, that is the folder
 * which systemd takes them from. Null where an account needs one and this user cannot read it.
 */
function withCredentials(
  context: CommandContext,
  { token, platform }: AccountSettings,
): CommandContext | null {
  const { surroundings } = context;
  const { env } = surroundings;
  const names = [token, ...(platform === null ? [] : [platform.token])].flatMap(({ kind, name }) =>
    kind === 'credential' ? [name] : [],
  );
  if (names.length === 0 || env.CREDENTIALS_DIRECTORY !== undefined) return context;
  const folder = credentialFolders(env).find((one) =>
    names.every((name) => isReadable(path.join(one, name))),
  );
  if (folder === undefined) return null;
  return {
    ...context,
    surroundings: { ...surroundings, env: { ...env, CREDENTIALS_DIRECTORY: folder } },
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

function onlyInUnit({ name }: AccountSettings): Check {
  return skipped({
    name: 'token',
    about: name,
    message: 'systemd passes the token to the unit only, so the service was not asked.',
    remedy: 'Run "doctor" as root, which may read the token where systemd takes it from.',
  });
}

/** Runs a check; false where it failed. */
async function attempt(
  name: string,
  about: string,
  checks: Check[],
  act: () => Promise<Check>,
): Promise<boolean> {
  try {
    checks.push(await act());
    return true;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    checks.push(failed(name, about, error));
    return false;
  }
}

async function clockCheck(
  { now, signal }: CommandContext,
  { baseUrl, name }: AccountSettings,
): Promise<Check> {
  const at = { name: 'clock', about: name };
  const reading = await clockOf(baseUrl, now, signal);
  if (reading === null) {
    return skipped({ ...at, message: 'The service does not report the time.' });
  }
  const skew = skewOf(reading);
  if (Math.abs(skew) <= MOST_SKEW_MS) {
    return well({ ...at, message: "This machine's clock agrees with the service's." });
  }
  return warned({
    ...at,
    message: `This machine's clock is ${span(Math.abs(skew))} ${skew > 0 ? 'ahead of' : 'behind'} the service's.`,
    remedy: 'Synchronise it over the network: "timedatectl set-ntp true".',
  });
}

/** The service's Date header (RFC 9110, 6.6.1), from a request without a token. */
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
    // The service was reached a moment ago: that it does not answer this says nothing of clocks.
    if (answer === null) return null;
    await answer.body.dump();
    const theirs = Date.parse(String(answer.headers.date ?? ''));
    return Number.isNaN(theirs) ? null : { theirs, before, after: now() };
  } finally {
    await pool.destroy();
  }
}

/** How far ours is ahead, in milliseconds; the header has whole seconds, and travelled for a while. */
export function skewOf({ theirs, before, after }: ClockReading): number {
  if (before > theirs + 1_000) return before - theirs - 1_000;
  return after < theirs ? after - theirs : 0;
}

async function webhookChecks(
  { now, signal }: CommandContext,
  { dataDir, webhook }: Settings,
  clients: Clients,
): Promise<Check[]> {
  const { account, platform, mailbox } = clients;
  const about = account.name;
  const checks: Check[] = [];
  let own: StoredWebhook[] = [];
  const known = await attempt('webhook', about, checks, async () => {
    own = (await storedWebhooks(dataDir)).filter(
      ({ account: of, host }) => of === about && host === mailbox.host,
    );
    return well({ name: 'webhook', about, message: counted(own.length, 'webhook') });
  });
  if (!known) return checks;
  if (own.length === 0) {
    const at = { name: 'webhook', about, message: 'This archive created no webhook.' };
    if (webhook === null) return [skipped(at)];
    const remedy =
      '"mailkeep webhooks create --mailbox M" makes one; until then the schedule finds new mail.';
    return [warned({ ...at, remedy })];
  }
  if (platform === null) {
    const message = `${counted(own.length, 'webhook')}; only the platform surface reports whether they deliver.`;
    const remedy = 'Add accounts[].platform to the configuration.';
    return [skipped({ name: 'webhook', about, message, remedy })];
  }
  checks.pop();
  await attempt('webhook', about, checks, async () => {
    const findings = await watchDeliveries({
      account: about,
      orderId: await orderOf(clients),
      platform,
      own,
      // Only the archive's writer may keep the log.
      memory: { get: () => undefined, set: () => {} },
      now,
      signal,
    });
    for (const finding of findings) {
      const error = errorOf(finding);
      if (error !== null) checks.push(failed('webhook', finding.webhook.id, error));
    }
    const fine = findings.filter(({ state }) => state === 'well').length;
    const message = `${counted(fine, 'webhook')} of ${findings.length} active and not failing.`;
    return fine > 0
      ? well({ name: 'webhook', about, message })
      : skipped({ name: 'webhook', about, message });
  });
  return checks;
}

/** The folder of the archive: its file system, its room, its files, its lock, its last verification. Leaves nothing behind. */
async function archiveChecks(
  dataDir: string,
  minFreeBytes: number,
  allowNetwork: boolean,
  now: number,
): Promise<Check[]> {
  const checks = [
    fileSystemCheck(dataDir, allowNetwork),
    await spaceCheck(dataDir, minFreeBytes),
    writeCheck(dataDir),
  ];
  try {
    if (!holdsArchive(dataDir, true)) {
      const message = `There is no archive in ${dataDir} yet: the first sync creates it.`;
      return [...checks, skipped({ name: 'lock', about: null, message })];
    }
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    return [...checks, failed('log', null, error)];
  }
  return [...checks, logCheck(dataDir), lockCheck(dataDir), verificationCheck(dataDir, now)];
}

function fileSystemCheck(dataDir: string, allowNetwork: boolean): Check {
  const at = { name: 'file-system', about: null };
  const found = fileSystemOf(dataDir);
  if (found === null) {
    return skipped({ ...at, message: 'The file system type cannot be determined on this system.' });
  }
  const { type, mountPoint, network } = found;
  if (!network) return well({ ...at, message: `${dataDir} is on ${type} (${mountPoint}).` });
  const error = archiveError('network-file-system', { dir: dataDir, type, mountPoint });
  const refused = failed(at.name, at.about, error);
  return allowNetwork ? warned({ ...at, message: refused.message }) : refused;
}

async function spaceCheck(dataDir: string, minFreeBytes: number): Promise<Check> {
  const at = { name: 'free-space', about: null };
  let folder = dataDir;
  while (!existsSync(folder)) folder = path.dirname(folder);
  const free = await freeBytes(folder);
  if (free < minFreeBytes) {
    return failed(at.name, at.about, new MailkeepError('disk', 'disk.low', { free, minFreeBytes }));
  }
  const until = minFreeBytes > 0 ? `, and fetching stops below ${bytes(minFreeBytes)}` : '';
  const message = `${bytes(free)} are free${until}.`;
  // A first sync, and rewriting the catalog, need room for a while.
  if (free < 2 * minFreeBytes) {
    return warned({ ...at, message, remedy: 'Free some space, or lower minFreeBytes.' });
  }
  return well({ ...at, message });
}

/** Tries to write a file where a sync would. */
function writeCheck(dataDir: string): Check {
  const at = { name: 'write', about: null };
  const { folder, error } = tryWriting(dataDir);
  if (error !== undefined) return failed(at.name, at.about, error);
  return well({ ...at, message: `${folder} can be written.` });
}

/** Opens what a sync reads (FORMAT, every segment), and tries what it writes: the last segment, the catalog, the state. */
function logCheck(dataDir: string): Check {
  const at = { name: 'log', about: null };
  const folder = logFolder(dataDir);
  let names: string[] = [];
  const listing = refusal(
    () => {
      closeSync(openRegularFile(formatPath(dataDir)));
      names = readdirSync(folder).filter((name) => name.endsWith('.seg'));
    },
    (errno, cause) => archiveError('archive-unreadable', { dir: dataDir, errno }, cause),
  );
  if (listing !== undefined) return failed(at.name, at.about, listing);
  for (const name of names) {
    const file = path.join(folder, name);
    const error = refusal(
      () => openThere(file),
      (errno, cause) => archiveError('archive-unreadable', { dir: file, errno }, cause),
    );
    if (error !== undefined) return failed(at.name, at.about, error);
  }
  const databases = [catalogFile(dataDir), stateFile(dataDir)];
  const written = [
    folder,
    ...appendedTo(names).map((name) => path.join(folder, name)),
    ...databases.flatMap((file) => [file, `${file}-wal`, `${file}-shm`]),
  ];
  for (const file of written.filter((name) => existsSync(name))) {
    // Not opened: closing it would take away the locks of connections that this process may have.
    const error = refusal(
      () => accessSync(file, constants.R_OK | constants.W_OK),
      (errno, cause) => archiveError('archive-unwritable', { file, errno }, cause),
    );
    // A sealing replaces a segment, and SQLite removes a write-ahead log, at any moment.
    if (error !== undefined && existsSync(file)) return failed(at.name, at.about, error);
  }
  return well({ ...at, message: 'The log, the catalog and the state can be read and written.' });
}

/** The segment that a writer appends to: the last one, while it is not sealed. */
function appendedTo(names: readonly string[]): string[] {
  const segments = names.map(parseSegmentName).filter((name) => name !== undefined);
  const last = Math.max(...segments.map(({ segment }) => segment));
  const files = segments.filter(({ segment }) => segment === last);
  return files.every(({ generation }) => generation === 1) ? files.map(segmentName) : [];
}

/** A sealing may have replaced the file since the folder was listed. */
function openThere(file: string): void {
  if (existsSync(file)) closeSync(openRegularFile(file));
}

function lockCheck(dataDir: string): Check {
  const at = { name: 'lock', about: null };
  try {
    tryLock(dataDir);
    return well({ ...at, message: 'No process is writing to the archive.' });
  } catch (error) {
    if (hasCode(error, 'archive-in-use')) {
      const holder = noteOfHolder(dataDir);
      const who =
        holder === null
          ? 'a daemon, or a sync'
          : holderText(holder.pid, holder.command, holder.since, holder.host);
      return well({ ...at, message: `Another process is writing to the archive: ${who}.` });
    }
    if (!(error instanceof MailkeepError)) throw error;
    return failed(at.name, at.about, error);
  }
}

/** What the last verification came to. */
function verificationCheck(dataDir: string, now: number): Check {
  const at = { name: 'verification', about: null };
  const state = readState(dataDir);
  try {
    const last = recalledVerification(state);
    const shown = verificationStatus(last);
    if (last === null || shown === null) {
      const remedy = '"mailkeep verify" reads every byte.';
      return skipped({ ...at, message: 'The archive was never verified.', remedy });
    }
    if (last.damage !== null) return failed(at.name, at.about, damageError(last.damage));
    return well({ ...at, message: `The archive was ${verifiedText(shown, now)}.` });
  } catch (error) {
    // For example, the state is damaged: what it knew about the archive's damage is unknown.
    if (!(error instanceof MailkeepError)) throw error;
    return failed(at.name, at.about, error);
  } finally {
    state?.close();
  }
}

/** The copies of the configuration, as the archive's state knows them: asks nothing of the places where they are. */
function copyChecks(dataDir: string, copies: readonly CopySettings[], now: number): Check[] {
  if (copies.length === 0) return [];
  const state = readState(dataDir);
  try {
    const known = copyStatuses(state, reachedBy(dataDir)?.number ?? 0, now);
    return copies.map(({ to }) =>
      checkOf(
        to,
        known.find((copy) => copy.to === to),
        now,
      ),
    );
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    return [failed('copy', null, error)];
  } finally {
    state?.close();
  }
}

function checkOf(to: string, copy: CopyStatus | undefined, now: number): Check {
  const at = { name: 'copy', about: to };
  if (copy === undefined || (copy.copiedAt === null && copy.failure === null && !copy.stale)) {
    const remedy = 'A running daemon makes it; an encrypted one begins with "mailkeep copy init".';
    return skipped({ ...at, message: 'The copy was not made yet.', remedy });
  }
  const { damage, stale, failure, copiedAt, behind } = copy;
  if (damage !== null) {
    return failed(at.name, to, copiesError('offsite-damaged', { to, found: damage.findings }));
  }
  if (stale) {
    const check = failed(at.name, to, copiesError('offsite-stale', { to, behind, copiedAt }));
    return failure === null ? check : { ...check, remedy: failure.message };
  }
  if (failure !== null) return warned({ ...at, message: failure.message });
  const age = span(Math.max(0, now - Date.parse(copiedAt ?? '')));
  const lacks = behind === null || behind === 0 ? 'nothing' : counted(behind, 'commit');
  return well({ ...at, message: `The copy was made ${age} ago, and lacks ${lacks}.` });
}

const HELP = `
Checks everything that a sync needs, and prints one line for each check, with what to do if it fails. It checks the
configuration; the archive's file system, free space, write access, log, lock and last verification; how old the
copies of the configuration are, and whether they fail; and for each account the token, the service, the clocks
and the webhooks. It leaves nothing behind, and takes about five requests for each account.

The exit code is 0 if nothing failed, even with warnings; otherwise it is the code of a sync.

EXAMPLES
  mailkeep doctor
  mailkeep doctor --json | jq '.checks[] | select(.state != "ok")'`;

export function define(command: Command, chosen: (body: Body) => void): void {
  command.addHelpText('after', HELP).action(() => chosen(examine));
}

/** `mailkeep doctor`: looks at everything that a sync needs, and says what to do about what is amiss. */
async function examine(context: CommandContext): Promise<ExitCode> {
  const { output, surroundings } = context;
  const checks: Check[] = [];
  const settings = configuration(context, checks);
  const dataDir = settings?.dataDir ?? fallbackDataDir(context);
  if (dataDir !== null) {
    const least = settings?.minFreeBytes ?? 0;
    const allowed = allowsNetwork(surroundings.env);
    checks.push(...(await archiveChecks(dataDir, least, allowed, context.now())));
    checks.push(...copyChecks(dataDir, settings?.copies ?? [], context.now()));
  }
  for (const account of settings?.accounts ?? []) {
    if (settings !== null) checks.push(...(await accountChecks(context, settings, account)));
  }
  const exit = combinedExit(checks.map((check) => check.exit));
  const shown = checks.map(({ exit: _, ...check }) => check);
  await output.object({ ok: exit === 0, checks: shown }, () =>
    checks.map((check) => lineOf(check, output.colours)).join('\n'),
  );
  return exit;
}

function configuration(context: CommandContext, checks: Check[]): Settings | null {
  try {
    const settings = settingsOf(context);
    const message = `${settings.file} is in order.`;
    checks.push(well({ name: 'config', about: null, message }));
    return settings;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    checks.push(failed('config', null, error));
    return null;
  }
}

/** Where the archive is, when the rest of the configuration is wrong. */
function fallbackDataDir({ globals, surroundings }: CommandContext): string | null {
  try {
    return locateDataDir(globals, surroundings);
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    // Reported already: the configuration cannot be read.
    return null;
  }
}

const MARK = { ok: 'ok', warning: 'warning', failed: 'FAILED', skipped: '-' } as const;

function lineOf(check: Check, colours: CommandContext['output']['colours']): string {
  const { name, about, state, message, remedy } = check;
  const paint = {
    ok: colours.green,
    warning: colours.yellow,
    failed: colours.red,
    skipped: colours.dim,
  };
  const where = about === null ? name : `${name} (${terminalLine(about)})`;
  const advice = remedy === null || state === 'ok' ? '' : ` ${terminalLine(remedy)}`;
  return `${paint[state](MARK[state].padEnd(8))}${where}: ${terminalLine(message)}${advice}`;
}
