import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep, type Workplace, workplace } from './child.ts';

let sandbox: Sandbox;
let work: Workplace;

beforeAll(async () => {
  sandbox = await startSandbox({ seed: 1, mail: { messages: 60 } });
  work = workplace(sandbox);
  await ok(
    'api',
    'createFolder',
    '--param',
    'mailbox=ada@example.org',
    '--body',
    '{"name":"Brief"}',
  );
  await ok('sync');
});
afterAll(() => sandbox.close());

const configured = (...args: string[]) => mailkeep([...args, '--config', work.config]);

async function ok(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await configured(...args);
  expect([args, code], stderr).toEqual([args, 0]);
  return stdout;
}

test('a folder that went is known where deleted or earlier places are asked for, and in a search', async () => {
  const folder = 'Brief';
  expect(await ok('list', '--folder', folder)).toBe('');
  await ok(
    'api',
    'deleteFolder',
    '--param',
    'mailbox=ada@example.org',
    '--param',
    `folder=${folder}`,
    '--yes',
  );
  // A folder is gone when a second pass misses it as well.
  await ok('sync');
  await ok('sync');
  const gone = await configured('list', '--folder', folder);
  expect(gone).toMatchObject({ code: 2, stdout: '' });
  expect(gone.stderr).toBe(
    `mailkeep: The folder "${folder}" is no longer at the service.\nAdd --deleted to include what was in it, or --as-of TIME to see it as it was then.\n`,
  );
  expect(await ok('list', '--folder', folder, '--deleted')).toBe('');
  expect(await ok('list', '--folder', folder, '--as-of', '0s')).toBe('');
  expect(await ok('search', `in:${folder}`)).toBe('');
});

test('list refuses a mailbox or a folder that the archive never had, in every form of output', async () => {
  const list = (...more: string[]) => mailkeep(['list', ...more, '--data', work.data]);
  for (const how of [[], ['--quiet'], ['--deleted'], ['--as-of', '2026-03-01']]) {
    expect([how, await list('--mailbox', 'nobody@example.net', ...how)]).toMatchObject([
      how,
      {
        code: 2,
        stdout: '',
        stderr:
          'mailkeep: The archive has no mailbox "nobody@example.net".\nIt has ada@example.org, office@example.org.\n',
      },
    ]);
    expect([how, await list('--folder', 'Snet', ...how)]).toMatchObject([
      how,
      {
        code: 2,
        stdout: '',
        stderr: expect.stringMatching(
          /^mailkeep: The archive has no folder "Snet"\.\nDid you mean "INBOX.Sent"\? .*\n$/,
        ),
      },
    ]);
  }
  const json = await list('--mailbox', 'adda', '--json');
  expect([json.code, json.stdout]).toEqual([2, '']);
  expect(JSON.parse(json.stderr)).toEqual({
    error: {
      code: 'usage-unknown-name',
      message: 'The archive has no mailbox "adda".',
      hint: expect.stringContaining('Did you mean "ada@example.org"?'),
    },
  });
});

test('a folder of another mailbox is none of this one', async () => {
  const both = ['list', '--mailbox', 'ada@example.org', '--folder'];
  expect(await configured(...both, 'INBOX.Nope')).toMatchObject({ code: 2, stdout: '' });
  await ok(...both, 'INBOX', '--limit', '1');
});

test('sync names what the token reaches, and what was probably meant', async () => {
  const nobody = await configured('sync', '--mailbox', 'nobody@example.com');
  expect(nobody).toMatchObject({
    code: 2,
    stdout: '',
    stderr:
      'mailkeep: No configured account reaches nobody@example.com; they reach ada@example.org, office@example.org.\n',
  });
  const near = await configured('sync', '--mailbox', 'adda@example.org');
  expect(near.stderr).toContain('Did you mean "ada@example.org"?');
  const folder = await configured('sync', '--folder', 'INBOX.Snet');
  expect(folder).toMatchObject({ code: 2, stdout: '' });
  expect(folder.stderr).toMatch(
    /^mailkeep: The service lists no folder "INBOX.Snet"\.\nDid you mean "INBOX.Sent"\?/,
  );
  const account = await configured('sync', '--account', 'mian');
  expect(account).toMatchObject({ code: 2, stdout: '' });
  expect(account.stderr).toContain('Did you mean "main"? It has main.');
});

test('quarantine and forget refuse names that the archive never had', async () => {
  for (const line of [
    ['quarantine', '--mailbox', 'adda@example.org'],
    ['quarantine', 'ack', '--mailbox', 'adda@example.org'],
    ['forget', '--quarantine', '--mailbox', 'adda@example.org', '--yes'],
  ]) {
    const { code, stdout, stderr } = await configured(...line);
    expect([line, code, stdout]).toEqual([line, 2, '']);
    expect(stderr).toContain('Did you mean "ada@example.org"?');
  }
});
