import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { stopServer, type Workplace } from './workplace.ts';

const factsSchema = z.looseObject({
  mailboxUrl: z.string(),
  tokens: z.looseObject({ mailbox: z.string() }),
  mailboxes: z.array(z.looseObject({ resourceId: z.string(), address: z.string() })).min(1),
});

/** The local service with the messages of the set, running. */
export interface Sandbox {
  readonly url: string;
  readonly token: string;
  readonly mailbox: string;
  stop(): Promise<void>;
}

/** Starts `mailkeep sandbox` over a Maildir and waits until it listens. */
export async function startSandbox(
  work: Workplace,
  program: string,
  maildir: string,
): Promise<Sandbox> {
  const server = spawn(process.execPath, [program, 'sandbox', '--port', '0', '--from', maildir], {
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
  return {
    url: facts.mailboxUrl,
    token: facts.tokens.mailbox,
    mailbox: mailbox.resourceId,
    stop: () => stopServer(server),
  };
}
