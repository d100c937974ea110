import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { AS_NOBODY, NOBODY, unrefused } from '../cli/as-nobody.ts';
import { mailkeep, start } from '../cli/child.ts';
import { archiveOf, letter } from './served.ts';
import { whileServing as serving, signIn } from './serving.ts';

let data: string;
let runtime: string;

beforeAll(async () => {
  data = await archiveOf({ ferry: letter('Ferry', 'When does it leave?') });
  runtime = mkdtempSync(path.join(tmpdir(), 'mk-run-'));
});

/** Runs `mailkeep web` with a runtime folder of its own. */
const whileServing: typeof serving = (args, act, signal, spawned) =>
  serving(args, act, signal, spawned ?? { env: { XDG_RUNTIME_DIR: runtime } });

const ask = (url: string, cookie: string) =>
  fetch(url, { headers: { cookie }, redirect: 'manual' }).then(({ status }) => status);

test('web prints its address and a link, and ends well on a signal', async () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const { ended } = await whileServing(
      ['--data', data],
      async ({ url, signInUrl }) => {
        expect(url).toMatch(/^http:\/\/127\.0\.0\.1:[1-9]\d*$/);
        expect(signInUrl.startsWith(`${url}/enter#`)).toBe(true);
        expect(await ask(`${url}/you`, await signIn(signInUrl))).toBe(200);
      },
      signal,
    );
    expect([ended.code, ended.stderr]).toEqual([0, '']);
  }
});

test('sessions outlive the server', async () => {
  const first = await whileServing(['--data', data], ({ signInUrl }) => signIn(signInUrl));
  const value = first.result.replace(/^[^=]+=/, '');
  await whileServing(['--data', data], async ({ url }) => {
    // A cookie's name has the port, which is another one now.
    const cookie = `mailkeep-${new URL(url).port}=${value}`;
    expect(await ask(`${url}/you`, cookie)).toBe(200);
  });
});

test('--link prints another link of the server that runs, for its user only', async () => {
  const env = { XDG_RUNTIME_DIR: runtime };
  await whileServing(['--data', data], async ({ url }) => {
    const asked = await mailkeep(['web', '--link', '--json', '--data', data], { env });
    expect([asked.code, asked.stderr]).toEqual([0, '']);
    const { signInUrl } = z.object({ signInUrl: z.string() }).parse(JSON.parse(asked.stdout));
    expect(await ask(`${url}/you`, await signIn(signInUrl))).toBe(200);
    const plain = await mailkeep(['web', '--link', '--data', data], { env });
    expect(plain.stdout).toMatch(/^http:\S+\/enter#[\w-]{14}\n$/);
    expect(statSync(path.join(runtime, 'mailkeep')).mode & 0o777).toBe(0o700);
  });
});

test('--link ends with code 1 where no server runs, and leaves nothing', async () => {
  const other = await archiveOf({ other: letter('Other', 'text') });
  const env = { XDG_RUNTIME_DIR: runtime };
  await whileServing(['--data', data], async () => {
    const { code, stdout, stderr } = await mailkeep(['web', '--link', '--data', other], { env });
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toContain('No web interface of');
  });
});

test.skipIf(process.platform !== 'linux')(
  '--open gives the browser the link in a private file, and never on a command line',
  async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'mk-open-'));
    const pipe = path.join(folder, 'opened');
    spawnSync('mkfifo', [pipe]);
    const opener = path.join(folder, 'xdg-open');
    writeFileSync(opener, `#!/bin/sh\n{ echo "$@"; stat -c %a "$1"; cat "$1"; } > '${pipe}'\n`);
    chmodSync(opener, 0o755);
    const opened = readFile(pipe, 'utf8');
    const env = { XDG_RUNTIME_DIR: runtime, PATH: `${folder}:${process.env.PATH ?? ''}` };
    await whileServing(
      ['--data', data, '--open'],
      async ({ url, signInUrl }) => {
        const [argument = '', mode, page = ''] = (await opened).split('\n');
        expect(argument).not.toContain('#');
        expect(mode).toBe('600');
        expect(page).toContain(`url=${signInUrl}"`);
        expect(await ask(`${url}/you`, await signIn(signInUrl))).toBe(200);
      },
      'SIGTERM',
      { env },
    );
  },
);

test.skipIf(process.platform !== 'linux')(
  '--link --open keeps the file until the browser has read it, or the command is interrupted',
  async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'mk-open-'));
    const pipe = path.join(folder, 'opened');
    spawnSync('mkfifo', [pipe]);
    const opener = path.join(folder, 'xdg-open');
    writeFileSync(opener, `#!/bin/sh\necho "$1" > '${pipe}'\n`);
    chmodSync(opener, 0o755);
    const env = { XDG_RUNTIME_DIR: runtime, PATH: `${folder}:${process.env.PATH ?? ''}` };
    await whileServing(
      ['--data', data],
      async ({ url }) => {
        const { child, ended } = start(['web', '--link', '--open', '--data', data], { env });
        const said = new Promise<string>((resolve) => {
          child.stderr.once('data', (piece) => resolve(String(piece)));
        });
        const opened = (await readFile(pipe, 'utf8')).trim();
        // The opener has ended, and the browser begins to read.
        const early = ended.then(({ code }) => `ended with ${code}`);
        expect(await Promise.race([early, said])).toContain('when the browser has read the link');
        expect(await readFile(opened, 'utf8')).toContain(`url=${url}/enter#`);
        child.kill('SIGINT');
        expect((await ended).code).toBe(0);
        expect(existsSync(path.dirname(opened))).toBe(false);
      },
      'SIGTERM',
      { env },
    );
  },
);

test('without a private folder for its socket, web serves all the same, and says so', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mk-run-'));
  // Not a folder, so nothing can be made in it.
  writeFileSync(path.join(folder, 'mailkeep'), '');
  const env = { XDG_RUNTIME_DIR: folder };
  await whileServing(
    ['--data', data],
    async ({ url, signInUrl }) => {
      expect(await ask(`${url}/you`, await signIn(signInUrl))).toBe(200);
    },
    'SIGTERM',
    { env },
  );
  const { child, ended } = start(['web', '--listen', '127.0.0.1:0', '--data', data], { env });
  const said = new Promise<string>((resolve) => {
    child.stderr.once('data', (piece) => resolve(String(piece)));
  });
  const early = ended.then(({ code, stderr }) => `ended with ${code}: ${stderr}`);
  const warning = await Promise.race([said, early]);
  child.kill('SIGTERM');
  expect(warning).toContain('There is no private folder for a socket');
  const { code, stdout } = await ended;
  expect([code, stdout.includes('--link')]).toEqual([0, false]);
});

test('a link for a mailbox that never was is refused', async () => {
  const args = ['web', '--link', '--mailbox', 'nobody@example.org', '--data', data];
  const { code, stderr } = await mailkeep(args);
  expect(code).toBe(2);
  expect(stderr).toContain('nobody@example.org');
});

test('an address that other machines reach, and one that is taken, are refused', async () => {
  const open = await mailkeep(['web', '--data', data, '--listen', '0.0.0.0:0']);
  expect([open.code, open.stderr]).toEqual([2, expect.stringContaining('HTTPS')]);
  const none = await mailkeep(['web', '--data', data, '--listen', 'nowhere']);
  expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('--listen')]);
  await whileServing(['--data', data], async ({ url }) => {
    const taken = await mailkeep(['web', '--data', data, '--listen', new URL(url).host]);
    expect([taken.code, taken.stderr]).toEqual([2, expect.stringContaining('EADDRINUSE')]);
  });
});

test('an older catalog is named with the command that updates it, and stays as it is', async () => {
  const copy = path.join(mkdtempSync(path.join(tmpdir(), 'mailkeep-web-')), 'archive');
  cpSync(data, copy, { recursive: true });
  const file = path.join(copy, 'catalog.sqlite');
  const catalog = new Database(file);
  catalog.pragma('user_version = 1');
  catalog.close();
  const { code, stdout, stderr } = await mailkeep(['web', '--data', copy]);
  expect([code === 0, stdout]).toEqual([false, '']);
  expect(stderr).toContain('mailkeep rebuild');
  const after = new Database(file, { readonly: true });
  expect(after.pragma('user_version', { simple: true })).toBe(1);
  after.close();
});

test('no archive is an error, and none is made', async () => {
  const none = path.join(mkdtempSync(path.join(tmpdir(), 'mailkeep-web-')), 'none');
  const { code } = await mailkeep(['web', '--data', none]);
  expect(code).toBe(2);
  expect(existsSync(none)).toBe(false);
});

test.skipIf(unrefused !== null)(
  'an archive that cannot be written is served, with sessions in memory',
  async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-web-'));
    const copy = path.join(folder, 'archive');
    cpSync(data, copy, { recursive: true });
    rmSync(path.join(copy, 'state.sqlite'), { force: true });
    const isRoot = process.getuid?.() === 0;
    const home = mkdtempSync(path.join(tmpdir(), 'nobody-'));
    if (isRoot) chownSync(home, NOBODY, NOBODY);
    chmodSync(folder, 0o755);
    for (const name of readdirSync(copy, { recursive: true }).map(String)) {
      const file = path.join(copy, name);
      chmodSync(file, statSync(file).isDirectory() ? 0o555 : 0o444);
    }
    chmodSync(copy, 0o555);
    const env = { HOME: home, TMPDIR: home, XDG_RUNTIME_DIR: home };
    const spawned = isRoot ? { env, cwd: home, under: AS_NOBODY } : { env, cwd: home };
    const { ended } = await whileServing(
      ['--data', copy],
      async ({ url, signInUrl }) => {
        const cookie = await signIn(signInUrl);
        expect(await ask(`${url}/mail`, cookie)).toBe(200);
        const saving = await fetch(`${url}/api/saved`, {
          method: 'POST',
          headers: { cookie, 'x-mailkeep': '1', 'sec-fetch-site': 'same-origin' },
          body: new URLSearchParams({ name: 'lease', query: 'lease' }),
        });
        expect(saving.status).toBe(200);
        expect(await saving.text()).toContain(`${copy} cannot be written: permission denied`);
      },
      'SIGTERM',
      spawned,
    );
    expect([ended.code, ended.stderr]).toEqual([0, '']);
    expect(existsSync(path.join(copy, 'state.sqlite'))).toBe(false);
    chmodSync(copy, 0o755);
  },
);
