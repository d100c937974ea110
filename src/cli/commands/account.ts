import { Option } from 'commander';
import { loadSettings } from '../../catalog/archive-settings.ts';
import { systemClock } from '../../core/concurrency.ts';
import type { ImapAccount, OAuthSettings } from '../../core/config-schema.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import type { CredentialOptions } from '../../imap/credential.ts';
import { imapError } from '../../imap/errors.ts';
import type { LoginPrompt } from '../../imap/oauth.ts';
import { chooseAccounts } from '../../sync/selection.ts';
import { terminalPrompter } from '../ask.ts';
import { action, type CommandContext, lazyAction, type Register, subCommand } from '../context.ts';
import { exclude, wholeNumber } from '../option-values.ts';

const MAX_PORT = 65_535;

const HELP = `
"login" signs in an IMAP account that has "oauth" in the configuration. It prints an address to open in a browser, on
this or another machine, and waits until you have signed in there. The tokens are kept next to the archive, in a file
that only you can read; mailkeep refreshes them. Sign in again when a sync says that the provider has ended it.

With Google, the browser comes back to an address on this machine. If it runs elsewhere, copy the address at which it
ends, and paste it here.

"move" is for another provider, host or user. It signs in there, and compares the mailbox with the archive: UIDVALIDITY
of each folder, and the bytes of 20 messages. If they are the same, the account continues its mailbox in the archive;
otherwise the next sync starts another one next to it. Only the configuration is changed, after it has asked you.

EXAMPLES
  mailkeep account login ada
  mailkeep account move ada --host imap.example.net
  mailkeep account move ada --user ada@example.net
  mailkeep account move ada --host imap.example.net --user ada@example.net --password-file new.password --yes`;

export const register: Register = (command, run) => {
  command.usage('<login|move> <name>').helpCommand(false).addHelpText('after', HELP);
  subCommand(command, 'login', 'sign in an IMAP account with OAuth')
    .argument('<name>', 'name of the account in the configuration')
    .action(action(run, logIn));
  const move = subCommand(command, 'move', 'continue an IMAP account at another server')
    .argument('<name>', 'name of the account in the configuration')
    .option('--host <host>', 'the new server (default: as before)')
    .option(
      '--port <n>',
      'its port (default: as before, or with --host 993, or 143 without implicit TLS)',
      wholeNumber(1, MAX_PORT),
    )
    .addOption(
      new Option('--tls <mode>', 'how to encrypt (default: as before)').choices([
        'implicit',
        'starttls',
        'none',
      ]),
    )
    .option('--user <user>', 'the user to sign in (default: as before)')
    .option('--password-file <file>', 'file with the password, relative to the configuration')
    .option('--password-env <name>', 'environment variable with the password')
    .option('--yes', 'change the configuration without asking')
    .action(lazyAction(run, async () => (await import('./account-move.ts')).moveAccount));
  exclude(move, ['passwordEnv', 'passwordFile']);
};

/** Signs in at the provider, stores the tokens, and tries them at the IMAP server. */
async function logIn(context: CommandContext, name: string): Promise<void> {
  const { environment, signal, now, notices, output } = context;
  const settings = loadSettings(context);
  const [account] = chooseAccounts(settings, name);
  if (account === undefined) throw new Error('an account that was not chosen');
  if (account.kind !== 'imap') throw imapError('imap.no-imap', { account: account.name });
  const oauth = personalOAuth(account.imap.signIn);
  if (oauth === null) throw imapError('imap.no-oauth', { account: account.name });
  const { dataDir } = settings;
  const options = { env: environment.env, dataDir, clock: { ...systemClock, now } };
  const { oauthClient } = await import('../../imap/credential.ts');
  const { login } = await import('../../imap/oauth.ts');
  const { tokensFile, withTokensLocked, writeTokens } = await import('../../imap/oauth-tokens.ts');
  const client = await oauthClient(account.name, oauth, options);
  const prompter = terminalPrompter(context);
  const tokens = await login(
    client,
    {
      show: (prompt) => notices.stream.write(`${promptText(account.name, prompt)}\n`),
      ...(prompter === undefined ? {} : { paste: (stopped) => pastedAddress(context, stopped) }),
    },
    signal,
  );
  const file = tokensFile(dataDir, account.name);
  await withTokensLocked(file, systemClock, async () => writeTokens(file, oauth, tokens));
  const folders = await countFolders(account, options, signal);
  const { host, user } = account.imap.server;
  await output.object(
    { account: account.name, host, user, folders, file },
    () =>
      `Signed in: ${host} accepts ${terminalLine(user)}, and lists ${folders} folders.\nThe tokens are in ${terminalLine(file)}.`,
  );
}

function personalOAuth(signIn: ImapAccount['imap']['signIn']): OAuthSettings | null {
  return signIn.kind === 'oauth' && !signIn.appOnly ? signIn : null;
}

function promptText(account: string, { url, code, minutes }: LoginPrompt): string {
  const withCode = code === null ? '' : ` with the code  ${code} `;
  return [
    `To sign in the account ${account}, open this address in a browser:`,
    '',
    `  ${url}`,
    '',
    `Then sign in there${withCode} within ${minutes} minutes.`,
  ].join('\n');
}

/** Returns what the user pastes; never returns after Ctrl-D, because the browser may still answer. */
async function pastedAddress(context: CommandContext, signal: AbortSignal): Promise<string> {
  const prompter = terminalPrompter({ ...context, signal });
  const question = 'If the browser runs on another machine, paste the address at which it ends';
  return (await prompter?.line(question)) ?? '';
}

/** Signs in to the IMAP server with the new token. */
async function countFolders(
  account: ImapAccount,
  options: CredentialOptions,
  signal: AbortSignal,
): Promise<number> {
  const { imapCredential } = await import('../../imap/credential.ts');
  const { ImapConnections } = await import('../../imap/connections.ts');
  const { listFolders } = await import('../../imap/commands.ts');
  const connections = new ImapConnections({
    server: account.imap.server,
    credential: imapCredential(account, options),
    most: 1,
  });
  try {
    return (await connections.use(listFolders, signal)).folders.length;
  } finally {
    await connections.close();
  }
}
