import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { openCatalogReader } from '../../src/catalog/catalog.ts';
import { readState } from '../../src/core/state.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { archiveStatus } from '../../src/verify/archive-status.ts';
import { listIssues } from '../../src/verify/issues.ts';
import { mailkeep, workplace } from './child.ts';

const shape = z.object({
  stale: z.array(z.string()),
  mailboxes: z.array(
    z.object({ address: z.string(), provenAt: z.string().nullable(), complete: z.boolean() }),
  ),
});

test('a mailbox that no pass has got to yet is shown as not compared, and is stale', async () => {
  const sandbox = await startSandbox({ seed: 5, mail: { messages: 20 } });
  onTestFinished(() => sandbox.close());
  const place = workplace(sandbox);
  onTestFinished(() => rmSync(place.folder, { recursive: true, force: true }));
  const [first = '', second = ''] = sandbox.mailboxes.map(({ address }) => address);
  const sync = async (...args: string[]) =>
    expect((await mailkeep(['sync', '--config', place.config, ...args])).code).toBe(0);
  const status = (...args: string[]) => mailkeep(['status', '--data', place.data, ...args]);

  await sync('--mailbox', first);
  const text = await status('--max-age', '1h');
  expect(text.code).toBe(1);
  expect(text.stdout).toContain(`${second}  0 places, STALE: not compared`);
  expect(text.stdout).toContain(`Stale: ${second}`);
  const json = shape.parse(JSON.parse((await status('--json', '--max-age', '1h')).stdout));
  expect(json.stale).toEqual([second]);
  expect(json.mailboxes).toContainEqual({ address: second, provenAt: null, complete: false });
  // Monitoring says the same.
  const catalog = openCatalogReader(place.data);
  const state = readState(place.data);
  const { mailboxes } = archiveStatus({ catalog, dataDir: place.data }, state);
  state?.close();
  catalog.close();
  const counts = { verification: null, messages: 0, pending: 0 };
  const issues = listIssues({ mailboxes, ...counts }, { copies: [], maxAgeMs: 1e15, now: 1e15 });
  const stale = issues.flatMap((issue) => (issue.kind === 'mailbox-stale' ? [issue.mailbox] : []));
  expect(stale.map(({ address }) => address)).toEqual([second]);

  // One that the configuration leaves out waits for nothing.
  const config = z
    .looseObject({ accounts: z.array(z.looseObject({})) })
    .parse(JSON.parse(readFileSync(place.config, 'utf8')));
  const without = { mailboxes: { exclude: [second] } };
  const accounts = config.accounts.map((account) => ({ ...account, ...without }));
  writeFileSync(place.config, JSON.stringify({ ...config, accounts }));
  await sync();
  expect((await status('--max-age', '1h')).code).toBe(0);
  expect((await status()).stdout).not.toContain(second);

  writeFileSync(place.config, JSON.stringify(config));
  await sync();
  expect((await status('--max-age', '1h')).code).toBe(0);
  expect((await status()).stdout).not.toContain('not compared');
});
