import { createInterface } from 'node:readline';
import { expect } from 'vitest';
import { z } from 'zod';
import { type Ended, type Spawned, start } from '../cli/child.ts';

const announced = z.object({ url: z.string(), signInUrl: z.string() });

/** Runs `mailkeep web --json` while `act` runs, then ends it as a terminal or a supervisor does. */
export async function whileServing<T>(
  args: readonly string[],
  act: (first: z.output<typeof announced>) => Promise<T>,
  signal: NodeJS.Signals = 'SIGTERM',
  spawned: Spawned = {},
): Promise<{ readonly result: T; readonly ended: Ended }> {
  const { child, ended } = start(['web', '--json', '--listen', '127.0.0.1:0', ...args], spawned);
  const lines = createInterface({ input: child.stdout });
  const line = await Promise.race([
    new Promise<string>((resolve) => lines.once('line', resolve)),
    ended.then(({ stderr }) => Promise.reject(new Error(stderr))),
  ]);
  try {
    const result = await act(announced.parse(JSON.parse(line)));
    child.kill(signal);
    return { result, ended: await ended };
  } finally {
    child.kill('SIGKILL');
  }
}

/** Signs in as a browser without JavaScript does; returns the cookie. */
export async function signIn(signInUrl: string): Promise<string> {
  const [enter = '', code = ''] = signInUrl.split('#');
  const opened = await fetch(enter);
  const token = /name="token" value="([^"]+)"/.exec(await opened.text())?.[1] ?? '';
  const cookie = opened.headers.get('set-cookie')?.split(';')[0] ?? '';
  const body = new URLSearchParams({ code, token });
  const headers = { cookie };
  const answer = await fetch(enter, { method: 'POST', body, headers, redirect: 'manual' });
  expect(answer.headers.get('location')).toBe('/mail');
  return answer.headers.getSetCookie()[0]?.split(';')[0] ?? '';
}
