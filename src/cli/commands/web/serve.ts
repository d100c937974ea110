import packageJson from '../../../../package.json' with { type: 'json' };
import type { ListenAddress } from '../../../config/address.ts';
import { locateDataDir } from '../../../config/located-fields.ts';
import { askToLook, isListening } from '../../../daemon/control-client.ts';
import { findControlSocket } from '../../../daemon/control-path.ts';
import { requireArchive } from '../../../engine/archive/archive-folder.ts';
import { accountHosts } from '../../../engine/saved-searches.ts';
import { settingsOf } from '../../../engine/settings.ts';
import { type ArchivePolicy, policyOf } from '../../../engine/status/archive-policy.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { hasCode, MailkeepError } from '../../../errors/mailkeep-error.ts';
import { webError } from '../../../errors/small-families.ts';
import { holdOldGeneration } from '../../../threads/old-generation.ts';
import { holdYoungGeneration } from '../../../threads/young-generation.ts';
import { CODE_MS } from '../../../web/access/sign-in-codes.ts';
import { askLink, linkSockets, openLinkChannel } from '../../../web/link-channel.ts';
import { startWebServer, type WebServer } from '../../../web/server/web-server.ts';
import { openSessions } from '../../../web/session-store.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import type { CommandContext } from '../../context.ts';
import { mailboxKeys } from '../../mailbox-keys.ts';
import { openInBrowser } from './open-in-browser.ts';

/** How long `--link --open` waits for the browser to start and read the link, in milliseconds. */
const READ_MS = 60_000;

export interface ServeOptions {
  readonly listen: ListenAddress;
  readonly mailboxes: readonly string[];
  readonly open: boolean;
}

/** Returns whether a daemon runs for the archive. A socket that somebody else packed with it is nobody's daemon. */
async function hasDaemon(dataDir: string): Promise<boolean> {
  try {
    const control = findControlSocket(dataDir);
    return control !== null && (await isListening(control));
  } catch (error) {
    if (hasCode(error, 'daemon-socket-foreign')) return false;
    throw error;
  }
}

/** Serves the archive until the command is interrupted, which is how it ends well. */
export async function serveWeb(context: CommandContext, options: ServeOptions): Promise<ExitCode> {
  holdYoungGeneration();
  holdOldGeneration();
  const { globals, surroundings, notices, now } = context;
  const dataDir = locateDataDir(globals, surroundings);
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
        return control !== null && askToLook(control, packageJson.version);
      },
      hasDaemon: () => hasDaemon(dataDir),
      policy: () => policyFor(dataDir, context),
      now,
      onError: (error) =>
        notices.warn(`A request could not be answered: ${sentenceOf(error).message}`),
    }).catch((error: unknown) => {
      throw cannotListen(options.listen, error);
    });
    await whileServed(context, web, {
      ...{ dataDir, mailboxes, open: options.open, areKept: sessions.areKept },
      asking: 'mailkeep web --link',
    });
  } finally {
    await web?.close();
    sessions.close();
  }
  return EXIT.done;
}

/** How a server is announced. */
export interface Announced {
  /** Where what is remembered of browsers is kept: `--link` finds the server by it. */
  readonly dataDir: string;
  /** Keys of the mailboxes that the first link is limited to; null for all. */
  readonly mailboxes: readonly string[] | null;
  readonly open: boolean;
  /** The command that prints another link. */
  readonly asking: string;
  /** Whether browsers stay signed in when the server is started again. */
  readonly areKept: boolean;
}

/** Says where a server listens and how to sign in, and resolves when the command is interrupted. */
export async function whileServed(
  context: CommandContext,
  { url, apiUrl, mcpUrl, link }: WebServer,
  { dataDir, mailboxes, open, asking, areKept }: Announced,
): Promise<void> {
  const { surroundings, output, notices, signal } = context;
  const channel = await openLinkChannel({ dataDir, env: surroundings.env, link }).catch(
    (error: unknown) => {
      if (!hasCode(error, 'daemon-socket-folder')) throw error;
      notices.warn(
        `There is no private folder for a socket (${error.facts.folder}): "${asking}" cannot ask this server.`,
      );
      return undefined;
    },
  );
  try {
    const signInUrl = link(mailboxes);
    await output.object({ url, signInUrl, apiUrl, mcpUrl }, () =>
      [
        `Sign in at ${signInUrl}`,
        `The link works once, within ten minutes.${channel === undefined ? '' : ` "${asking}" prints another.`}`,
      ].join('\n'),
    );
    if (!areKept)
      notices.say('The archive cannot be written: browsers sign in again after a restart.');
    if (open) void openInBrowser(signInUrl, context, CODE_MS);
    await aborted(signal);
  } finally {
    await channel?.close();
  }
}

/** Returns the error of a server that cannot listen, in the words of this command. */
export function cannotListen({ host, port }: ListenAddress, error: unknown): unknown {
  if (!hasCode(error, 'cannot-listen')) return error;
  return webError('web-cannot-listen', { host, port, reason: String(error.facts.reason) });
}

/** Prints a link of the server that runs: the daemon, or else the `mailkeep web` that was started last. */
export async function askForLink(
  context: CommandContext,
  addresses: readonly string[],
  open: boolean,
): Promise<ExitCode> {
  const { globals, surroundings } = context;
  const dataDir = locateDataDir(globals, surroundings);
  requireArchive(dataDir);
  const mailboxes = await mailboxKeys(context, addresses);
  const control = findControlSocket(dataDir);
  const sockets = [
    ...linkSockets(dataDir, surroundings.env),
    ...(control === null ? [] : [control]),
  ];
  return printLink(context, { dataDir, sockets, mailboxes, open });
}

/**
 * Prints a link of the first server that answers.
 *
 * @throws web-not-running
 */
export async function printLink(
  context: CommandContext,
  {
    dataDir,
    sockets,
    mailboxes,
    open,
  }: Omit<Announced, 'areKept' | 'asking'> & {
    readonly sockets: readonly string[];
  },
): Promise<ExitCode> {
  for (const socket of sockets) {
    const signInUrl = await askLink(socket, mailboxes);
    if (signInUrl === null) continue;
    await context.output.object({ signInUrl }, () => signInUrl);
    if (open) {
      context.notices.say('This command ends within a minute, when the browser has read the link.');
      await openInBrowser(signInUrl, context, READ_MS);
    }
    return EXIT.done;
  }
  throw webError('web-not-running', { dataDir });
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** What the configuration decides about an archive; null where it cannot be read, or is about another archive. */
function policyFor(dataDir: string, context: CommandContext): ArchivePolicy | null {
  const globals = { ...context.globals, data: undefined };
  try {
    const settings = settingsOf({ ...context, globals, report: () => {} });
    return settings.dataDir === dataDir ? policyOf(settings, context) : null;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    return null;
  }
}
