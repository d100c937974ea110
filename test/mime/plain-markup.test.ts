import fc from 'fast-check';
import { Parser } from 'htmlparser2-10';
import { expect, test } from 'vitest';
import { plainMarkup } from '../../src/mail/html-text.ts';

/** Levels of elements as the parser of the walk sees them. */
function depthOf(html: string): number {
  let depth = 0;
  let deepest = 0;
  const parser = new Parser({
    onopentagname: () => {
      depth++;
      deepest = Math.max(deepest, depth);
    },
    onclosetag: () => {
      depth--;
    },
  });
  parser.write(html);
  parser.end();
  return deepest;
}

const MANY = { depth: 1000, elements: 10_000 };

test.each([
  ['<b>x</b>', '<b>x</b>'],
  ['<p>a<p>b', '<p>a</p><p>b</p>'],
  ['<b></x>', '<b></b>'],
  ['a &lt;b> & c', 'a &#60;b&#62; &#38; c'],
  ['<a href="x&quot;>" class=y>z</a>', '<a href="x&#34;&#62;">z</a>'],
  ['<style><b></style><script>"<b>"</script>x<!-- <b> -->', 'x'],
  ['<iframe><b></iframe>', '<label>&#60;b&#62;</label>'],
  ['<svg><br>x</svg><br>', '<span><br>x</span><br>'],
])('%s becomes %s', (html, plain) => {
  expect(plainMarkup(html, MANY)).toBe(plain);
});

test('HTML that is too deep or has too many elements has no plain form', () => {
  const html = '<i><b></b><b></b></i>';
  expect(plainMarkup(html, { depth: 2, elements: 3 })).toBe(html);
  expect(plainMarkup(html, { depth: 1, elements: 3 })).toBeNull();
  expect(plainMarkup(html, { depth: 2, elements: 2 })).toBeNull();
});

test('no parser sees a deeper tree than ours', () => {
  const name = fc.constantFrom(
    ...['a', 'b', 'p', 'form', 'li', 'td', 'table', 'svg', 'math', 'mi', 'title', 'style', 'xmp'],
    ...['iframe', 'textarea', 'select', 'option', 'br', 'input', 'h1', 'h2', 'foreignObject'],
  );
  const piece = fc.oneof(
    name.map((tag) => `<${tag}>`),
    name.map((tag) => `<${tag}>`),
    name.map((tag) => `</${tag}>`),
    name.map((tag) => `<${tag}/>`),
    name.map((tag) => `<${tag} alt="</${tag}>">`),
    fc.constantFrom('<!--', '-->', '<![CDATA[', ']]>', '<?', '>', '<', '"', '&lt;', 'x'),
  );
  fc.assert(
    fc.property(
      fc.array(piece, { maxLength: 60 }),
      fc.integer({ min: 1, max: 8 }),
      (all, depth) => {
        const plain = plainMarkup(all.join(''), { ...MANY, depth });
        // One level more for the paragraph that an end tag without one stands for.
        if (plain !== null) expect(depthOf(plain)).toBeLessThanOrEqual(depth + 1);
      },
    ),
    { numRuns: 2000 },
  );
});
