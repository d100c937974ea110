import { describe, expect, it } from 'vitest';
import { DEFAULT_LIMITS } from '../../src/mail/extraction.ts';
import { readHeaderBlock, readHeaderFacts } from '../../src/mail/headers.ts';
import { normalizeMessageId, threadLinks } from '../../src/mail/identity.ts';

function facts(...header: string[]) {
  const source = Buffer.from(`${header.join('\r\n')}\r\n\r\n`);
  return readHeaderFacts(
    readHeaderBlock(source, DEFAULT_LIMITS.headerBytes).fields,
    DEFAULT_LIMITS,
  );
}

describe('In-Reply-To', () => {
  it.each([
    ['<a@x.example>', ['a@x.example']],
    ['<a@x.example> <b@x.example>', ['a@x.example', 'b@x.example']],
    ['<20200303-1234>', ['20200303-1234']],
    ['<a@x.example> from Carol <carol@example.net> at "Mar 3, 20 10:00:00 am"', ['a@x.example']],
    ['<a@x.example> (Dan\'s message of "Tue, 3 Mar 2020 <10:00>")', ['a@x.example']],
    ['Message from Carol <carol@example.net> of "Tue, 3 Mar" <a@x.example>', ['a@x.example']],
    ['Carol Tester <carol@to.example>, "your mail" <a@x.example>', ['a@x.example']],
    ['Your message of Monday <a@x.example>', ['a@x.example']],
    ['Your message of "Wed, 4 Mar 2020 10:00"\r\n\t<a@x\r\n .example>', ['a@x.example']],
    ['Message from Carol <carol@example.net> of Tuesday', []],
    ['Carol <carol@to.example>', []],
    ['<carol@to.example>', []],
    ['Your message of "<10:00>"', []],
    ['<>', []],
    ['your mail', []],
  ])('%s', (value, expected) => {
    const { references } = facts('To: Carol <Carol@to.example>', `In-Reply-To: ${value}`);
    expect(references).toEqual(expected);
  });

  it('adds to References only what can be an id', () => {
    const { references } = facts(
      'References: <r@x.example>',
      'In-Reply-To: <a@x.example> from Carol <carol@example.net> at <10:00>',
    );
    expect(references).toEqual(['r@x.example', 'a@x.example']);
  });
});

describe('ids that tell no messages apart', () => {
  it.each([
    '<>',
    '<   >',
    '',
    ' ',
    '<<>>',
    '<@>',
    '<@host.example>',
    '@host.example',
    '<->',
    '<.>',
  ])('%j', (id) => {
    expect(normalizeMessageId(id)).toBeNull();
    const { messageId, references, subject } = facts(`Message-ID: ${id}`, `References: ${id}`);
    expect(threadLinks({ messageId, references, subject })).toMatchObject({
      node: null,
      ancestors: [],
    });
  });

  it.each(['<a@b>', 'a@b', ' <1234> ', '<é@x>'])('not %j', (id) => {
    expect(normalizeMessageId(id)).not.toBeNull();
  });
});
