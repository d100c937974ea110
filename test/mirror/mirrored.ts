import { Pool } from 'undici';
import { z } from 'zod';
import { openExistingState, type StateFile } from '../../src/core/state.ts';
import { type Sandbox, type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox.ts';
import { ApiTokens } from '../../src/web/api-tokens.ts';
import { mailkeep, type Workplace, workplace } from '../cli/child.ts';
import { NOW, Served } from '../web/served.ts';

/** An answer as both sides are compared by it. */
export interface Told {
  readonly status: number;
  readonly type: string;
  /** JSON, or the bytes as Latin-1. */
  readonly body: unknown;
}

/** Asks one server of the mailbox surface. */
export type Ask = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Readonly<Record<string, string>>,
) => Promise<Told>;

export type Mirrored = Awaited<ReturnType<typeof mirrored>>;

/**
 * Starts a service, syncs an archive and serves the mirror from it.
 *
 * @param change alters the configuration that would be written
 */
export async function mirrored(options: SandboxOptions, change?: Parameters<typeof workplace>[1]) {
  const sandbox = await startSandbox(options);
  const place = workplace(sandbox, change);
  /** Brings the archive up to date; fails unless the program ends with one of these codes. */
  const sync = async (codes: readonly number[] = [0]) => {
    const { code, stderr } = await mailkeep(['sync', '--quiet', '--config', place.config]);
    if (!codes.includes(code ?? -1)) throw new Error(`sync ended with ${code}: ${stderr}`);
  };
  await sync();
  const state = stateOf(place);
  const tokens = new ApiTokens(state);
  const { secret } = tokens.create({ name: 'test', mailboxes: null, expiresAt: null }, NOW);
  const served = await new Served().start(place.data, { state });
  const pools = [new Pool(sandbox.mailboxUrl), new Pool(served.web.apiUrl)] as const;
  return {
    ...{ sandbox, place, served, tokens, sync },
    /** Path of the first mailbox. */
    m: `/api/v1/mailboxes/${sandbox.mailboxes[0]?.resourceId ?? ''}`,
    origin: asking(pools[0], sandbox.tokens.mailbox),
    mirror: asking(pools[1], secret),
    /** Connections to the mirror, to ask with other tokens. */
    pool: pools[1],
    async close() {
      await Promise.all(pools.map((pool) => pool.close()));
      await served.close();
      state.close();
      await sandbox.close();
    },
  };
}

/** Delivers a message to a mailbox, as if it came from outside. */
export function deliver(
  { service, mailboxes }: Sandbox,
  source: string,
  mailbox = mailboxes[0]?.resourceId ?? '',
  folder = 'INBOX',
): void {
  const { store } = service;
  const found = store.mailboxes.get(mailbox);
  if (found === undefined) throw new Error(`no mailbox ${mailbox}`);
  const bytes = Buffer.from(source, 'latin1');
  store.add(store.folderFor(found, folder), bytes, Date.UTC(2026, 0, 1), []);
}

function stateOf({ data }: Workplace): StateFile {
  const state = openExistingState(data);
  if (state === undefined) throw new Error('the archive has no state');
  return state;
}

const account = z.object({
  data: z.object({ mailboxes: z.array(z.looseObject({ resourceId: z.string() })) }),
});

/** Returns the mailboxes of an account's record by their ids: a mirror has them in the order in which syncs met them. */
export function mailboxesById(body: unknown) {
  return byId(account.parse(body).data.mailboxes);
}

export function byId<T extends { readonly resourceId: string }>(mailboxes: readonly T[]): T[] {
  return mailboxes.toSorted((one, other) => (one.resourceId < other.resourceId ? -1 : 1));
}

/** Asks with a token. */
export function asking(pool: Pool, token: string): Ask {
  return async (method, path, body, headers = {}) => {
    const answer = await pool.request({
      method: method as 'GET',
      path,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? null : JSON.stringify(body),
    });
    const bytes = Buffer.from(await answer.body.arrayBuffer());
    const type = String(answer.headers['content-type'] ?? '');
    return {
      status: answer.statusCode,
      type,
      body: type.startsWith('application/json')
        ? JSON.parse(bytes.toString('utf8'))
        : bytes.toString('latin1'),
    };
  };
}
