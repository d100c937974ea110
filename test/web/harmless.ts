import { Parser } from 'htmlparser2';
import { expect } from 'vitest';

/** What our own pages are made of. */
const ELEMENTS = new Set(
  (
    'html head meta title link body a div header footer main nav section search form input button label svg path ' +
    'span b bdi p h1 h2 ul ol li time mark u strong details summary article table tbody tr th td pre iframe script ' +
    'small dl dt dd thead code br rect line fieldset legend aside img'
  ).split(' '),
);

/** A page on which nothing that a sender wrote is markup. */
export function expectHarmless(html: string): void {
  expect(html).toMatch(/^<!doctype html><html lang="en">/);
  const wrong: string[] = [];
  let inData = false;
  let data = '';
  const parser = new Parser({
    onopentag(name, attributes) {
      if (!ELEMENTS.has(name)) wrong.push(name);
      for (const [attribute, value] of Object.entries(attributes)) {
        if (/^on|^style$|^srcdoc$/.test(attribute)) wrong.push(`${name} ${attribute}`);
        if (/^(?:href|src|action)$/.test(attribute) && !/^(?:\/(?!\/)|#)/.test(value))
          wrong.push(`${name} ${attribute}=${value}`);
      }
      if (name === 'script' && !isOwnScript(attributes)) wrong.push('script');
      inData = name === 'script' && attributes.type === 'application/json';
    },
    ontext(text) {
      if (inData) data += text;
    },
    onclosetag(name) {
      if (name === 'script') inData = false;
    },
  });
  parser.end(html);
  expect(wrong).toEqual([]);
  if (data !== '') expect(() => JSON.parse(data)).not.toThrow();
}

/** The build's own script, or data that no browser runs. */
function isOwnScript({ src, type, ...more }: Readonly<Record<string, string>>): boolean {
  if (type === 'application/json') return src === undefined && more.id === 'page';
  // The one without a type runs before the first paint.
  return (
    (type === 'module' || type === undefined) && /^\/assets\/[a-z]+-[A-Z0-9]+\.js$/.test(src ?? '')
  );
}
