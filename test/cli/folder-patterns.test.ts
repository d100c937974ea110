import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, workplace } from './child.ts';

let sandbox: Sandbox;

beforeAll(async () => {
  sandbox = await startSandbox({ seed: 1, mail: { messages: 60 } });
});
afterAll(() => sandbox.close());

function field(line: unknown, name: string): unknown {
  return typeof line === 'object' && line !== null ? Reflect.get(line, name) : undefined;
}

/** What a sync says it compared: paths of the first mailbox's folders. */
async function synced(config: string, ...folders: string[]): Promise<unknown[]> {
  const line = ['sync', '--config', config, '--mailbox', 'ada@example.org', '--json'];
  const named = folders.flatMap((folder) => ['--folder', folder]);
  const { code, stdout, stderr } = await mailkeep([...line, ...named]);
  expect(code, stderr).toBe(0);
  const certificates = field(jsonLines(stdout)[0], 'certificates');
  if (!Array.isArray(certificates)) throw new Error('no certificates');
  return certificates.map((one) => field(one, 'folder')).toSorted();
}

test('sync and list take the same patterns, and names such as sent', async () => {
  const { config, data } = workplace(sandbox);
  expect(await synced(config, 'sent')).toEqual(['INBOX.Sent']);
  expect(await synced(config, 'INBOX.D*', 'inbox')).toEqual(['INBOX', 'INBOX.Drafts']);
  const list = async (folder: string) => {
    const { code, stdout, stderr } = await mailkeep([
      'list',
      '--folder',
      folder,
      '--json',
      '--data',
      data,
    ]);
    expect(code, stderr).toBe(0);
    return [...new Set(jsonLines(stdout).map((line) => field(line, 'folder')))].toSorted();
  };
  expect(await list('Sent')).toEqual(['INBOX.Sent']);
  expect(await list('INBOX*')).toEqual(expect.arrayContaining(['INBOX', 'INBOX.Sent']));
  expect(await list('*.Sent')).toEqual(['INBOX.Sent']);
  // What is there by that path comes first.
  expect(await list('INBOX')).toEqual(['INBOX']);
  const export_ = await mailkeep([
    'export',
    '--folder',
    'sent',
    '--to',
    'out',
    '--format',
    'eml',
    '--json',
    '--data',
    data,
  ]);
  expect(export_.code, export_.stderr).toBe(0);
  const sent = await mailkeep(['list', '--folder', 'INBOX.Sent', '--json', '--data', data]);
  expect(jsonLines(export_.stdout)).toMatchObject([{ places: jsonLines(sent.stdout).length }]);
  for (const nothing of ['flagged', 'INBOX.X*']) {
    const refused = await mailkeep(['list', '--folder', nothing, '--data', data]);
    expect(refused).toMatchObject({ code: 2, stdout: '' });
    expect(refused.stderr).toContain(`The archive has no folder "${nothing}".`);
  }
});

test('a pattern or a name narrows what the configuration includes, and never widens it', async () => {
  const { config } = workplace(sandbox, (given) => ({
    ...given,
    accounts: given.accounts.map((account) => ({
      ...account,
      folders: { include: ['INBOX', 'INBOX.Drafts'] },
    })),
  }));
  expect(await synced(config, '*')).toEqual(['INBOX', 'INBOX.Drafts']);
  expect(await synced(config, 'drafts', 'sent')).toEqual(['INBOX.Drafts']);
  const left = await mailkeep(['sync', '--config', config, '--folder', 'sent']);
  expect(left).toMatchObject({ code: 2, stdout: '' });
  expect(left.stderr).toContain('The service lists no folder "sent".');
  expect(left.stderr).toContain('the configuration may leave others out');
  const named = await mailkeep(['sync', '--config', config, '--folder', 'INBOX.Sent']);
  expect(named).toMatchObject({ code: 2, stdout: '' });
});
