import { existsSync, renameSync, rmSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { ConfigInput } from '../../src/config/schema.ts';
import { deliver } from '../../src/sandbox/http/outside-changes.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import { mailkeep, type Workplace } from '../cli/child.ts';
import { daemonWorkplace, RunningDaemon } from './running-daemon.ts';

const HOUR = 3_600_000;

let sandbox: Sandbox;
let place: Workplace;
const running: RunningDaemon[] = [];
beforeEach(async () => {
  sandbox = await startSandbox({ seed: 11, mail: { messages: 12 } });
});
afterEach(async () => {
  for (const daemon of running.splice(0)) {
    daemon.child.kill('SIGKILL');
    await daemon.ended;
  }
  await sandbox.close();
  rmSync(place.folder, { recursive: true, force: true });
});

function workplaceWith(copies: ConfigInput['copies']): void {
  place = daemonWorkplace(sandbox, (config) => ({ ...config, copies }));
}

function daemon(): RunningDaemon {
  const started = new RunningDaemon(place);
  running.push(started);
  return started;
}

function folder(name: string): string {
  return path.join(place.folder, name);
}

async function done(args: readonly string[], code = 0): Promise<string> {
  const ended = await mailkeep(args, { cwd: place.folder });
  expect([args, ended.code, ended.stderr]).toEqual([args, code, expect.any(String)]);
  return ended.stdout;
}

/** Something new comes, and the daemon notices: a pass ends, after which it looks what is due. */
async function arrive(at: RunningDaemon, subject: string): Promise<void> {
  const { service } = sandbox;
  const mailbox = service.store.mailboxes.get(sandbox.mailboxes[0]?.resourceId ?? '');
  if (mailbox === undefined) throw new Error('no mailbox');
  const source = `From: a@example.org\r\nSubject: ${subject}\r\nMessage-ID: <${subject}@x>\r\n\r\nHello.\r\n`;
  const uid = deliver(
    service,
    mailbox,
    service.store.folderFor(mailbox, 'INBOX'),
    Buffer.from(source),
  );
  await at.hint({ resourceId: mailbox.resourceId, uid });
}

const statusShape = z.object({
  commit: z.object({ number: z.number() }),
  copies: z.array(z.looseObject({ to: z.string(), behind: z.number().nullable() })),
});

async function status() {
  return statusShape.parse(JSON.parse(await done(['status', '--json', '--data', place.data])));
}

async function copyFinished(at: RunningDaemon, name: string, from = 0) {
  return at.line((line) => line.msg === 'copy finished' && line.to === folder(name), from);
}

describe('the daemon copies', () => {
  it('after passes, when the interval has passed and something is new, encrypted or not', async () => {
    workplaceWith([
      { to: './plain', every: '1h', verify: { sample: 1 } },
      { to: './sealed', every: '1h', limitRate: '50M', verify: { sample: '1%', full: '30d' } },
    ]);
    await done(['sync', '--quiet', '--config', place.config]);
    const key = ['--recovery-key-file', folder('key.txt'), '--data', place.data];
    await done(['copy', 'init', '--to', folder('sealed'), ...key]);
    const at = daemon();
    await copyFinished(at, 'plain');
    await copyFinished(at, 'sealed');
    for (const name of ['plain', 'sealed']) {
      const fits = { to: folder(name), found: 0 };
      await at.line((line) => line.msg === 'copy verified' && line.to === fits.to);
    }
    const from = at.lines.length;
    await arrive(at, 'second');
    await at.run('hint', from);
    const before = await status();
    expect(before.copies.map(({ to }) => to)).toEqual([folder('plain'), folder('sealed')]);
    // Their time has not come.
    expect(before.copies.every(({ behind }) => (behind ?? 0) > 0)).toBe(true);
    at.sleep(2 * HOUR);
    await arrive(at, 'third');
    await copyFinished(at, 'plain', from);
    await copyFinished(at, 'sealed', from);
    await at.line((line) => line.msg === 'copy verified' && line.to === folder('sealed'), from);
    expect(await at.end()).toBe(0);
    const after = await status();
    expect(after.copies).toMatchObject([
      {
        ...{ encrypted: false, commit: after.commit.number, behind: 0, everySeconds: 3_600 },
        ...{ stale: false, failure: null, damage: null },
        verified: { checked: 1, of: 1, unit: 'segment', found: 0 },
      },
      {
        ...{ encrypted: true, commit: after.commit.number, behind: 0, everySeconds: 3_600 },
        ...{ stale: false, failure: null, damage: null, verified: { found: 0 } },
      },
    ]);
    const listed = await done(['verify', '--data', folder('plain')]);
    expect(listed).toContain('Everything is as it was written.');
  });

  it('tries a copy that fails again, later and later, and passes continue', async () => {
    workplaceWith([{ to: './sealed', every: '1h' }]);
    await done(['sync', '--quiet', '--config', place.config]);
    const key = ['--recovery-key-file', folder('key.txt'), '--data', place.data];
    await done(['copy', 'init', '--to', folder('sealed'), ...key]);
    // As a disk that is not mounted: nothing readable may be written there.
    renameSync(folder('sealed'), folder('elsewhere'));
    const at = daemon();
    const failed = (from = 0) =>
      at.line((line) => line.msg === 'a copy failed; it is tried again', from);
    expect(await failed()).toMatchObject({ code: 'offsite-no-copy', exit: 2 });
    expect(existsSync(folder('sealed'))).toBe(false);
    let from = at.lines.length;
    at.sleep(HOUR);
    await arrive(at, 'meanwhile');
    expect(await at.run('hint', from)).toMatchObject({ added: 1 });
    await failed(from);
    expect((await status()).copies).toMatchObject([
      {
        ...{ to: folder('sealed'), encrypted: null, copiedAt: null, commit: null, behind: null },
        failure: { tries: 2, code: 'offsite-no-copy', message: expect.stringContaining('no copy') },
      },
    ]);
    renameSync(folder('elsewhere'), folder('sealed'));
    from = at.lines.length;
    at.sleep(HOUR);
    await arrive(at, 'mounted');
    await copyFinished(at, 'sealed', from);
    expect((await status()).copies).toMatchObject([{ failure: null, encrypted: true }]);
    expect(await at.end()).toBe(0);
  });
});
