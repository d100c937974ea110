import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import packageJson from '../../package.json' with { type: 'json' };
import { requireArchive } from '../archive/file-system.ts';
import { loadSettings } from '../catalog/archive-settings.ts';
import { accountHosts } from '../catalog/saved-searches.ts';
import type { ListenAddress } from '../core/address.ts';
import { locateDataDir } from '../core/config-locate.ts';
import { describeError, EXIT, type ExitCode, hasCode, MailkeepError } from '../core/errors.ts';
import { fixYoungGeneration, slowOldGenerationGrowth } from '../core/worker-thread.ts';
import { isListening, requestSync } from '../daemon/control.ts';
import { findControlSocket } from '../daemon/control-path.ts';
import { type ArchivePolicy, archivePolicy } from '../verify/archive-status.ts';
import { webError } from '../web/errors.ts';
import { askLink, linkSockets, openLinkChannel } from '../web/link-channel.ts';
import { CODE_MS, openSessions } from '../web/sessions.ts';
import { startWebServer, type WebServer } from '../web/web-server.ts';
import { mailboxKeys } from './archive.ts';
import { type CommandContext, untilInterrupted } from './context.ts';

/**
 * Opens a sign-in link in the user's browser. Every local user can read command lines, so the browser is given a
 * private file that redirects to the link. Resolves once the file is removed: after `keptMs`, on interruption, or if no
 * browser starts.
 * @param keptMs time for the browser to start and read the file, in milliseconds
 */
async function openInBrowser(
  url: string,
  {
    notices,
    signal,
    environment: { env },
  }: Pick<CommandContext, 'notices' | 'signal' | 'environment'>,
  keptMs: number,
): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-sign-in-'));
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  process.once('exit', remove);
  const file = path.join(folder, 'sign-in.html');
  const page = `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=${url}"><title>mailkeep</title>`;
  writeFileSync(file, page, { mode: 0o600 });
  const [command, ...args] = opener(file);
  const child = spawn(command, args, { stdio: 'ignore', detached: true, env: { ...env } });
  child.unref();
  const failure = new AbortController();
  const fail = (): void => {
    notices.warn(`No browser could be started (${command}).`);
    failure.abort();
  };
  child.once('error', fail);
  child.once('exit', (code) => {
    if (code !== null && code !== 0) fail();
  });
  const ends = AbortSignal.any([signal, failure.signal]);
  await delay(keptMs, undefined, { signal: ends }).catch(() => undefined);
  process.off('exit', remove);
  remove();
}

function opener(file: string): [string, ...string[]] {
  if (process.platform === 'darwin') return ['open', file];
  if (process.platform === 'win32') return ['cmd', '/c', 'start', '', file];
  return ['xdg-open', file];
}

/** Time allowed for the browser to start and read the file, with `--link --open`. */
const READ_MS = 60_000;

interface ServeOptions {
  readonly listen: ListenAddress;
  readonly mailboxes: readonly string[];
  readonly open: boolean;
}

/** Returns whether a daemon is running for the archive. Ignores a foreign socket that was packed with the archive. */
async function hasDaemon(dataDir: string): Promise<boolean> {
  try {
    const control = findControlSocket(dataDir);
    return control !== null && (await isListening(control));
  } catch (error) {
    if (hasCode(error, 'daemon-socket-foreign')) return false;
    throw error;
  }
}

/** Serves the archive until interrupted, which is how users normally stop it. */
export async function serveWeb(context: CommandContext, options: ServeOptions): Promise<void> {
  fixYoungGeneration();
  slowOldGenerationGrowth();
  const { globals, environment, notices, now } = context;
  const dataDir = locateDataDir(globals, environment);
  requireArchive(dataDir);
  const mailboxes = await mailboxKeys(context, options.mailboxes);
  const sessions = openSessions(dataDir);
  let web: WebServer | undefined;
  try {
    web = await startWebServer({
      dataDir,
      listen: options.listen,
      publicUrl: null,
      sessions: sessions.store,
      state: sessions.state,
      accounts: (node) => accountHosts(node, context),
      async look() {
        const control = findControlSocket(dataDir);
        return control !== null && requestSync(control, packageJson.version);
      },
      hasDaemon: () => hasDaemon(dataDir),
      policy: () => policyFor(dataDir, context),
      now,
      onError: (error) =>
        notices.warn(`A request could not be answered: ${describeError(error).message}`),
    }).catch((error: unknown) => {
      throw cannotListen(options.listen, error);
    });
    await announce(context, web, {
      dataDir,
      mailboxes,
      open: options.open,
      areKept: sessions.areKept,
    });
  } finally {
    await web?.close();
    sessions.close();
  }
}

/**
 * Serves the archive on a Unix socket to the worker of a fleet, until interrupted or until the worker has ended. Prints the
 * path once it listens.
 */
export async function serveRelayedWeb(context: CommandContext, socket: string): Promise<void> {
  fixYoungGeneration();
  slowOldGenerationGrowth();
  const { globals, environment, output, notices, now, signal } = context;
  const dataDir = locateDataDir(globals, environment);
  requireArchive(dataDir);
  const { serveRelayed } = await import('../web/relayed.ts');
  const server = await serveRelayed({
    ...{ dataDir, socket, now },
    accounts: (node) => accountHosts(node, context),
    onError: (error) =>
      notices.warn(`A request could not be answered: ${describeError(error).message}`),
  });
  try {
    const orphaned = new AbortController();
    process.once('disconnect', () => orphaned.abort());
    if (process.send !== undefined && !process.connected) orphaned.abort();
    await output.object({ socket }, () => [`Serving ${socket}`]);
    await untilInterrupted(AbortSignal.any([signal, orphaned.signal]));
  } finally {
    await server.close();
  }
}

/** Prints the server's address and how to sign in. Resolves on interruption. */
async function announce(
  context: CommandContext,
  { url, apiUrl, mcpUrl, link }: WebServer,
  options: {
    /** Folder that stores remembered browsers. `--link` looks for the server there. */
    readonly dataDir: string;
    /** Keys of the mailboxes that the first link is limited to; null for all. */
    readonly mailboxes: readonly string[] | null;
    readonly open: boolean;
    /** True if browsers remain signed in across restarts. */
    readonly areKept: boolean;
  },
): Promise<void> {
  const { dataDir, mailboxes, open, areKept } = options;
  const { environment, output, notices, signal } = context;
  const channel = await openLinkChannel({ dataDir, env: environment.env, link }).catch(
    (error: unknown) => {
      if (!hasCode(error, 'daemon-socket-folder')) throw error;
      notices.warn(
        `There is no private folder for a socket (${error.facts.folder}): "mailkeep web --link" cannot ask this server.`,
      );
      return undefined;
    },
  );
  try {
    const signInUrl = link(mailboxes);
    await output.object({ url, signInUrl, apiUrl, mcpUrl }, () => [
      `Sign in at ${signInUrl}`,
      `The link works once, within ten minutes.${channel === undefined ? '' : ' "mailkeep web --link" prints another.'}`,
    ]);
    if (!areKept)
      notices.say('The archive cannot be written: browsers sign in again after a restart.');
    if (open) void openInBrowser(signInUrl, context, CODE_MS);
    await untilInterrupted(signal);
  } finally {
    await channel?.close();
  }
}

function cannotListen({ host, port }: ListenAddress, error: unknown): unknown {
  if (!hasCode(error, 'cannot-listen')) return error;
  return webError('web-cannot-listen', { host, port, reason: String(error.facts.reason) });
}

/**
 * Prints a link to the running server: the daemon, or the `mailkeep web` that was started last.
 * @throws web-not-running
 */
export async function askForLink(
  context: CommandContext,
  addresses: readonly string[],
  open: boolean,
): Promise<ExitCode> {
  const { globals, environment, output, notices } = context;
  const dataDir = locateDataDir(globals, environment);
  requireArchive(dataDir);
  const mailboxes = await mailboxKeys(context, addresses);
  const control = findControlSocket(dataDir);
  const sockets = [
    ...linkSockets(dataDir, environment.env),
    ...(control === null ? [] : [control]),
  ];
  for (const socket of sockets) {
    const signInUrl = await askLink(socket, mailboxes);
    if (signInUrl === null) continue;
    await output.object({ signInUrl }, () => signInUrl);
    if (open) {
      notices.say('This command ends within a minute, when the browser has read the link.');
      await openInBrowser(signInUrl, context, READ_MS);
    }
    return EXIT.done;
  }
  throw webError('web-not-running', { dataDir });
}

/** Returns the configured policy for an archive, or null if the configuration is unreadable or for another archive. */
function policyFor(dataDir: string, context: CommandContext): ArchivePolicy | null {
  const globals = { ...context.globals, data: undefined };
  try {
    const settings = loadSettings({ ...context, globals, report: () => {} });
    return settings.dataDir === dataDir ? archivePolicy(settings, context) : null;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    return null;
  }
}
