import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { findOperation, OPERATIONS } from '../../src/service/platform-wire.ts';
import { encodeBody } from '../../src/service/wire.ts';
import { samples } from './sample.ts';

function encode(operation: string, body: unknown): unknown {
  return encodeBody(findOperation(operation)?.body ?? z.never(), body, operation);
}

/** The field that is refused, and what it takes. */
function refused(operation: string, body: unknown): string {
  try {
    encode(operation, body);
  } catch (error) {
    expect(error).toMatchObject({ family: 'usage', code: 'request-invalid' });
    const facts = z
      .object({ facts: z.object({ field: z.string(), expected: z.string() }) })
      .parse(error).facts;
    return `${facts.field}: ${facts.expected}`;
  }
  return 'nothing';
}

const withBody = OPERATIONS.filter(({ body }) => body !== null);

test.each(withBody)('$name: the sample is encoded as it stands', ({ name, surface }) => {
  const body = samples(surface).get(name.replace('platform.', ''))?.request.body;
  expect(encode(name, body)).toEqual(body);
});

test.each(withBody)('$name refuses a field it does not know', ({ name, surface }) => {
  const body = samples(surface).get(name.replace('platform.', ''))?.request.body;
  expect(refused(name, { ...z.looseObject({}).parse(body), sbject: 'x' })).toBe(
    'sbject: no such field',
  );
});

describe('bounds', () => {
  const uids = Array.from({ length: 101 }, (_, i) => i + 1);
  const webhook = { name: 'n', url: 'https://x.example', events: ['message.received'] };
  test.each([
    ['submitFeedback', { score: 0, message: 'x' }, 'score: at least 1'],
    ['submitFeedback', { score: 11, message: 'x' }, 'score: at most 10'],
    ['submitFeedback', { score: 5, message: 'x'.repeat(2001) }, 'message: at most 2000'],
    ['submitFeedback', { score: 5 }, 'message: string'],
    ['createFolder', { name: '   ' }, 'name: at least 1'],
    ['createFolder', { name: 'x'.repeat(101) }, 'name: at most 100'],
    ['patchMessage', {}, 'addFlags: needs addFlags or removeFlags'],
    ['patchMessage', { addFlags: [], removeFlags: [] }, 'addFlags: needs addFlags or removeFlags'],
    ['patchMessage', { addFlags: [''] }, 'addFlags[0]: at least 1'],
    ['patchMessage', { addFlags: ['x'.repeat(256)] }, 'addFlags[0]: at most 255'],
    ['updateMessageFlags', { uids: [1] }, 'addFlags: needs addFlags or removeFlags'],
    ['updateMessageFlags', { uids: [], addFlags: ['a'] }, 'uids: at least 1'],
    ['deleteMessages', { uids }, 'uids: at most 100'],
    ['deleteMessages', { uids: [1, 0] }, 'uids[1]: at least 1'],
    ['moveMessages', { uids: [1], targetFolder: '' }, 'targetFolder: at least 1'],
    ['moveMessage', { targetFolder: 'x'.repeat(101) }, 'targetFolder: at most 100'],
    ['searchMessages', { since: '2026-02-30' }, 'since: date'],
    ['searchMessages', { before: '1.3.2026' }, 'before: date'],
    ['searchMessages', { uid: '1:' }, 'uid: not an IMAP uid set'],
    ['searchMessages', { header: 'no colon' }, 'header: not of the form Name:value'],
    ['searchMessages', { larger: -1 }, 'larger: at least 0'],
    ['searchMessages', { from: 'x'.repeat(321) }, 'from: at most 320'],
    ['searchMessages', { text: 'x'.repeat(1025) }, 'text: at most 1024'],
    ['sendEmail', { subject: 'x' }, 'to: needs at least one of to, cc and bcc'],
    ['sendEmail', { to: ['Ana <ana@example.org>'] }, 'to[0]: not a plain address'],
    [
      'sendEmail',
      { to: ['a@b.c'], inReplyTo: { uid: 1, folder: 'x' }, forwardOf: { uid: 1, folder: 'x' } },
      'forwardOf: cannot be a reply and a forward at once',
    ],
    ['createWebhook', { ...webhook, url: 'ftp://x' }, 'url: url'],
    ['createWebhook', { ...webhook, url: `https://x/${'y'.repeat(2048)}` }, 'url: at most 2048'],
    ['createWebhook', { ...webhook, events: [] }, 'events: at least 1'],
    ['createWebhook', { ...webhook, events: ['x'] }, 'events[0]: one of message.received'],
    ['createWebhook', { ...webhook, name: '' }, 'name: at least 1'],
    ['platform.createWebhook', { url: webhook.url, events: webhook.events }, 'name: string'],
    ['updateWebhook', { status: 'gone' }, 'status: one of active, paused, disabled'],
  ])('%s %j', (operation, body, says) => {
    expect(refused(operation, body)).toBe(says);
  });

  test('what lies on the bounds passes', () => {
    expect(encode('createFolder', { name: `  ${'x'.repeat(100)}  ` })).toEqual({
      name: 'x'.repeat(100),
    });
    expect(refused('deleteMessages', { uids: uids.slice(0, 100) })).toBe('nothing');
    expect(refused('searchMessages', {})).toBe('nothing');
    expect(refused('submitFeedback', { score: 10, message: 'x'.repeat(2000) })).toBe('nothing');
  });
});
