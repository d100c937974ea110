import { createHash } from 'node:crypto';
import { globSync } from 'node:fs';
import path from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { jsonLines, mailkeep } from '../../cli/child.ts';
import { hostileArchive } from './archives.ts';
import { launchChromium, throughTrap, withoutChromium } from './chromium.ts';
import { type HostileMail, hostileMails } from './hostile/mails.ts';
import { type Finding, MailOpener, type Opened } from './open-mail.ts';
import { TrapServer } from './trap-server.ts';
import { isEnough, openUnprotected } from './unprotected.ts';
import { watch } from './watch.ts';
import { WebProgram } from './web-program.ts';

/**
 * How many messages are opened: fewer than there are hostile ones are spread over all kinds, more are filled up with
 * real mail. `hostile` is all hostile ones, `all` those and all real mail, and `real:2/12` the second of twelve parts of
 * the real mail, with a few hostile ones.
 */
const ASKED = process.env.MAILKEEP_WEB_MAILS ?? '24';
const [, PART, PARTS] = /^real:(\d+)\/(\d+)$/.exec(ASKED) ?? [];
/** Hostile mail that is opened with a part of the real one. */
const FEW = 9;
const corpus = process.env.MAILKEEP_CORPUS;
/** Hostile payloads there must be. */
const FEWEST = 500;
/** A watchdog, not a measure: hours for all real mail. Milliseconds. */
const LONGEST = (ASKED === 'all' || PART !== undefined ? 240 : 20) * 60_000;
/** Pages with scripts that are open at a time. */
const SCRIPTED = 2;
const listLine = z.looseObject({ id: z.string() });

let trap: TrapServer;
let mails: readonly HostileMail[];
let web: WebProgram;
let browser: Browser;

describe.skipIf(withoutChromium)('mail in a browser', () => {
  beforeAll(async () => {
    trap = await TrapServer.start();
    mails = spread(await hostileMails(trap.url));
    web = await WebProgram.start(await hostileArchive(mails, others()));
    // All that does not go to the archive goes to the trap, whatever its address.
    browser = await launchChromium({ proxy: throughTrap(trap, web.port) });
  }, LONGEST);

  afterAll(async () => {
    await browser?.close();
    await web?.stop();
    await trap?.close();
  });

  test(
    'there are enough payloads, and an unprotected page runs and loads what they hold',
    async () => {
      const all = (await hostileMails(trap.url)).flatMap(({ payloads }) => payloads);
      expect(all.length).toBeGreaterThanOrEqual(FEWEST);
      expect(new Set(all.map(({ number }) => number)).size).toBe(all.length);
      const done = await openUnprotected(9);
      const { opened, ran, called } = done;
      const counts = `${ran.size} of ${opened.length} ran, ${called.size} called`;
      expect([counts, isEnough(done)]).toEqual([counts, true]);
    },
    LONGEST,
  );

  test(
    'whatever they hold, no view runs anything, and nothing is asked of another host',
    async () => {
      const messages = await chosen();
      const first = await browser.newContext();
      await (await web.signIn(first)).close();
      const storageState = await first.storageState();
      const openerIn = async (scripted: boolean) => {
        const context = await browser.newContext({ javaScriptEnabled: scripted, storageState });
        return MailOpener.in(context, web.url, watch(context, web.url), { scripted });
      };
      const scripted = await Promise.all(Array.from({ length: SCRIPTED }, () => openerIn(true)));
      const plain = await openerIn(false);
      const openers = [...scripted, plain];
      const startedAt = performance.now();
      const left = [...messages.entries()];
      // Pages with scripts share the messages; one without opens all of them at the same time.
      await Promise.all([
        ...scripted.map(async (opener, i) => {
          for (const address of lists().filter((_, j) => j % SCRIPTED === i))
            await opener.visit(address);
          for (let next = left.shift(); next !== undefined; next = left.shift())
            await opener.open(next[1], next[0]);
        }),
        (async () => {
          for (const address of lists()) await plain.visit(address);
          for (const [i, message] of messages.entries()) await plain.open(message, i);
        })(),
      ]);
      const opened = openers.reduce((sum, all) => sum + all.opened, 0);
      const payloads = mails.reduce((sum, mail) => sum + mail.payloads.length, 0);
      const seconds = ((performance.now() - startedAt) / 1000).toFixed(0);
      console.log(
        `${messages.length} messages, ${mails.length} of them hostile with ${payloads} payloads, in ${opened} views: ` +
          `${trap.asked.length} requests to others, ${seconds} s`,
      );
      expect(described(openers.flatMap(({ findings }) => findings))).toEqual([]);
      expect(trap.asked).toEqual([]);
      expect(opened).toBeGreaterThanOrEqual(messages.length * 8);
    },
    LONGEST,
  );
});

/** Pages on which many messages, folders and names stand at once. */
function lists(): string[] {
  const queries = [
    '',
    'has:attachment',
    '"<script>alert(1)</script>"',
    'in:"><img src=x onerror=alert(1)>',
    'hostile OR script',
  ];
  const mail = queries.map((query) => `/mail?q=${encodeURIComponent(query)}`);
  return [
    ...mail,
    '/mail?sort=oldest',
    '/health',
    '/files',
    '/dashboard',
    '/you',
    '/away?to=javascript:alert(1)',
  ];
}

/** Returns as many as were asked for, of all kinds. */
function spread(all: readonly HostileMail[]): readonly HostileMail[] {
  if (PART !== undefined) return everyNth(all, FEW);
  const count = Number(ASKED);
  return Number.isNaN(count) ? all : everyNth(all, count);
}

/** Returns the real mail that is opened as well: files, or the folder of all of it. */
function others(): readonly string[] {
  if (corpus === undefined) return [];
  if (ASKED === 'all') return [corpus];
  const files = globSync('**/*', { cwd: corpus, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort();
  if (PART !== undefined) return files.filter((_, i) => i % Number(PARTS) === Number(PART) - 1);
  const count = Number(ASKED) - mails.length;
  return count > 0 ? everyNth(files, count) : [];
}

function everyNth<T>(all: readonly T[], count: number): readonly T[] {
  if (count >= all.length) return all;
  return Array.from({ length: count }, (_, i) => all[Math.floor((i * all.length) / count)] as T);
}

/** The messages to open, hostile ones first. */
async function chosen(): Promise<Opened[]> {
  const hostile = mails.map((mail): Opened => {
    const signs = mail.payloads.flatMap(({ sign }) => sign ?? []);
    const isFiled = mail.source.includes('Content-Disposition: attachment');
    const id = idOf(mail);
    return { id, signs, files: isFiled ? `id:${id.slice(0, 16)}` : null };
  });
  const { stdout } = await mailkeep(['list', '--json', '--data', web.data]);
  const known = new Set(hostile.map(({ id }) => id));
  const real = jsonLines(stdout)
    .map((line) => listLine.parse(line).id)
    .filter((id) => !known.has(id))
    .map((id): Opened => ({ id, signs: [], files: null }));
  return [...hostile, ...real];
}

function idOf({ source }: HostileMail): string {
  return createHash('sha256').update(source).digest('hex');
}

/** What went wrong, with the payloads of the mail. */
function described(findings: readonly Finding[]): string[] {
  const whats = new Map(
    mails.map((mail) => [
      idOf(mail).slice(0, 16),
      mail.payloads.map(({ number, what }) => `${number} ${what}`).join(' | '),
    ]),
  );
  return findings.map(({ at, what }) => {
    const id = /[0-9a-f]{16}/.exec(at)?.[0] ?? '';
    return `${at} (${whats.get(id)?.slice(0, 1_000) ?? 'real mail'}): ${what}`;
  });
}
