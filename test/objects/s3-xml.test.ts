import { expect, test } from 'vitest';
import { childrenOf, parseXml, textOf, xmlText } from '../../src/copies/s3-client.ts';

function parsed(text: string) {
  return parseXml(Buffer.from(text));
}

test('elements have names without prefixes, texts and children', () => {
  const root = parsed(
    '<?xml version="1.0"?>\n<s3:List xmlns:s3="x"><A>1 &amp; &#228;&lt;</A><B/><A>2</A><C><D>x</D></C></s3:List>\n',
  );
  expect(root?.name).toBe('List');
  if (root === undefined) return;
  expect(childrenOf(root, 'A').map(({ text }) => text)).toEqual(['1 & ä<', '2']);
  expect([textOf(root, 'A'), textOf(root, 'B'), textOf(root, 'none')]).toEqual(['1 & ä<', '', '']);
  expect(textOf(childrenOf(root, 'C')[0] ?? root, 'D')).toBe('x');
  expect(parsed('<Nothing xmlns="x"/>')?.name).toBe('Nothing');
  expect(parsed(`<a><b>${xmlText('<&>"')}</b></a>`)?.children[0]?.text).toBe('<&>"');
});

test.each([
  ['nothing', ''],
  ['text', 'Service Unavailable'],
  ['an incomplete document', '<List><Key>a</Key>'],
  ['an incomplete tag', '<List><Key>a</Key></Lis'],
  ['two roots', '<a></a><b></b>'],
  ['deep nesting', '<a>'.repeat(17) + '</a>'.repeat(17)],
])('%s is no answer', (_name, text) => {
  expect(parsed(text)).toBeUndefined();
});

test('entities of a document type are not replaced, and nothing grows', () => {
  const root = parsed(
    '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c SYSTEM "file:///etc/passwd">]><a>&b;&c;</a>',
  );
  expect(root?.text ?? '').not.toMatch(/bbbb|root:/);
});

test('large and hostile documents take little time', () => {
  const many = `<List>${'<A/>'.repeat(100_000)}</List>`;
  expect(parsed(many)?.children).toHaveLength(100_000);
  expect(parsed(`<List>${'<A>'.repeat(1_000_000)}`)).toBeUndefined();
  expect(parsed('<'.repeat(1_000_000))).toBeUndefined();
  expect(parsed(`<a>${'&'.repeat(1_000_000)}</a>`)?.text).toHaveLength(1_000_000);
});
