import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { jsonLines, mailkeep, start, workplace } from '../cli/child.ts';
import { mail } from '../sandbox/client.ts';

const DAY = 24 * 3_600_000;
const LATER_CLOCK = new URL('later-clock.mjs', import.meta.url).href;

const hello = z.object({
  mailboxUrl: z.url(),
  tokens: z.object({ mailbox: z.string(), platform: z.string() }),
  mailboxes: z.array(z.object({ resourceId: z.string(), address: z.string() })).min(1),
  control: z.object({ url: z.url(), token: z.string() }),
});
const pass = z.object({
  mailboxes: z.array(
    z.object({ address: z.string(), added: z.number(), ended: z.number(), comparison: z.string() }),
  ),
  failures: z.array(z.unknown()),
  certificates: z.array(z.looseObject({ folder: z.string(), complete: z.boolean() })),
});
const copiedTo = z.object({ data: z.object({ uids: z.array(z.int()) }) });
const listed = z.object({
  mailbox: z.string(),
  folder: z.string(),
  uid: z.number(),
  id: z.string(),
});

/** The built sandbox as a process of its own. */
async function served() {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-mail-'));
  for (let n = 0; n < 30; n += 1) writeFileSync(path.join(folder, `${n}.eml`), mail(`no ${n}`));
  const { child, ended } = start(['sandbox', '--port', '0', '--from', folder]);
  onTestFinished(async () => {
    child.kill();
    await ended;
    rmSync(folder, { recursive: true });
  });
  const lines = createInterface({ input: child.stdout });
  const [line] = await Promise.race([
    once(lines, 'line'),
    ended.then(({ stderr }): never => {
      throw new Error(`it ended: ${stderr}`);
    }),
  ]);
  return hello.parse(JSON.parse(line));
}

test('a message copied on three days in a row: every pass is complete and ends with 0', async () => {
  const sandbox = await served();
  const { control, mailboxes } = sandbox;
  const mailbox = mailboxes[0]?.address ?? '';
  const place = workplace(sandbox);
  onTestFinished(() => rmSync(place.folder, { recursive: true, force: true }));
  const sync = async (day: number) => {
    const { code, stdout, stderr } = await mailkeep(['sync', '--json', '--config', place.config], {
      env: { NODE_OPTIONS: `--import=${LATER_CLOCK}`, LATER_MS: String(day * DAY) },
    });
    return { code, stderr, result: pass.parse(JSON.parse(stdout)) };
  };
  const places = async () => {
    const { stdout } = await mailkeep(['list', '--json', '--data', place.data]);
    return jsonLines(stdout)
      .map((line) => listed.parse(line))
      .filter((line) => line.mailbox === mailbox);
  };
  const copy = async (from: string, uid: number, to: string) => {
    const answer = await fetch(`${control.url}/change`, {
      method: 'POST',
      headers: { authorization: `Bearer ${control.token}`, 'content-type': 'application/json' },
      body: JSON.stringify({ action: 'copy', mailbox, folder: from, uids: [uid], to }),
    });
    return copiedTo.parse(await answer.json()).data.uids[0] ?? 0;
  };
  expect((await sync(0)).code).toBe(0);

  const inbox = (await places()).filter(({ folder }) => folder === 'INBOX');
  // Into a folder that the archive knows, into one that is new, and next to the message itself.
  for (const [n, to] of ['INBOX.Archive', 'INBOX.Kept', 'INBOX'].entries()) {
    const from = inbox[n];
    if (from === undefined) throw new Error('the INBOX holds too little');
    const uid = await copy('INBOX', from.uid, to);
    const { code, stderr, result } = await sync(n + 1);
    expect({ day: n + 1, code, failures: result.failures }).toEqual({
      day: n + 1,
      code: 0,
      failures: [],
    });
    expect(stderr).not.toContain('does not add up');
    expect(result.certificates.filter(({ complete }) => !complete)).toEqual([]);
    expect(result.mailboxes.find(({ address }) => address === mailbox)).toMatchObject({
      added: 1,
      ended: 0,
      comparison: 'all',
    });
    expect(await places()).toContainEqual({ mailbox, folder: to, uid, id: from.id });
  }
  // Nothing is left over for the day after.
  const after = await sync(4);
  expect([after.code, after.result.failures]).toEqual([0, []]);
  expect(after.result.mailboxes.map(({ added }) => added)).toEqual(mailboxes.map(() => 0));
}, 300_000);
