import { rmSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, type Workplace } from '../cli/child.ts';
import { daemonWorkplace, RunningDaemon } from '../daemon/running-daemon.ts';
import { signIn, whileServing } from './serving.ts';

let sandbox: Sandbox;
let place: Workplace;
let daemon: RunningDaemon;
beforeEach(async () => {
  sandbox = await startSandbox({ seed: 6, mail: { messages: 20 } });
  place = daemonWorkplace(sandbox, (config) => ({ ...config, web: { listen: '127.0.0.1:0' } }));
  daemon = new RunningDaemon(place);
});
afterEach(async () => {
  daemon.child.kill('SIGKILL');
  await daemon.ended;
  await sandbox.close();
  rmSync(place.folder, { recursive: true, force: true });
});

test('the daemon serves the mail that it fetches, to who asks it for a link', async () => {
  const { port } = await daemon.message('the web interface listens');
  await daemon.run('sync');
  const asked = await mailkeep(['web', '--link', '--json', '--data', place.data]);
  expect([asked.code, asked.stderr]).toEqual([0, '']);
  const { signInUrl } = z.object({ signInUrl: z.string() }).parse(JSON.parse(asked.stdout));
  expect(signInUrl.startsWith(`http://127.0.0.1:${String(port)}/enter#`)).toBe(true);
  const headers = { cookie: await signIn(signInUrl) };
  const page = await (await fetch(new URL('/mail', signInUrl), { headers })).text();
  expect(page).toContain('<b>20</b> messages');
  expect(page).toMatch(/<b>20<\/b> messages at the service = <b>20<\/b> stored/);
  // Neither the code nor the cookie is logged.
  const log = JSON.stringify(daemon.lines);
  expect(log).not.toContain(signInUrl.replace(/^.*#/, ''));
  expect(log).not.toContain(headers.cookie.replace(/^.*=/, ''));
});

test('a deleted message stays in the list, marked, and the archive of before shows it as it was', async () => {
  await daemon.message('the web interface listens');
  await daemon.run('sync');
  const { stdout } = await mailkeep(['list', '--json', '--data', place.data]);
  const listed = z.object({
    id: z.string(),
    mailbox: z.string(),
    folder: z.string(),
    uid: z.int(),
  });
  const [first] = jsonLines(stdout).map((line) => listed.parse(line));
  const before = new Date().toISOString();
  // `asof:` names a second: the message is deleted in a later one.
  const second = () => Math.floor(Date.now() / 1000);
  const now = second();
  while (second() === now) await new Promise((resolve) => setImmediate(resolve));
  const mailbox = [...sandbox.service.store.mailboxes.values()].find(
    ({ address }) => address === first?.mailbox,
  );
  if (mailbox === undefined || first === undefined) throw new Error('nothing was mirrored');
  const folder = sandbox.service.store.folderFor(mailbox, first.folder);
  sandbox.service.store.remove(folder, first.uid);
  const synced = await mailkeep([
    'sync',
    '--full',
    '--accept-endings',
    '--config',
    place.config,
    '--quiet',
  ]);
  expect([synced.code, synced.stderr]).toEqual([0, '']);
  const asked = await mailkeep(['web', '--link', '--data', place.data]);
  const base = asked.stdout.trim();
  const headers = { cookie: await signIn(base) };
  const get = async (address: string) => (await fetch(new URL(address, base), { headers })).text();
  const list = await get('/mail');
  const deleted = '<a class="link" href="/mail?q=is%3Adeleted"><b>1</b> deleted</a>';
  expect(list).toContain(`<b>20</b> messages, ${deleted}`);
  expect(list).toMatch(/class="row(?: unread)? ended"/);
  expect(list).toContain('<b>19</b> messages at the service = <b>19</b> stored');
  expect(await get('/mail?q=is%3Adeleted')).toContain(`m=${first.id.slice(0, 16)}`);
  expect(await get(`/m/${first.id}`)).toMatch(/Deleted at the service between <time/);
  expect(await get(`/m/${first.id}?view=history`)).toMatch(
    /Deleted at the service between <time.*no longer at the service/s,
  );
  const past = encodeURIComponent(`asof:${before}`);
  expect(await get(`/m/${first.id}?q=${past}`)).not.toMatch(/eleted at the service (?:between|on)/);
  const then = await get(`/mail?q=${past}`);
  expect(then).toContain('<b>20</b> messages');
  // What the service deleted since has the hatch there as well.
  expect(then).toMatch(/class="row(?: unread)? ended"/);
  expect(then).toMatch(/<b>20<\/b> messages known<\/a>, <a [^>]*><b>0<\/b> of them deleted/);
});

test('a browser has the daemon look now, through its own pages and through "mailkeep web"', async () => {
  await daemon.message('the web interface listens');
  await daemon.run('sync');
  const look = async (signInUrl: string): Promise<unknown> => {
    const headers = { cookie: await signIn(signInUrl), 'sec-fetch-site': 'same-origin' };
    const address = new URL('/api/look', signInUrl);
    const simple = await fetch(address, { method: 'POST', headers });
    expect(simple.status).toBe(403);
    const own = { ...headers, 'x-mailkeep': '1' };
    // The pages know that it runs.
    const health = await fetch(new URL('/health', signInUrl), { headers });
    expect(await health.text()).toMatch(/<h1>Health(?!.*No daemon runs)/s);
    return (await fetch(address, { method: 'POST', headers: own })).json();
  };
  const asked = await mailkeep(['web', '--link', '--data', place.data]);
  expect(await look(asked.stdout.trim())).toEqual({ data: { looking: true } });
  await daemon.run('hand');
  const from = daemon.lines.length;
  await whileServing(['--data', place.data], async ({ signInUrl }) => {
    expect(await look(signInUrl)).toEqual({ data: { looking: true } });
    await daemon.run('hand', from);
  });
});
