import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { resourceIdOf } from '../../src/sandbox/store.ts';
import { stopServer } from '../peers/stop-server.ts';
import type { Workplace } from './workplace.ts';

const factsSchema = z.looseObject({
  mailboxUrl: z.string(),
  tokens: z.looseObject({ mailbox: z.string() }),
  mailboxes: z.array(z.looseObject({ resourceId: z.string(), address: z.string() })).min(1),
});

/** The local service with the messages of the set, running. */
export interface Sandbox {
  readonly url: string;
  readonly token: string;
  /** Of the mailbox that holds the messages. */
  readonly address: string;
  /** Requests answered since the last time, counted by the service itself. */
  takeRequests(): Promise<number>;
  /** Deletes a message behind the client's back. */
  remove(folder: string, uid: number): Promise<void>;
  stop(): Promise<void>;
}

/** Tokens follow from the sandbox's seed. */
const SEED = 1;
const foldersSchema = z.looseObject({
  data: z.array(z.looseObject({ path: z.string(), messageCount: z.number() })),
});
const countsSchema = z.looseObject({ data: z.looseObject({ total: z.number() }) });

/** Starts `mailkeep sandbox` over a Maildir, waits until it listens and has every listing made once. */
export async function startSandbox(
  work: Workplace,
  program: string,
  maildir: string,
): Promise<Sandbox> {
  const args = ['sandbox', '--port', '0', '--seed', String(SEED), '--from', maildir];
  const server = spawn(process.execPath, [program, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  work.adopt(server);
  const lines = createInterface({ input: server.stdout });
  const gone = once(server, 'exit').then(([code]) => {
    throw new Error(`mailkeep sandbox ended with ${code} before it listened`);
  });
  const [line] = await Promise.race([once(lines, 'line'), gone]);
  gone.catch(() => {});
  const facts = factsSchema.parse(JSON.parse(String(line)));
  const [mailbox] = facts.mailboxes;
  if (mailbox === undefined) throw new Error('the sandbox has no mailbox');
  const controlToken = resourceIdOf('ctl_', `${SEED}/control token`).toLowerCase();
  const control = async (method: string, path: string, body?: unknown): Promise<unknown> => {
    const response = await fetch(`${facts.mailboxUrl}/control/${path}`, {
      method,
      headers: { authorization: `Bearer ${controlToken}`, 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (!response.ok) throw new Error(`${method} /control/${path} answers ${response.status}`);
    return response.status === 204 ? undefined : await response.json();
  };
  const read = async (path: string): Promise<unknown> => {
    const response = await fetch(
      `${facts.mailboxUrl}/api/v1/mailboxes/${mailbox.resourceId}/${path}`,
      {
        headers: { authorization: `Bearer ${facts.tokens.mailbox}` },
      },
    );
    if (!response.ok) throw new Error(`GET ${path} answers ${response.status}`);
    return await response.json();
  };
  // Both servers know their messages' listings before anything is measured.
  for (const { path, messageCount } of foldersSchema.parse(await read('folders?perPage=100')).data)
    for (let page = 1; page <= Math.ceil(messageCount / 100); page++)
      await read(`folders/${encodeURIComponent(path)}/messages?perPage=100&page=${page}&sort=uid`);
  return {
    url: facts.mailboxUrl,
    token: facts.tokens.mailbox,
    address: mailbox.address,
    async takeRequests() {
      const { total } = countsSchema.parse(await control('GET', 'requests')).data;
      await control('DELETE', 'requests');
      return total;
    },
    async remove(folder, uid) {
      const where = { mailbox: mailbox.resourceId, folder };
      await control('POST', 'change', { action: 'delete', uids: [uid], ...where });
    },
    stop: () => stopServer(server),
  };
}
