import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { jsonLines, mailkeep, start } from '../cli/child.ts';
import { withoutServers } from './servers/nodes.ts';

const skipped = withoutServers();
const DEMO = ['fleet', 'demo', '--json', '--mailboxes', '4', '--messages', '2'];
const event = z.looseObject({ event: z.string(), folder: z.string().optional() });

/** Command lines that name a folder. */
function runningIn(folder: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
      } catch {
        return [];
      }
    })
    .filter((line) => line.includes(folder));
}

describe.skipIf(skipped)('the demo of a fleet', () => {
  test('mirrors, kills a worker, shows the takeover, and leaves nothing behind', async () => {
    // It starts itself again, for its workers.
    const { code, stdout, stderr } = await mailkeep(DEMO, { alone: true });
    expect([code, stderr]).toEqual([0, '']);
    const lines = jsonLines(stdout).map((line) => Object(line));
    const said = lines.flatMap((line) => {
      const { success, data } = event.safeParse(line);
      return success ? [data] : [];
    });
    expect(said.map((one) => one.event)).toEqual([
      ...['servers-started', 'accounts-added', 'mirrored', 'taken-over', 'removed'],
    ]);
    const mirrored = said.find((one) => one.event === 'mirrored');
    const held = z
      .array(z.object({ node: z.string(), accounts: z.number() }))
      .parse(mirrored?.held);
    expect(held.reduce((sum, { accounts }) => sum + accounts, 0)).toBe(4);
    const taken = said.find((one) => one.event === 'taken-over');
    const lost = held.find(({ node }) => node === taken?.killed)?.accounts ?? 0;
    expect(lost).toBeGreaterThan(0);
    expect(taken?.shards).toBeGreaterThan(0);
    const folder = said[0]?.folder ?? '';
    expect([existsSync(folder), runningIn(folder)]).toEqual([false, []]);
  }, 180_000);

  test('an interruption ends everything', async () => {
    const { child, ended } = start(DEMO);
    const lines = createInterface({ input: child.stdout });
    const line = await new Promise<string>((resolve) => lines.once('line', resolve));
    const { folder = '' } = event.parse(JSON.parse(line));
    expect(existsSync(folder)).toBe(true);
    child.kill('SIGINT');
    expect((await ended).code).toBe(130);
    expect([existsSync(folder), runningIn(folder)]).toEqual([false, []]);
  }, 60_000);

  test('what is not installed is named, with its packages', async () => {
    const { code, stderr } = await mailkeep(DEMO, { env: { PATH: '/nowhere' } });
    const { error } = z
      .object({ error: z.object({ code: z.string(), hint: z.string() }) })
      .parse(jsonLines(stderr)[0]);
    expect([code, error.code]).toEqual([2, 'demo-programs-missing']);
    expect(error.hint).toMatch(/^On Debian: apt-get install .*ceph/);
  });
});
