import { rmSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { deliver } from '../../src/sandbox/faults.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep } from '../cli/child.ts';
import { daemonWorkplace, RunningDaemon } from '../daemon/running-daemon.ts';
import type { Workplace } from './workplace.ts';

const MESSAGES = 20;

/**
 * Milliseconds from a message's arrival at the service until the daemon has it durable and searchable, one message after
 * the other: the sandbox notifies a webhook, whose receiver is the daemon. All of it on this machine.
 */
export async function webhookLatencies(work: Workplace): Promise<number[]> {
  const sandbox = await startSandbox({ seed: 1, mail: { messages: 200 } });
  const place = daemonWorkplace(sandbox, (config) => ({
    ...config,
    webhook: { listen: '127.0.0.1:0' },
    log: { level: 'info' },
  }));
  const daemon = new RunningDaemon(place);
  work.adopt(daemon.child);
  try {
    const { port } = await daemon.message('webhooks are received');
    await daemon.run('sync');
    const [mailbox] = sandbox.service.store.mailboxes.values();
    if (mailbox === undefined) throw new Error('the sandbox has no mailbox');
    const url = `http://127.0.0.1:${String(port)}/webhook`;
    const args = ['webhooks', 'create', '--mailbox', mailbox.address, '--url', url];
    const created = await mailkeep([...args, '--config', place.config]);
    if (created.code !== 0) throw new Error(`no webhook could be made: ${created.stderr}`);
    const inbox = sandbox.service.store.folderFor(mailbox, 'INBOX');
    const latencies: number[] = [];
    // The first one warms up both sides.
    for (let n = 0; n <= MESSAGES; n += 1) {
      const source = `Subject: announced ${n}\r\nMessage-ID: <${n}@bench>\r\n\r\n${'Hello. '.repeat(500)}\r\n`;
      const from = daemon.lines.length;
      const arrived = performance.now();
      deliver(sandbox.service, mailbox, inbox, Buffer.from(source));
      await daemon.line((line) => line.kind === 'hint' && line.added === 1, from);
      latencies.push(performance.now() - arrived);
    }
    return latencies.slice(1);
  } finally {
    await daemon.end();
    await sandbox.close();
    rmSync(place.folder, { recursive: true, force: true });
  }
}
