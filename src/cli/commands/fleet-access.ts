import { EXIT, type ExitCode } from '../../core/errors.ts';
import { mailboxKey } from '../../core/state.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { addGrant, listGrants, type NewGrant, revokeGrant } from '../../fleet/grants.ts';
import { readFleetKeys } from '../../fleet/keys.ts';
import { CODE_MS } from '../../web/sessions.ts';
import { type CommandContext, invalidUsage, type Values } from '../context.ts';
import { accountNamed, type OpenFleet, withFleet } from '../open-fleet.ts';
import { dateText } from '../output.ts';

export type AccessLine = Values<'tenant'> & Values<'mailbox', readonly string[]>;
export type TokenLine = AccessLine & Values<'expires', number> & { readonly name: string };

const DAY_MS = 86_400_000;

export async function printAccessLink(
  context: CommandContext,
  name: string,
  line: AccessLine,
): Promise<ExitCode> {
  return withFleet(context, async (open) => {
    const { web } = open.config.settings;
    if (web === null) {
      const problem = '"web" is not in the configuration of this node, so nobody can sign in here.';
      throw invalidUsage('fleet access link', problem);
    }
    const { host, port } = web.listen;
    const shown = host.includes(':') ? `[${host}]` : host;
    const url = web.publicUrl === null ? `http://${shown}:${port}` : new URL(web.publicUrl).origin;
    const account = await accountNamed(open.registry, { account: name, tenant: line.tenant });
    const { secret } = await added(open, {
      ...{ use: 'link', name: 'link', tenant: account.tenant },
      rights: { accounts: [account.account], mailboxes: mailboxesIn(line) },
      expiresAt: new Date(context.now() + CODE_MS),
    });
    const signInUrl = `${url}/enter#${secret}`;
    await context.output.object({ signInUrl }, () => [
      `Sign in at ${signInUrl}`,
      'The link works once, within ten minutes.',
    ]);
    return EXIT.done;
  });
}

export async function createAccessToken(
  context: CommandContext,
  name: string | undefined,
  line: TokenLine,
): Promise<ExitCode> {
  if (name === undefined && line.tenant === undefined) {
    throw invalidUsage('fleet access token', 'name an account, or a tenant with --tenant.');
  }
  return withFleet(context, async (open) => {
    const account =
      name === undefined
        ? undefined
        : await accountNamed(open.registry, { account: name, tenant: line.tenant });
    const { expires } = line;
    const { id, secret } = await added(open, {
      ...{ use: 'token', name: line.name, tenant: account?.tenant ?? line.tenant ?? null },
      rights: {
        accounts: account === undefined ? null : [account.account],
        mailboxes: mailboxesIn(line),
      },
      expiresAt: expires === undefined ? null : new Date(context.now() + expires * DAY_MS),
    });
    await context.output.object({ id, token: secret }, () => [secret]);
    context.notices.say('It is shown only now, and stored nowhere.');
    return EXIT.done;
  });
}

export async function listAccess(
  context: CommandContext,
  { tenant }: AccessLine,
): Promise<ExitCode> {
  return withFleet(context, async ({ registry }) => {
    for (const grant of await listGrants(registry, tenant)) {
      const { id, kind, tenant: of, name, usedAt } = grant;
      await context.output.line(grant, () => {
        const used = usedAt === null ? 'never used' : `used ${dateText(usedAt.toISOString())}`;
        // A link that is used becomes a browser's session, which always has a use.
        const what = kind === 'api' ? 'token' : usedAt === null ? 'link' : 'browser';
        return terminalLine(`${id}  ${what.padEnd(7)}  ${of ?? '(all)'}  ${used}  ${name}`);
      });
    }
    return EXIT.done;
  });
}

export async function revokeAccess(context: CommandContext, id: string): Promise<ExitCode> {
  return withFleet(context, async ({ registry }) => {
    const isId = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(id);
    const outcome = isId ? await revokeGrant(registry, id, 'operator') : undefined;
    if (outcome?.outcome !== 'committed') {
      const problem = `there is no valid token or session with the id ${terminalLine(id)}; "fleet access list" shows them.`;
      throw invalidUsage('fleet access revoke', problem);
    }
    await context.output.object({ revoked: id }, () => ['Revoked.']);
    return EXIT.done;
  });
}

function added({ config, registry }: OpenFleet, grant: NewGrant) {
  return addGrant(registry, readFleetKeys(config.fleet.keyFile), grant);
}

/** Returns keys of mailboxes; null if none is named. */
function mailboxesIn({ mailbox: named }: AccessLine): readonly string[] | null {
  if (named === undefined) return null;
  return named.map((text) => {
    const [host = '', ...rest] = text.split('/');
    return mailboxKey({ host, mailbox: rest.join('/') });
  });
}
