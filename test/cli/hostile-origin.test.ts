import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { jsonLines, mailkeep, type Workplace, workplace } from './child.ts';

/** Sets a title, clears the screen, asks for an answer; a C1 control; turns the direction of text. */
const EVIL = '\u001b]0;owned\u0007\u001b[2J\u001b[6n\u009b31m\u202egnp.exe';
/** What no terminal may get: all controls but line feed and tab, and what turns the direction of text. */
const STEERING = /[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;

const addresses = [`ada${EVIL}@example.org`, 'office@example.org'];
let sandbox: Sandbox;
let place: Workplace;

beforeAll(async () => {
  sandbox = await startSandbox({ seed: 5, addresses, mail: { messages: 20 } });
  const { store } = sandbox.service;
  for (const address of addresses) {
    const mailbox = store.mailboxByAddress(address);
    if (mailbox === null) throw new Error('there is no such mailbox');
    const folder = store.createFolder(mailbox, `INBOX.Evil ${EVIL}`);
    for (let i = 0; i < 3; i += 1) {
      const source = Buffer.from(`Subject: evil ${i} ${address.length}\r\n\r\nevil\r\n`);
      store.add(folder, source, Date.UTC(2026, 1, 1), [`e${EVIL}`]);
    }
  }
  place = workplace(sandbox);
});
afterAll(() => sandbox.close());

test('names that a service gives to mailboxes and folders steer no terminal, in any command', async () => {
  const from = ['--config', place.config];
  const out = path.join(place.folder, 'out');
  const expectOutcome = async (codes: readonly number[], args: readonly string[], input = '') => {
    const { code, stdout, stderr } = await mailkeep(args, { cwd: place.folder, input });
    expect(codes, `${args.join(' ')}: ${stdout}${stderr}`).toContain(code);
    expect(JSON.stringify(STEERING.exec(`${stdout}${stderr}`)), args.join(' ')).toBe('null');
    return stdout;
  };
  await expectOutcome(
    [0],
    ['init', '--base-url', sandbox.mailboxUrl, '--yes', '--config', path.join(out, 'c.json')],
    sandbox.tokens.mailbox,
  );
  await expectOutcome([0], ['sync', '--dry-run', ...from]);
  sandbox.fault({ kind: 'status', operation: 'getMessageSource', status: 404, code: `E${EVIL}` });
  await expectOutcome([1], ['sync', ...from]);
  await expectOutcome([0, 1], ['quarantine', ...from]);
  sandbox.clearFaults();
  await expectOutcome([0], ['sync', '--full', ...from]);
  for (const line of [
    ['status', '--max-age', '1s'],
    ['list'],
    ['search', 'evil'],
    ['search', 'in:"INBOX.Evi"'],
    ['search', '--explain', 'evil in:INBOX'],
    ['list', '--folder', 'INBOX.Evi'],
    ['export', '--to', path.join(out, 'none'), '--format', 'eml', '--folder', 'INBOX.Evi'],
    ['doctor'],
    ['webhooks', 'list'],
    ['verify'],
    ['verify', '--origin'],
    ['verify', '--drill', '5'],
    ['prune'],
    ['api', 'listFolders', '--param', `mailbox=${sandbox.mailboxes[0]?.resourceId}`],
    ['complete', '--', 'mailkeep', 'list', '--folder', ''],
  ])
    await expectOutcome([0, 1, 2], [...line, ...from]);
  const { stdout } = await mailkeep(['search', 'evil', '--json', ...from]);
  expect(stdout).not.toMatch(STEERING);
  const [hit] = jsonLines(stdout);
  await expectOutcome([0], ['history', String(Object(hit).id), ...from]);
  for (const format of ['eml', 'maildir', 'mbox', 'zip']) {
    const to = path.join(out, `mail-${format}`);
    await expectOutcome([0], ['export', '--to', to, '--format', format, ...from]);
    await expectOutcome([0], ['verify', '--export', to]);
  }
}, 240_000);
