import { rmSync } from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { z } from 'zod';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep, type Workplace } from '../cli/child.ts';
import { daemonWorkplace, RunningDaemon } from '../daemon/running-daemon.ts';

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

/** Signs in as a browser without JavaScript does; returns the cookie. */
async function signIn(signInUrl: string): Promise<string> {
  const [enter = '', code = ''] = signInUrl.split('#');
  const opened = await fetch(enter);
  const token = /name="token" value="([^"]+)"/.exec(await opened.text())?.[1] ?? '';
  const cookie = opened.headers.get('set-cookie')?.split(';')[0] ?? '';
  const body = new URLSearchParams({ code, token });
  const answer = await fetch(enter, {
    method: 'POST',
    body,
    headers: { cookie },
    redirect: 'manual',
  });
  return answer.headers.getSetCookie()[0]?.split(';')[0] ?? '';
}

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
  expect(page).toMatch(/<b>20<\/b> at the service = <b>20<\/b> stored/);
  // Neither the code nor the cookie is logged.
  const log = JSON.stringify(daemon.lines);
  expect(log).not.toContain(signInUrl.replace(/^.*#/, ''));
  expect(log).not.toContain(headers.cookie.replace(/^.*=/, ''));
});
