import type { ListenAddress } from '../core/address.ts';
import { describeError, EXIT, type ExitCode } from '../core/errors.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import { startFront } from '../web/elsewhere/front.ts';
import { linkSockets } from '../web/link-channel.ts';
import { openSessions } from '../web/sessions.ts';
import type { WebServer } from '../web/web-server.ts';
import type { CommandContext } from './context.ts';
import type { AccountOption } from './option-values.ts';
import { cannotListen, printLink, withServer } from './serve-web.ts';
import {
  chosenMailboxes,
  mailboxKeysOf,
  servedFolderOf,
  withServedArchive,
} from './served-account.ts';

export interface ServeAccountOptions {
  readonly listen: ListenAddress;
  readonly mailboxes: readonly string[];
  readonly open: boolean;
}

/**
 * Serves an account of a fleet until the command is interrupted: browsers sign in at this node, and the one that holds the
 * archive answers them.
 */
export async function serveAccount(
  context: CommandContext,
  which: AccountOption,
  { listen, mailboxes: named, open }: ServeAccountOptions,
): Promise<ExitCode> {
  return withServedArchive(context, which, async (ask, dataDir) => {
    const { notices, now } = context;
    const sessions = openSessions(dataDir);
    let web: WebServer | undefined;
    try {
      const mailboxes = await chosenMailboxes(ask, named);
      web = await startFront({
        ...{ listen, publicUrl: null, sessions: sessions.store, state: sessions.state, now, ask },
        onError: (error) =>
          notices.warn(`A request could not be answered: ${describeError(error).message}`),
      }).catch((error: unknown) => {
        throw cannotListen(listen, error);
      });
      await withServer(context, web, {
        ...{ dataDir, mailboxes, open, areKept: sessions.areKept },
        asking: linkCommand(which),
      });
    } finally {
      await web?.close();
      sessions.close();
    }
    return EXIT.done;
  });
}

/** Prints a link of the server that runs for an account at this node. */
export async function askForAccountLink(
  context: CommandContext,
  which: AccountOption,
  { mailboxes: named, open }: Omit<ServeAccountOptions, 'listen'>,
): Promise<ExitCode> {
  const dataDir = await servedFolderOf(context, which, 'web');
  const mailboxes = await mailboxKeysOf(context, which, named);
  const sockets = linkSockets(dataDir, context.environment.env);
  return printLink(context, { dataDir, sockets, mailboxes, open });
}

function linkCommand({ account, tenant }: AccountOption): string {
  const of = tenant === undefined ? '' : ` --tenant ${tenant}`;
  return terminalLine(`mailkeep web --link --account ${account}${of}`);
}
