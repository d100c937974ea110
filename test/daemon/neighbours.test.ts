import { rmSync } from 'node:fs';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { deliver } from '../../src/sandbox/faults.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, type Workplace } from '../cli/child.ts';
import { daemonWorkplace, RunningDaemon } from './running-daemon.ts';

let sandbox: Sandbox;
let place: Workplace;
let daemon: RunningDaemon;
beforeEach(async () => {
  sandbox = await startSandbox({ seed: 6, mail: { messages: 20 } });
  place = daemonWorkplace(sandbox, (config) => ({
    ...config,
    webhook: { listen: '127.0.0.1:0' },
    health: { listen: '127.0.0.1:0' },
  }));
  daemon = new RunningDaemon(place);
});
afterEach(async () => {
  daemon.child.kill('SIGKILL');
  await daemon.ended;
  await sandbox.close();
  rmSync(place.folder, { recursive: true, force: true });
});

it('a webhook brings a message into the archive', async () => {
  const { port } = await daemon.message('webhooks are received');
  await daemon.run('sync');
  const [first] = sandbox.mailboxes;
  const url = `http://127.0.0.1:${String(port)}/webhook`;
  const args = ['webhooks', 'create', '--mailbox', first?.address ?? '', '--url', url];
  const created = await mailkeep([...args, '--config', place.config]);
  expect(created.stderr + String(created.code)).toBe('0');
  const from = daemon.lines.length;
  const mailbox = sandbox.service.store.mailboxes.get(first?.resourceId ?? '');
  if (mailbox === undefined) throw new Error('no mailbox');
  const inbox = sandbox.service.store.folderFor(mailbox, 'INBOX');
  deliver(sandbox.service, mailbox, inbox, Buffer.from('Subject: announced\r\n\r\nHello.\r\n'));
  await daemon.line((line) => line.kind === 'hint' && line.added === 1, from);
  const { stdout } = await mailkeep(['list', '--json', '--data', place.data]);
  expect(jsonLines(stdout)).toContainEqual(expect.objectContaining({ subject: 'announced' }));
});

it('monitoring is answered while the daemon runs', async () => {
  const { port } = await daemon.message('health listens');
  await daemon.run('sync');
  const get = (path: string): Promise<Response> => fetch(`http://127.0.0.1:${String(port)}${path}`);
  expect((await get('/healthz')).status).toBe(200);
  expect((await get('/readyz?max-age=1h')).status).toBe(200);
  const metrics = await (await get('/metrics')).text();
  expect(metrics).toMatch(/mailkeep_runs_total\{kind="sync",outcome="done"\} 1/);
  expect(metrics).not.toContain('@');
});
