import { expect, onTestFinished, test } from 'vitest';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep, workplace } from './child.ts';

test('a suspended mailbox is not explained as a wrong token, and the other mailboxes are mirrored', async () => {
  const sandbox = await startSandbox({ seed: 5, mail: { messages: 20 } });
  onTestFinished(() => sandbox.close());
  const [first] = sandbox.mailboxes;
  const mailbox = sandbox.service.store.mailboxes.get(first?.resourceId ?? '');
  if (mailbox === undefined) throw new Error('no mailbox');
  sandbox.service.standings.setStatus(mailbox, 'suspended');
  const { folder } = workplace(sandbox);
  const sync = await mailkeep(['sync'], { cwd: folder });
  const said = `${sync.stdout}${sync.stderr}`;
  expect(sync.code, said).toBe(1);
  expect(said).toContain('status 403 (ERR_MAILBOX_SUSPENDED)');
  expect(said).toContain('may be suspended');
  expect(said).not.toMatch(/expired or revoked|does not let this token/);
  expect(said).toMatch(/office@example\.org: \d+ new/);
});
