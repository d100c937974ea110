import { beforeEach, expect, it } from 'vitest';
import { jsonLines, mailkeep } from '../cli/child.ts';
import { DaemonTests, type RunningDaemon } from './running-daemon.ts';

const work = new DaemonTests({ seed: 6, mail: { messages: 20 } });
let daemon: RunningDaemon;
beforeEach(() => {
  const listen = '127.0.0.1:0';
  work.configure((config) => ({ ...config, webhook: { listen }, health: { listen } }));
  daemon = work.daemon();
});

it('a webhook brings a message into the archive', async () => {
  const { port } = await daemon.message('webhooks are received');
  await daemon.run('sync');
  const [first] = work.sandbox.mailboxes;
  const url = `http://127.0.0.1:${String(port)}/webhook`;
  const args = ['webhooks', 'create', '--mailbox', first?.address ?? '', '--url', url];
  const created = await mailkeep([...args, '--config', work.place.config]);
  expect(created.stderr + String(created.code)).toBe('0');
  const from = daemon.lines.length;
  work.arrive('announced');
  await daemon.line((line) => line.kind === 'hint' && line.added === 1, from);
  const { stdout } = await mailkeep(['list', '--json', '--data', work.place.data]);
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
