import { usageError } from '../../core/error-tables.ts';
import type { ApiToken } from '../../core/state.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { ApiTokens, hasExpired } from '../../web/api-tokens.ts';
import { webError } from '../../web/errors.ts';
import { writableState } from '../../web/sessions.ts';
import { mailboxKeys, requireArchiveDir } from '../archive.ts';
import {
  action,
  type CommandContext,
  invalidUsage,
  type Register,
  subCommand,
  type Values,
} from '../context.ts';
import { collect, duration } from '../option-values.ts';
import { dateText } from '../output.ts';

const HELP = `
A token opens the read-only API of an archive, which "mailkeep web" and a daemon with "web" in its configuration
serve below /api/v1. Its secret is printed once, by create; the archive stores only what it takes to recognise it.
A revoked token opens nothing from that moment on.

EXAMPLES
  mailkeep token create --name laptop
  mailkeep token create --name assistant --mailbox anna@example.org --expires 90d
  mailkeep token list
  mailkeep token revoke laptop`;

type CreateLine = Values<'name'> & Values<'mailbox', readonly string[]> & Values<'expires', number>;

const NAME_LENGTH = 100;

export const register: Register = (command, run) => {
  command
    .usage('<create|list|revoke> [options]')
    .argument('[command]')
    .helpCommand(false)
    .addHelpText('after', HELP)
    .action((typed: string | undefined) => {
      // Without a subcommand, the parser asks for one.
      if (typed !== undefined) {
        const problem = `unknown command '${typed}'. Use create, list or revoke.`;
        throw invalidUsage('token', problem);
      }
    });
  subCommand(command, 'create', 'create a token and print its secret, once')
    .option('--name <name>', 'what lists call it', 'token')
    .option('--mailbox <address>', 'limit it to this mailbox; repeatable', collect)
    .option(
      '--expires <duration>',
      'how long it is valid, such as 90d (default: until it is revoked)',
      duration,
    )
    .action(action(run, createToken));
  subCommand(command, 'list', 'list tokens, without their secrets').action(action(run, listTokens));
  subCommand(command, 'revoke', 'end tokens at once')
    .argument('<id...>', 'ids or names of tokens')
    .action(action(run, revokeGrants));
};

async function createToken(context: CommandContext, line: CreateLine): Promise<void> {
  const { name = 'token', mailbox = [], expires } = line;
  if (name.length === 0 || name.length > NAME_LENGTH) {
    const expected = `a name of 1 to ${NAME_LENGTH} characters`;
    throw usageError('usage-option', { option: '--name', found: name, expected });
  }
  const mailboxes = await mailboxKeys(context, mailbox);
  const now = context.now();
  const expiresAt = expires === undefined ? null : now + expires;
  const { secret, token } = await withTokens(context, (tokens) =>
    tokens.create({ name, mailboxes, expiresAt }, now),
  );
  await context.output.object({ ...lineOf(token, now), secret }, () => secret);
  context.notices.say('This secret is shown once. It can read the mail that the token reaches.');
}

function listTokens(context: CommandContext): Promise<void> {
  return withTokens(context, async (tokens) => {
    const now = context.now();
    const all = tokens.list();
    for (const token of all)
      await context.output.line(lineOf(token, now), () => textOf(token, now));
    if (all.length === 0) context.notices.say('There are no tokens.');
  });
}

function revokeGrants(context: CommandContext, ids: readonly string[]): Promise<void> {
  return withTokens(context, async (tokens) => {
    for (const id of ids) {
      const revoked = tokens.revoke(id);
      if (revoked.length === 0) throw webError('token-unknown', { token: terminalLine(id) });
      for (const token of revoked)
        await context.output.line(
          { revoked: token.id, name: token.name },
          () => `Revoked ${token.id} (${terminalLine(token.name)}).`,
        );
    }
  });
}

/** @throws usage-no-archive, token-unwritable */
async function withTokens<T>(
  context: CommandContext,
  act: (tokens: ApiTokens) => T | Promise<T>,
): Promise<T> {
  const dataDir = requireArchiveDir(context);
  const state = writableState(dataDir);
  if (state === undefined) throw webError('token-unwritable', { dataDir });
  try {
    return await act(new ApiTokens(state));
  } finally {
    state.close();
  }
}

/** Times are ISO 8601 in UTC. */
function lineOf(token: ApiToken, now: number) {
  const { id, name, createdAt, usedAt, expiresAt, mailboxes } = token;
  return {
    id,
    name,
    createdAt: iso(createdAt),
    usedAt: iso(usedAt),
    expiresAt: iso(expiresAt),
    expired: hasExpired(token, now),
    mailboxes: mailboxes?.map(mailboxIn) ?? null,
  };
}

function textOf(token: ApiToken, now: number): string {
  const { id, name, usedAt, expiresAt, mailboxes } = token;
  const used = usedAt === null ? 'never used' : `last used ${dateText(iso(usedAt) ?? '')}`;
  const reach = mailboxes === null ? 'all mailboxes' : mailboxes.map(mailboxIn).join(', ');
  const end = hasExpired(token, now) ? 'expired' : 'expires';
  const until = expiresAt === null ? '' : `, ${end} ${dateText(iso(expiresAt) ?? '')}`;
  return terminalLine(`${id}  ${name}: ${reach}, ${used}${until}`);
}

function mailboxIn(key: string): string {
  const parts: unknown = JSON.parse(key);
  return Array.isArray(parts) && typeof parts[1] === 'string' ? parts[1] : key;
}

function iso(time: number | null): string | null {
  return time === null ? null : new Date(time).toISOString();
}
