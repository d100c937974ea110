import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import pc from 'picocolors';
import { describe, expect, test } from 'vitest';
import { choosePager, messageText, printPaged } from '../../src/cli/commands/show.ts';
import { type Output, streamOutput, wrapLine } from '../../src/cli/output.ts';
import type { MessageReading } from '../../src/mail/extraction.ts';
import { screen } from './child.ts';

function terminal(): { output: Output; printed: () => string } {
  const { stream, text } = screen(80);
  return { output: streamOutput(stream, { json: false, env: {} }), printed: text };
}

const inFolder = () => mkdtempSync(path.join(tmpdir(), 'mailkeep-pager-'));

describe('the pager', () => {
  test('is what people say, or less', () => {
    expect(choosePager({})).toBe('less -FRX');
    expect(choosePager({ PAGER: 'more' })).toBe('more');
    expect(choosePager({ PAGER: 'more', MAILKEEP_PAGER: 'most -w' })).toBe('most -w');
    for (const none of ['', 'cat']) expect(choosePager({ MAILKEEP_PAGER: none })).toBeUndefined();
  });

  test('gets the complete text, and less is configured to let colours through', async () => {
    const { output, printed } = terminal();
    const file = path.join(inFolder(), 'paged');
    const text = 'line\n'.repeat(50_000);
    const env = {
      PATH: process.env.PATH,
      MAILKEEP_PAGER: `cat >'${file}'; echo "$LESS" >>'${file}'`,
    };
    await printPaged({ output, environment: { env, cwd: '/' } }, text);
    expect(readFileSync(file, 'utf8')).toBe(`${text}\nFRX\n`);
    expect(printed()).toBe('');
  });

  test('may be left early', async () => {
    const { output, printed } = terminal();
    const env = { PATH: process.env.PATH, PAGER: 'head -n 1 >/dev/null' };
    await printPaged({ output, environment: { env, cwd: '/' } }, 'line\n'.repeat(200_000));
    expect(printed()).toBe('');
  });

  test('that is not there is done without', async () => {
    const { output, printed } = terminal();
    const env = { PATH: '/nonexistent', PAGER: 'no-such-pager 2>/dev/null' };
    await printPaged({ output, environment: { env, cwd: '/' } }, 'text');
    expect(printed()).toBe('text\n');
  });
});

describe('a message on a terminal', () => {
  const reading = (changes: Partial<MessageReading>): MessageReading => ({
    reason: null,
    remote: null,
    encrypted: null,
    headers: [],
    subject: '',
    from: '',
    to: '',
    cc: '',
    bcc: '',
    messageId: null,
    text: '',
    html: null,
    hasPlain: false,
    attachments: [],
    truncated: false,
    ...changes,
  });
  const colours = pc.createColors(true);
  const paper = { colours, interactive: true, columns: 40 };

  test('what is quoted and the signature step back, the rest does not', () => {
    const text = 'Yes.\n> Shall we?\n>> Or not?\nGood.\n-- \nAnna';
    const lines = messageText('ab'.repeat(32), reading({ text }), paper).split('\n').slice(1);
    expect(lines).toEqual([
      'Yes.',
      colours.dim('> Shall we?'),
      colours.dim('>> Or not?'),
      'Good.',
      colours.dim('-- '),
      colours.dim('Anna'),
    ]);
  });

  test('long lines break between words, quotes keep their mark', () => {
    const words = 'word '.repeat(20).trim();
    expect(wrapLine(`> ${words}`, 24)).toEqual(Array(5).fill('> word word word word'));
    expect(wrapLine('https://example.org/a/very/long/link/that/goes/on', 20)).toHaveLength(1);
    expect(wrapLine('漢字 漢字 漢字', 10)).toEqual(['漢字 漢字', '漢字']);
  });

  test('a list of thousands of recipients is cut, and says where the rest is', () => {
    const to = Array.from({ length: 5000 }, (_, i) => `p${i}@example.org`).join(', ');
    const text = messageText('ab'.repeat(32), reading({ to, text: 'short' }), paper);
    expect(text.length).toBeLessThan(1300);
    expect(text).toContain('--headers has all of it');
  });
});
